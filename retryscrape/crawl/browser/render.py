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
    shown = await _settled(tab, options, challenged)
    if shown is not None and await _page_methods(tab, job):
        shown = await _settled(tab, options, challenged)
    if shown is not None and job.escalated:
        await _more(tab, options)
        shown = await _settled(tab, options, challenged)
    document, redirects = await _committed(tab), list(tab.wire.redirects)
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
    if wire.too_large:
        raise FetchError("too_large", At.TARGET, detail="the document is over DOWNLOAD_MAXSIZE")
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
    raise neterrors.fault_of(error)


async def _settled(
    tab: Tab, options: BrowserOptions, challenged: Callable[[Page], Kind | None]
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
            shown = await (glance(tab) if restless else look(tab, document, options))
        except Navigated:
            await asyncio.sleep(_PAUSE)
            continue
        if tab.wire.navigating and await moved(tab, document, _SOON):
            continue
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
            return shown


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


async def _page_methods(tab: Tab, job: Job) -> bool:
    """Carry out the user's ``playwright_page_methods``; whether there were any.

    What a page makes of them is the page's fault; errors of the user's own code go through.
    """
    from playwright.async_api import Error

    methods = job.request.meta.get("playwright_page_methods") or ()
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
