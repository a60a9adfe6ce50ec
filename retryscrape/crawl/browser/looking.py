"""Looking at a page from inside: when it rests, what it shows, whether it changes.

Scripts run through our own session; how long to wait is ``waits``'.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urldefrag

from msgspec import Struct

from retryscrape.crawl.browser import neterrors, waits
from retryscrape.crawl.browser.documents import Document, Rendered
from retryscrape.crawl.browser.options import BrowserOptions
from retryscrape.crawl.browser.waits import Look
from retryscrape.crawl.browser.wire import Wire
from retryscrape.crawl.faults import FetchError

if TYPE_CHECKING:
    from playwright.async_api import Page as PlaywrightPage

#: How Chromium shows an answer that says it is HTML and is JSON, or empty.
_BARE = re.compile(r"<html><head></head><body>\s*(?:[\[{]|</body></html>\s*$)")
#: Changes when a challenge clears without another document.
_MARK = "() => document.title + '/' + (document.body ? document.body.childElementCount : 0)"


#: Seconds on top of all its waits that a look may take.
_STILL = 3.0
#: Glances at a page that is being loaded, and seconds between them: one that loads itself again
#: and again was taken for one that never ends where the first glance fell into a load.
_GLANCES, _BETWEEN = 20, 0.05


class Navigated(Exception):
    """The document went away while it was looked at."""


class Broken(Exception):
    """The page's own scripts broke the one that looks at it."""


class Tab(Struct, eq=False):
    """A page and its wire. ``url`` is where it was sent last."""

    page: PlaywrightPage
    wire: Wire
    url: str = ""
    crashed: bool = False
    rendering: asyncio.Future[Rendered] | None = None


async def look(tab: Tab, document: Document, options: BrowserOptions) -> Look:
    """The page when it rests. Raises Navigated if it went away or broke off meanwhile."""
    good = 200 <= document.status < 300
    arguments = waits.arguments(
        options.waits, enough=options.enough_text, require=options.require, good=good
    )
    deadline = asyncio.get_running_loop().time() + options.waits.limit
    while True:
        try:
            async with asyncio.timeout(options.waits.limit + options.waits.hang + _STILL):
                value = await tab.wire.unspoilt(evaluate(tab, waits.LOOK, arguments))
        except Broken:
            return await glance(tab)
        except TimeoutError:  # a page that lets no timer run (a sandbox of its own)
            return await glance(tab)
        if value is None:
            raise Navigated
        shown = _seen(tab, value)
        left = deadline - asyncio.get_running_loop().time()
        if not good or left <= 0 or not tab.wire.pending(options.waits.hang):
            return shown
        # content may be under way: one more look when it has come, or is late
        await tab.wire.change(min(left, options.waits.hang))


async def glance(tab: Tab) -> Look:
    """The page as it is now; one that waits for a script of somebody else's as it was sent.
    Raises FetchError for one that is still being loaded."""
    try:
        for _ in range(_GLANCES):
            value = await evaluate(tab, waits.GLANCE, None)
            if not value.get("loading"):
                return _seen(tab, value)
            await asyncio.sleep(_BETWEEN)
    except Broken:
        raise FetchError("render_timeout", detail="the page cannot be looked at") from None
    document = tab.wire.shown
    if document is not None and tab.wire.whole(document):
        with suppress(Exception):
            html = (await _sent(tab, document)).decode("utf-8", "replace")
            return Look(html=html, url=document.url)
    raise FetchError("render_timeout", detail="the page never stopped loading")


def _seen(tab: Tab, value: Any) -> Look:
    """What the script gave. Not on the web (an error page of Chromium's): raises FetchError."""
    look = Look.of(value)
    if not look.url.startswith(("http:", "https:")):
        raise neterrors.fault_of(next(reversed(tab.wire.failures.values()), ""))
    return look


async def moved(tab: Tab, document: Document, seconds: float) -> bool:
    """Whether another document comes within so many seconds."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while (left := deadline - loop.time()) > 0:
        final = tab.wire.final
        if final is not document and final is not None:
            return True
        await tab.wire.change(left)
    return False


async def cleared(tab: Tab, document: Document, seconds: float) -> bool:
    """Whether the page changes within so many seconds: another document, or another title
    or length. Polling, because a challenge may do either (probes.md, part A)."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    mark = None
    while (left := deadline - loop.time()) > 0:
        if await moved(tab, document, min(left, 0.5)):
            return True
        with suppress(Navigated, Broken):
            seen = await evaluate(tab, _MARK, None)
            if mark is not None and seen != mark:
                return True
            mark = seen
    return False


async def as_sent(tab: Tab, document: Document, look: Look) -> bytes | None:
    """The bytes of an answer that said HTML and was JSON, or nothing at all; else None."""
    if not _BARE.match(look.html):
        return None
    with suppress(Exception):
        body = await _sent(tab, document)
        if body.strip():
            json.loads(body)
        return body
    return None


async def _sent(tab: Tab, document: Document) -> bytes:
    sent = await tab.wire.session.send("Network.getResponseBody", {"requestId": document.id})
    return base64.b64decode(sent["body"]) if sent["base64Encoded"] else sent["body"].encode()


async def evaluate(tab: Tab, script: str, argument: Any) -> Any:
    """Call a function in the page; raises Navigated if the document goes away meanwhile.

    Through our own session: Playwright's would still look at the old document for a moment
    after a navigation that it did not make.
    """
    from playwright.async_api import Error

    expression = f"({script})({json.dumps(argument)})"
    wanted = {"expression": expression, "awaitPromise": True, "returnByValue": True}
    try:
        answer = await tab.wire.session.send("Runtime.evaluate", wanted)
    except Error as error:
        if "navigated" in error.message or "context" in error.message.lower():
            raise Navigated from None
        if "Promise was collected" in error.message:  # no timer of it is left
            raise Broken from None
        raise
    if "exceptionDetails" in answer:
        raise Broken
    return answer["result"].get("value") or {}


def same_document(first: str, second: str) -> bool:
    """Whether a browser would take going from one to the other for a jump within the page."""
    return urldefrag(first).url == urldefrag(second).url
