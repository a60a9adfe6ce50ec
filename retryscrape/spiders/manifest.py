"""ManifestSpider: the base that users write their spiders on.

Theirs are ``validate`` and ``parse``; retries, exits, ledger and re-drive are the
base's and happen before their code sees a page.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import AsyncIterator, Mapping
from typing import Any

from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.http import Response
from scrapy.settings import BaseSettings
from scrapy.utils.misc import load_object
from twisted.python.failure import Failure

from retryscrape.crawl.feeder import Feeder
from retryscrape.crawl.items import failure_item, no_result, page_item
from retryscrape.crawl.middlewares import SETTLED, settle_failure
from retryscrape.crawl.runtime import Run
from retryscrape.crawl.scraper import ITEMS_ONLY, LeanScraper
from retryscrape.crawl.settle import Settler

logger = logging.getLogger("retryscrape")

#: Scrapy's spider middlewares that have nothing to do where only pages come out.
_IDLE = (
    "scrapy.spidermiddlewares.start.StartSpiderMiddleware",
    "scrapy.spidermiddlewares.httperror.HttpErrorMiddleware",
    "scrapy.spidermiddlewares.urllength.UrlLengthMiddleware",
    "scrapy.spidermiddlewares.depth.DepthMiddleware",
    "scrapy.spidermiddlewares.metacopy.MetaCopyDetectionMiddleware",
    "retryscrape.crawl.ordinary.OrdinaryMiddleware",
)


class ManifestSpider(Spider):
    """Crawls the URLs of a manifest into the ledger, each once.

    Arguments are listed in docs/reference/arguments.md. A subclass may define
    ``validate`` and ``parse``; everything else is the base's.
    """

    run: Run
    #: the arguments as given, before they were checked
    given: Mapping[str, Any]

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Any:
        spider = super().from_crawler(crawler, *args, **kwargs)
        spider.given = dict(kwargs)
        spider.run = Run.of(crawler)
        return spider

    @classmethod
    def update_settings(cls, settings: BaseSettings) -> None:
        """One item at a time, unless the project has chosen: it keeps a page's row behind the
        user's items, and Scrapy's 100 tasks a response cost a third of the speed (500 pages a
        CPU second against 710)."""
        super().update_settings(settings)
        if not settings.getpriority("CONCURRENT_ITEMS"):
            settings.set("CONCURRENT_ITEMS", 1, priority="addon")
        if cls.parse is ManifestSpider.parse:
            cls._leave_out_the_idle(settings)

    @staticmethod
    def _leave_out_the_idle(settings: BaseSettings) -> None:
        """Pages only: no callback yields a request or an item that Scrapy's own spider
        middlewares would look at, and each costs steps of a generator on every page."""
        name = "SPIDER_MIDDLEWARES"
        for path in _IDLE:
            settings.setdefault_in_component_priority_dict(name, load_object(path), None)
        # CrawlerProcess puts the project's value in again, at the project's priority
        settings.set(name, settings.getdict(name), priority="spider")

    def validate(self, response: Response) -> str | None:
        """Say why a page is not good enough, or return None.

        Called for every page that is no block page and passes the other checks.
        With a reason the page counts as ``invalid`` and goes up the ladder.
        """
        return None

    def parse(self, response: Response, **kwargs: Any) -> Any:
        """Yield items of a good page. Its row is a success only if nothing is raised here."""
        return None

    def make_request(self, url: str, fields: Mapping[str, Any]) -> Request:
        """The request for one line of the manifest; ``fields`` are its other columns."""
        # a method of its own where nobody's parse() has a say: no generator to step through
        plain = type(self).parse is ManifestSpider.parse
        callback = self.handle_plain_page if plain else self.handle_page
        return Request(url, callback=callback, errback=self.handle_failure)

    async def start(self) -> AsyncIterator[Any]:
        if self.run.books is None:
            return
        feeder = Feeder
        if self.run.worker is not None:
            from retryscrape.crawl.drain import Drain

            feeder = Drain
        requests = feeder(self.run, self).requests()
        engine = self.crawler.engine
        scraper = engine.scraper if engine is not None else None
        plain = type(self).start is ManifestSpider.start
        if engine is None or not (plain and isinstance(scraper, LeanScraper) and scraper.bare):
            async for request in requests:
                yield request
            return
        async for request in requests:
            if engine.spider is None:  # closed while the manifest was being read
                return
            # what Scrapy does with it, without a turn of its loop for each
            engine.crawl(request)

    async def handle_page(self, response: Response) -> AsyncIterator[Any]:
        """The callback of every good page: the user's items first, the row last, so that
        an error of theirs is not taken for a success."""
        settled = response.meta[SETTLED]
        try:
            async for output in _outputs(self.parse(response)):
                yield output
        except Exception as error:
            yield no_result(settled, f"parse() failed: {type(error).__name__}: {error}")
            raise
        yield page_item(settled, response)

    def handle_plain_page(self, response: Response) -> tuple[Any, ...]:
        """The same for spiders without a ``parse`` of their own."""
        return (page_item(response.meta[SETTLED], response),)

    setattr(handle_plain_page, ITEMS_ONLY, True)

    async def handle_failure(self, failure: Failure) -> AsyncIterator[Any]:
        """The errback: a failure that is settled, or an error that passed by our middlewares."""
        request: Request = failure.request  # type: ignore[attr-defined]
        assert failure.value is not None
        settled = settle_failure(Settler(self.run), request, failure.value)
        yield settled if isinstance(settled, Request) else failure_item(settled)


async def _outputs(outputs: Any) -> AsyncIterator[Any]:
    """What a callback gave, whatever way it gave it."""
    if inspect.isawaitable(outputs):
        outputs = await outputs
    if outputs is None:
        return
    if hasattr(outputs, "__aiter__"):
        async for output in outputs:
            yield output
        return
    if isinstance(outputs, (Mapping, Request)) or not hasattr(outputs, "__iter__"):
        outputs = (outputs,)
    for output in outputs:
        yield output
