"""One page in one tab: there, until it rests, past its challenge, and what it then shows.

Bounded waits only; the watchdog over all of it is the handler's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from msgspec import Struct
from scrapy import Request

from retryscrape.crawl.browser import neterrors, waits
from retryscrape.crawl.browser.documents import Document, Rendered, page_of
from retryscrape.crawl.browser.gate import Override
from retryscrape.crawl.browser.looking import (
    Broken,
    Navigated,
    Tab,
    as_sent,
    cleared,
    evaluate,
    glance,
    look,
    moved,
)
from retryscrape.crawl.browser.options import BrowserOptions
from retryscrape.crawl.browser.waits import Look
from retryscrape.crawl.faults import At, FetchError
from retryscrape.crawl.keys import METHODS
from retryscrape.policy.outcomes import Kind, Page

#: Headers of the plain downloader, or that only the browser can set rightly.
_NOT_PASSED = frozenset(
    b"accept accept-encoding accept-language authorization connection content-length cookie "
    b"host proxy-authorization proxy-connection referer user-agent".split()
)
#: Seconds for a commit that was announced to be seen, and for a look that should be instant.
_SOON = 5.0
#: Seconds between looks at a page that keeps going elsewhere.
_PAUSE = 0.05


class Job(Struct, frozen=True, kw_only=True):
    """What is to be rendered, and how hard to try."""

    request: Request
    escalated: bool = False
    cached: bool = True


async def render(
    tab: Tab, job: Job, options: BrowserOptions, challenged: Callable[[Page], Kind | None]
) -> Rendered:
    """The final page. Raises FetchError, and Playwright's errors if the browser goes away."""
    error = await _go(tab, job)
    if error and (answer := _answer(tab, error)):
        return answer
    document, shown = await _settled(tab, options, challenged)
    if shown is not None and await _page_methods(tab, job):
        document, shown = await _settled(tab, options, challenged)
    if shown is not None and job.escalated:
        await _more(tab, options)
        document, shown = await _settled(tab, options, challenged)
    tab.wire.check(document)
    redirects = list(tab.wire.redirects)
    if shown is None:
        return Rendered(document, document.url, redirects=redirects)
    document.body = await as_sent(tab, document, shown)
    return Rendered(document, shown.url, shown.html, redirects=redirects)


async def _go(tab: Tab, job: Job) -> str:
    request = job.request
    tab.url = request.url
    headers = {
        name.decode("latin-1"): b", ".join(values).decode("latin-1")
        for name, values in request.headers.items()
        if name.lower() not in _NOT_PASSED
    }
    override = Override(method=request.method, headers=headers, body=request.body)
    referrer = (request.headers.get("Referer") or b"").decode("latin-1")
    return await tab.wire.navigate(
        request.url, referrer=referrer, override=override, cached=job.cached
    )


def _answer(tab: Tab, error: str) -> Rendered | None:
    """What a failed navigation still brought; None: another one is on its way.

    Raises FetchError where it brought nothing.
    """
    wire, name = tab.wire, neterrors.name_of(error)
    wire.check()
    hops = list(wire.redirects)
    if name == neterrors.TOO_MANY_REDIRECTS and hops:
        hops[-1].body = b""
        return Rendered(hops[-1], hops[-1].url, redirects=hops)
    if name == neterrors.LOGIN_WANTED and (wanted := wire.unauthorized):
        return Rendered(wanted, wanted.url, redirects=hops)
    last = wire.documents[-1] if wire.documents else None
    if name == neterrors.EMPTY_ANSWER and last:
        last.body = b""
        return Rendered(last, last.url, redirects=hops)
    if last and last.body is not None:
        return Rendered(last, last.url, redirects=hops)
    if name == neterrors.ABORTED and wire.navigating:
        return None
    if name == neterrors.ABORTED and hops and hops[-1].leaves_the_web:
        raise FetchError("scheme", At.TARGET, detail="a redirect to another scheme")
    raise neterrors.fault_of(error)


async def _settled(
    tab: Tab, options: BrowserOptions, challenged: Callable[[Page], Kind | None]
) -> tuple[Document, Look | None]:
    """The page at rest, its challenge cleared or given up; no look if it became no page."""
    loop = asyncio.get_running_loop()
    start = loop.time()
    seen: tuple[Document, Look] | None = None
    while True:
        document = await _committed(tab)
        if document.body is not None:
            return await _above(tab, document, options, challenged)
        restless = loop.time() - start - options.waits.challenge
        if restless > options.waits.limit:
            return _given_up(document, seen, options.enough_text)
        try:
            shown = await (glance(tab) if restless > 0 else look(tab, document, options))
        except Navigated:
            await asyncio.sleep(_PAUSE)
            continue
        seen = document, shown
        if tab.wire.navigating and await moved(tab, document, _SOON):
            continue
        if tab.wire.final is not document:
            continue  # what was seen is of the one before
        kind = challenged(page_of(document, shown.url, shown.html))
        bear = waits.patience(
            options.waits,
            kind=kind,
            status=document.status,
            look=shown,
            enough=options.enough_text,
        )
        left = bear - (loop.time() - start)
        if left <= 0 or not await cleared(tab, document, left):
            return document, shown


async def _above(
    tab: Tab, file: Document, options: BrowserOptions, challenged: Callable[[Page], Kind | None]
) -> tuple[Document, Look | None]:
    """A file that is there instead of a page; the page where a good one had it fetched."""
    page = tab.wire.shown
    if page is None or not 200 <= page.status < 300:
        return file, None
    with suppress(Navigated):
        shown = await look(tab, page, options)
        kind = challenged(page_of(page, shown.url, shown.html))
        if tab.wire.shown is page and kind is None and shown.text >= options.enough_text:
            return page, shown
    return file, None


def _given_up(
    document: Document, seen: tuple[Document, Look] | None, enough: int
) -> tuple[Document, Look]:
    """Of a page that keeps going elsewhere what was seen last, if that has its text; an error's
    status says enough by itself."""
    if seen is not None and (seen[1].text >= enough or seen[0].status >= 400):
        return seen
    if document.status >= 400:
        return document, Look(html="", url=document.url)
    raise FetchError("render_timeout", detail="the page never came to rest")


async def _committed(tab: Tab) -> Document:
    """The document that the tab shows, once it is there."""
    deadline = asyncio.get_running_loop().time() + _SOON
    while True:
        wire = tab.wire
        wire.check()
        final = wire.final
        if final is not None:
            wire.check(final)
            return final
        left = deadline - asyncio.get_running_loop().time()
        if left <= 0:
            failed = next(reversed(wire.failures.values()), "")
            raise neterrors.fault_of(failed)
        await wire.change(left)


async def _page_methods(tab: Tab, job: Job) -> bool:
    """Carry out the user's ``playwright_page_methods``; whether there were any.

    What a page makes of them is the page's fault; errors of the user's own code go through.
    """
    from playwright.async_api import Error

    methods = job.request.meta.get(METHODS) or ()
    for method in methods.values() if isinstance(methods, dict) else methods:
        call = method.method
        try:
            bound = partial(call, tab.page) if callable(call) else getattr(tab.page, call)
            result = bound(*method.args, **method.kwargs)
            method.result = await result if hasattr(result, "__await__") else result
        except Error as error:
            if "closed" in error.message or "crashed" in error.message:
                raise
            text = " ".join(error.message.split("\n", 1)[0].split())[:120]
            raise FetchError("render_timeout", detail=f"page method {call}: {text}") from None
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
