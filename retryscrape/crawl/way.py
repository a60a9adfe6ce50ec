"""The way of a request through Scrapy's engine, from the scheduler to its end, in one task.

Scrapy's own is two generators, five Deferreds and as many functions for each request, for which
there is no setting; what is done, and in which order, is the same (docs/performance.md).
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from scrapy import Request, signals
from scrapy.core.engine import ExecutionEngine
from scrapy.http import Response
from scrapy.utils.log import logformatter_adapter

from retryscrape.crawl.downloader import RoomyDownloader
from retryscrape.crawl.scraper import LeanScraper
from retryscrape.crawl.tasks import kept

logger = logging.getLogger("scrapy.core.engine")


class Way:
    """For one engine whose downloader and scraper are ours."""

    def __init__(
        self, engine: ExecutionEngine, downloader: RoomyDownloader, scraper: LeanScraper
    ) -> None:
        self._engine = engine
        self._downloader = downloader
        self._scraper = scraper
        self._tasks: set[asyncio.Task[None]] = set()

    @classmethod
    def take_over(cls, engine: Any) -> None:
        """An engine of the project's own, or with parts of its own, is left as it is."""
        if type(engine) is not ExecutionEngine:
            return
        downloader, scraper = engine.downloader, engine.scraper
        if isinstance(downloader, RoomyDownloader) and isinstance(scraper, LeanScraper):
            way: Any = cls(engine, downloader, scraper)
            engine._start_scheduled_request = way.start  # type: ignore[method-assign]

    def start(self) -> bool:
        """Let the next request go; false if none may leave now."""
        slot: Any = self._engine._slot
        request = slot.scheduler.next_request()
        if request is None:
            self._engine.signals.send_catch_log(signals.scheduler_empty)
            return False
        slot.add_request(request)
        self._downloader.active.add(request)
        kept(self._go(request, slot), self._tasks)
        return True

    async def _go(self, request: Request, slot: Any) -> None:
        try:
            result = await self._downloader.fetched(request)
            slot.nextcall.schedule()
            if isinstance(result, Response):
                self._tell(result, request)
            if isinstance(result, Request):
                self._engine.crawl(result)
            else:
                await self._scraper.scrape(result, request)
        except Exception:
            logger.exception("Error while handling downloader output")
        finally:
            slot.remove_request(request)
            slot.nextcall.schedule()

    def _tell(self, response: Response, request: Request) -> None:
        engine: Any = self._engine
        if response.request is None:
            response.request = request
        said = engine.logformatter.crawled(response.request, response, engine.spider)
        if said is not None:
            logger.log(*logformatter_adapter(said), extra={"spider": engine.spider})
        engine.signals.send_catch_log(
            signal=signals.response_received,
            response=response,
            request=response.request,
            spider=engine.spider,
        )
