"""One page in one tab: there, until it rests, past its challenge, and what it then shows.

Bounded waits only; the watchdog over all of it is the handler's.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urldefrag

from scrapy import Request

from retryscrape.crawl.browser import neterrors, waits
from retryscrape.crawl.browser.documents import Document, Rendered, page_of
from retryscrape.crawl.browser.options import BrowserOptions
from retryscrape.crawl.browser.waits import Look
from retryscrape.crawl.browser.wire import Override, Wire
from retryscrape.crawl.faults import At, FetchError
from retryscrape.policy.outcomes import Kind, Page

if TYPE_CHECKING:
    from playwright.async_api import Page as PlaywrightPage

#: Headers of the plain downloader, or that only the browser can set rightly.
_NOT_PASSED = frozenset(
    b"accept accept-encoding accept-language authorization connection content-length cookie "
    b"host proxy-authorization proxy-connection referer user-agent".split()
)
#: How Chromium shows an answer that says it is HTML and is JSON, or empty.
_BARE = re.compile(r"<html><head></head><body>\s*(?:[\[{]|</body></html>\s*$)")
#: Seconds for a commit that was announced to be seen, and for a look that should be instant.
_SOON = 5.0
#: Seconds between looks at a page that keeps going elsewhere.
_PAUSE = 0.05


class Navigated(Exception):
    """The document went away while it was looked at."""


class Broken(Exception):
    """The page's own scripts broke the one that looks at it."""


@dataclass(slots=True, eq=False)
class Tab:
    """A page and its wire. ``url`` is where it was sent last."""

    page: PlaywrightPage
    wire: Wire
    url: str = ""
    crashed: bool = False
    rendering: asyncio.Future[Rendered] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What is to be rendered, and how hard to try."""

    request: Request
    proxied: bool
    escalated: bool = False
    cached: bool = True


async def render(
    tab: Tab, job: Job, options: BrowserOptions, challenged: Callable[[Page], Kind | None]
) -> Rendered:
    """The final page. Raises FetchError, and Playwright's errors if the browser goes away."""
    error = await _go(tab, job)
    if error and (answer := _answer(tab, error, job)):
        return answer
    look = await _settled(tab, job, options, challenged)
    if look is not None and await _page_methods(tab, job):
        look = await _settled(tab, job, options, challenged)
    if look is not None and job.escalated:
        await _more(tab, options)
        look = await _settled(tab, job, options, challenged)
    document = tab.wire.final
    assert document is not None
    if look is None:
        return Rendered(document, document.url, redirects=list(tab.wire.redirects))
    document.body = await _as_sent(tab, document, look)
    return Rendered(document, look.url, look.html, redirects=list(tab.wire.redirects))


async def _go(tab: Tab, job: Job) -> str:
    request = job.request
    tab.url = request.url
    headers = {
        name.decode("latin-1"): b", ".join(values).decode("latin-1")
        for name, values in request.headers.items()
        if name.lower() not in _NOT_PASSED
    }
    override = Override(url=request.url, method=request.method, headers=headers, body=request.body)
    referrer = (request.headers.get("Referer") or b"").decode("latin-1")
    return await tab.wire.navigate(
        request.url, referrer=referrer, override=override, cached=job.cached
    )


def _answer(tab: Tab, error: str, job: Job) -> Rendered | None:
    """What a failed navigation still brought; None: another one is on its way.

    Raises FetchError where it brought nothing.
    """
    wire, name = tab.wire, neterrors.name_of(error)
    if wire.too_large:
        raise FetchError("too_large", At.TARGET, detail="the document is over DOWNLOAD_MAXSIZE")
    hops = list(wire.redirects)
    if name == neterrors.TOO_MANY_REDIRECTS and hops:
        hops[-1].body = b""
        return Rendered(hops[-1], hops[-1].url, redirects=hops)
    last = wire.documents[-1] if wire.documents else None
    if name == neterrors.EMPTY_ANSWER and last:
        last.body = b""
        return Rendered(last, last.url, redirects=hops)
    if last and last.body is not None:
        return Rendered(last, last.url, redirects=hops)
    if name == neterrors.ABORTED and wire.navigating:
        return None
    raise neterrors.fault_of(error)


async def _settled(
    tab: Tab, job: Job, options: BrowserOptions, challenged: Callable[[Page], Kind | None]
) -> Look | None:
    """The page at rest, its challenge cleared or given up; None if it became no page."""
    loop = asyncio.get_running_loop()
    start = loop.time()
    while True:
        document = await _committed(tab)
        if document.body is not None:
            return None
        try:
            restless = loop.time() - start > options.waits.challenge
            look = await (_glance(tab) if restless else _look(tab, document, options))
        except Navigated:
            await asyncio.sleep(_PAUSE)
            continue
        if tab.wire.navigating and await _moved(tab, document, _SOON):
            continue
        kind = challenged(page_of(document, look.url, look.html))
        bear = waits.patience(
            options.waits,
            kind=kind,
            status=document.status,
            look=look,
            enough=options.enough_text,
        )
        left = bear - (loop.time() - start)
        if left <= 0 or not await _cleared(tab, document, look, left):
            return look


async def _committed(tab: Tab) -> Document:
    """The document that the tab shows, once it is there."""
    deadline = asyncio.get_running_loop().time() + _SOON
    while True:
        wire = tab.wire
        if wire.too_large:
            raise FetchError("too_large", At.TARGET, detail="the document is over DOWNLOAD_MAXSIZE")
        final = wire.final
        if final is not None:
            if final.id in wire.failures and final.body is None:
                raise neterrors.fault_of(wire.failures[final.id])
            return final
        left = deadline - asyncio.get_running_loop().time()
        if left <= 0:
            failed = next(reversed(wire.failures.values()), "")
            raise neterrors.fault_of(failed)
        await wire.change(left)


async def _look(tab: Tab, document: Document, options: BrowserOptions) -> Look:
    good = 200 <= document.status < 300
    arguments = waits.arguments(
        options.waits, enough=options.enough_text, require=options.require, good=good
    )
    deadline = asyncio.get_running_loop().time() + options.waits.limit
    while True:
        try:
            value = await tab.wire.unspoilt(evaluate(tab, waits.LOOK, arguments))
        except Broken:
            return await _glance(tab)
        if value is None:
            raise Navigated
        look = _seen(tab, value)
        left = deadline - asyncio.get_running_loop().time()
        if not good or left <= 0 or not tab.wire.pending(options.waits.hang):
            return look
        # content may be under way: one more look when it has come, or is late
        await tab.wire.change(min(left, options.waits.hang))


async def _glance(tab: Tab) -> Look:
    try:
        return _seen(tab, await evaluate(tab, waits.GLANCE, None))
    except Broken:
        raise FetchError("render_timeout", detail="the page cannot be looked at") from None


def _seen(tab: Tab, value: Any) -> Look:
    """What the script gave. Not on the web (an error page of Chromium's): raises FetchError."""
    look = Look.of(value)
    if not look.url.startswith(("http:", "https:")):
        raise neterrors.fault_of(next(reversed(tab.wire.failures.values()), ""))
    return look


async def _moved(tab: Tab, document: Document, seconds: float) -> bool:
    """Whether another document comes within so many seconds."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while (left := deadline - loop.time()) > 0:
        final = tab.wire.final
        if final is not document and final is not None:
            return True
        await tab.wire.change(left)
    return False


async def _cleared(tab: Tab, document: Document, look: Look, seconds: float) -> bool:
    """Whether the page changes within so many seconds: another document, or another title
    or length. Polling, because a challenge may do either (probes.md, part A)."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    mark = None
    while (left := deadline - loop.time()) > 0:
        if await _moved(tab, document, min(left, 0.5)):
            return True
        with suppress(Navigated, Broken):
            seen = await evaluate(
                tab, "() => document.title + '/' + (document.body || '').childElementCount", None
            )
            if mark is not None and seen != mark:
                return True
            mark = seen
    return False


async def _page_methods(tab: Tab, job: Job) -> bool:
    """Carry out the user's ``playwright_page_methods``; whether there were any."""
    methods = job.request.meta.get("playwright_page_methods") or ()
    for method in methods.values() if isinstance(methods, dict) else methods:
        if callable(method.method):
            result = method.method(tab.page, *method.args, **method.kwargs)
        else:
            result = getattr(tab.page, method.method)(*method.args, **method.kwargs)
        if hasattr(result, "__await__"):
            result = await result
        method.result = result
    return bool(methods)


async def _more(tab: Tab, options: BrowserOptions) -> None:
    """Scroll to the end for what loads late, then let the network come to rest; both bounded."""
    with suppress(Navigated, Broken):
        await evaluate(tab, waits.SCROLL, options.waits.scroll * 1000)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + options.waits.network
    while (left := deadline - loop.time()) > 0:
        busy = tab.wire.pending(options.waits.network, None)
        if not await tab.wire.change(min(left, 0.5)) and not busy:
            return


async def _as_sent(tab: Tab, document: Document, look: Look) -> bytes | None:
    """The bytes of an answer that said HTML and was JSON, or nothing at all; else None."""
    if not _BARE.match(look.html):
        return None
    with suppress(Exception):
        sent = await tab.wire.session.send("Network.getResponseBody", {"requestId": document.id})
        body = base64.b64decode(sent["body"]) if sent["base64Encoded"] else sent["body"].encode()
        if body.strip():
            json.loads(body)
        return bytes(body)
    return None


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
        raise
    if "exceptionDetails" in answer:
        raise Broken
    return answer["result"].get("value") or {}


def same_document(first: str, second: str) -> bool:
    """Whether a browser would take going from one to the other for a jump within the page."""
    return urldefrag(first).url == urldefrag(second).url
