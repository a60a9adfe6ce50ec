"""Scrapy's scraper with a shorter way for what is ordinary: one task a page.

Scrapy's own starts a task for the page, two for the queue of its one item, one for each
listener of ``item_scraped``, and takes the page through a chain of generators: a fifth of
the engine's time on pages that have no other items (docs/performance.md).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable
from typing import Any

from scrapy import Request
from scrapy.core.engine import ExecutionEngine
from scrapy.core.scraper import Scraper
from scrapy.http import Response
from scrapy.spidermiddlewares.referer import RefererMiddleware
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from retryscrape.crawl.tasks import kept
from retryscrape.crawl.telling import DirectSignals

logger = logging.getLogger("retryscrape")

#: A callback with this attribute returns a tuple of items, and no request.
ITEMS_ONLY = "_returns_items_only"


class LeanScraper(Scraper):
    """Takes the place of the engine's scraper before the spider is opened."""

    @classmethod
    def take_over(cls, engine: ExecutionEngine) -> None:
        """There is no setting for it. A project that has put another one there keeps it."""
        if type(getattr(engine, "scraper", None)) is not Scraper:
            return
        own = cls.__new__(cls)
        own.__dict__ = engine.scraper.__dict__
        own.signals = engine.signals = DirectSignals(own.signals.sender)
        # Referer looks at requests only
        own.bare = all(type(mw) is RefererMiddleware for mw in own.spidermw.middlewares)
        own._tasks = set()
        engine.scraper = own

    #: whether no spider middleware has a say in requests of the start, or in items
    bare: bool
    _tasks: set[asyncio.Task[None]]

    def enqueue_scrape(self, result: Response | Failure, request: Request) -> Deferred[None]:
        done: Deferred[None] = Deferred()
        kept(self._process(result, request, done), self._tasks)
        return done

    async def _process(
        self, result: Response | Failure, request: Request, done: Deferred[None]
    ) -> None:
        await self.scrape(result, request)
        done.callback(None)

    async def scrape(self, result: Response | Failure, request: Request) -> None:
        """What ``enqueue_scrape`` does, for those who wait for it in a task of their own."""
        if self.slot is None:
            raise RuntimeError("Scraper slot not assigned")
        self.slot.add_response_request(result, request)
        self.slot.next_response_request_deferred()  # nothing else is in the queue
        try:
            await self._scrape(result, request)
        except Exception:
            logger.exception("Scraper bug processing %s", request)
        finally:
            self.slot.finish_response(result, request)
            self._check_if_closing()

    async def _scrape(self, result: Response | Failure, request: Request) -> None:
        callback: Any = request.callback
        if not (self.bare and isinstance(result, Response) and hasattr(callback, ITEMS_ONLY)):
            await super()._scrape(result, request)
            return
        try:
            items = callback(result, **request.cb_kwargs)
        except Exception:
            self.handle_spider_error(Failure(), request, result)  # type: ignore[no-untyped-call]
            return
        for item in items:
            await self.start_itemproc_async(item, response=result)

    async def handle_spider_output_async(
        self,
        result: Iterable[Any] | AsyncIterator[Any],
        request: Request,
        response: Response | Failure,
    ) -> None:
        if self.concurrent_items != 1 or not isinstance(result, AsyncIterator):
            await super().handle_spider_output_async(result, request, response)
            return
        # one at a time: no queue, and no task that takes from it
        while True:
            try:
                output = await anext(result)
            except StopAsyncIteration:
                return
            except Exception:
                self.handle_spider_error(Failure(), request, response)  # type: ignore[no-untyped-call]
                continue
            await self._process_spidermw_output_async(output, response)
