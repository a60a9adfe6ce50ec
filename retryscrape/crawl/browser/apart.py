"""The browser in a process of its own: what Playwright's client costs (10 ms of Python a page)
is then no time of the crawl's. One process at a time; the next page after its end starts
another."""

from __future__ import annotations

import asyncio
import itertools
import sys
from typing import TYPE_CHECKING, Unpack

from scrapy.http import Response

from retryscrape.crawl.browser.helper import Helper
from retryscrape.crawl.browser.orders import (
    Answer,
    Call,
    Order,
    Setup,
    methods_of,
    order_of,
    setup_of,
)
from retryscrape.crawl.faults import At, FetchError

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.statscollectors import StatsCollector

    from retryscrape.crawl.browser.options import BrowserOptions, How


class Apart:
    """Nothing is started before the first page."""

    @classmethod
    def of(cls, crawler: Crawler, options: BrowserOptions) -> Apart | None:
        """None where the browser cannot be apart: it takes code of the user's, or there is no
        interpreter to run."""
        setup = setup_of(crawler.settings, options)
        if setup is None or not sys.executable or sys.platform == "win32":
            return None
        assert crawler.stats is not None
        return cls(setup, crawler.stats)

    def __init__(self, setup: Setup, stats: StatsCollector) -> None:
        self._setup = setup
        self._stats = stats
        self._helper: Helper | None = None
        self._starting = asyncio.Lock()
        self._pages = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._numbers = itertools.count()
        self._closed = False
        #: what rendered pages say they are, as the last one told
        self.user_agent: str | None = None

    async def fetch(self, request: Request, calls: list[Call], **how: Unpack[How]) -> Response:
        """Render a request, as ``Browser.fetch`` does; ``calls`` are its page's methods."""
        self._pages += 1
        self._idle.clear()
        try:
            answer = await self._answer(order_of(next(self._numbers), request, calls, how))
        finally:
            self._pages -= 1
            if not self._pages:
                self._idle.set()
        self.user_agent = answer.user_agent
        return taken(answer, request)

    async def retire(self) -> None:
        """Close once what is under way has ended, and what still waits for the process's start."""
        await self._idle.wait()
        await self.close()

    async def close(self) -> None:
        """End the process, its driver and its browser; seconds at most."""
        self._closed = True
        async with self._starting:
            if self._helper is not None:
                await self._helper.close()

    async def _answer(self, order: Order) -> Answer:
        """A process that dies before it takes orders may have been killed: the next one tells."""
        try:
            return await (await self._running()).render(order)
        except FetchError as error:
            if error.reason != "unavailable" or self._closed:
                raise
        return await (await self._running()).render(order)

    async def _running(self) -> Helper:
        async with self._starting:
            if self._closed:
                raise FetchError("cancelled", At.TARGET)
            if self._helper is None or self._helper.gone:
                self._helper = await Helper.start(self._setup, self._stats)
            return self._helper


def taken(answer: Answer, request: Request) -> Response:
    """The response, with all that ``Browser.fetch`` would have set; raises the page's error."""
    request.meta.update(answer.meta)
    for method, result in zip(methods_of(request), answer.results, strict=False):
        method.result = result
    if isinstance(answer.end, Exception):
        raise answer.end
    answer.end.request = request
    return answer.end
