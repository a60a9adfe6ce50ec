"""The browser beside the crawl, as the crawl knows it: in a process of its own, or on a thread
of this one as soon as a page needs code of the user's. What a page does is ``handler``'s."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Unpack

from scrapy.http import Response

from retryscrape.crawl.browser.apart import Apart
from retryscrape.crawl.browser.orders import calls_of
from retryscrape.crawl.faults import At, FetchError

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler

    from retryscrape.crawl.browser.options import BrowserOptions, How
    from retryscrape.crawl.browser.thread import OnThread


class Aside:
    """One for all schemes, like ``Browser``. Nothing is started before the first page.

    The first page that needs the user's code takes all later ones with it to the thread: two
    browsers would be twice the pages at once, and the memory.
    """

    def __init__(self, crawler: Crawler, options: BrowserOptions) -> None:
        self._crawler = crawler
        self._options = options
        self._slots = asyncio.Semaphore(options.slots)
        self._apart = Apart.of(crawler, options)
        self._thread: OnThread | None = None
        self._retiring: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def user_agent(self) -> str | None:
        """What rendered pages say they are; None before the first one."""
        way = self._thread or self._apart
        return self._options.user_agent or (way.user_agent if way else None)

    async def fetch(self, request: Request, **how: Unpack[How]) -> Response:
        """Render a request, as ``Browser.fetch`` does."""
        async with self._slots:
            if self._closed:
                raise FetchError("cancelled", At.TARGET)
            calls = calls_of(request) if self._thread is None else None
            if self._apart is not None and calls is not None:
                return await self._apart.fetch(request, calls, **how)
            return await self._on_thread().fetch(request, **how)

    async def close(self) -> None:
        """End all pages, the browser and its driver, and what they ran in; seconds at most."""
        self._closed = True
        ways = [way for way in (self._apart, self._thread) if way is not None]
        await asyncio.gather(*(way.close() for way in ways))
        if self._retiring is not None:
            await self._retiring

    def _on_thread(self) -> OnThread:
        if self._thread is None:
            from retryscrape.crawl.browser.thread import OnThread

            self._thread = OnThread(self._crawler, self._options)
            if self._apart is not None:
                self._retiring = asyncio.create_task(self._apart.retire())
        return self._thread
