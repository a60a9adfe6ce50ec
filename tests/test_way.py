"""A request goes through the engine in one task as it does in Scrapy's own way, signal for signal."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from scrapy import Request, Spider, signals
from scrapy.core.engine import ExecutionEngine
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Response
from scrapy.utils.test import get_crawler

from retryscrape.crawl.downloader import RoomyDownloader
from retryscrape.crawl.scraper import LeanScraper
from retryscrape.crawl.way import Way

SIGNALS = (
    "request_scheduled",
    "request_reached_downloader",
    "response_downloaded",
    "request_left_downloader",
    "response_received",
    "item_scraped",
    "spider_error",
    "spider_idle",
)


class Answers:
    """A handler that needs no network: the path says what comes."""

    lazy = False

    @classmethod
    def from_crawler(cls, crawler: Any) -> Answers:
        return cls()

    async def download_request(self, request: Request) -> Response:
        await asyncio.sleep(0)
        if "fault" in request.url:
            raise OSError("no route")
        return Response(request.url, body=b"x")

    async def close(self) -> None:
        pass


class Detours:
    """A middleware that ends requests, or sends others in their place."""

    def process_request(self, request: Request) -> None:
        if "ignored" in request.url:
            raise IgnoreRequest("not wanted")

    def process_response(self, request: Request, response: Response) -> Request | Response:
        return Request("http://h.test/there") if "moved" in request.url else response


class Pages(Spider):
    name = "pages"
    failed: list[str]

    async def start(self) -> Any:
        self.failed = []
        for path in ("page", "moved", "ignored", "fault", "broken"):
            yield Request(f"http://h.test/{path}", errback=self.errback)

    def parse(self, response: Response) -> Any:
        if "broken" in response.url:
            raise ValueError("a callback's own matter")
        yield {"url": response.url}

    def errback(self, failure: Any) -> None:
        self.failed.append(type(failure.value).__name__)


async def crawl(ours: bool) -> tuple[list[tuple[str, str]], list[str], int]:
    """The signals by kind and URL, what the errback was told, and the tasks left over."""
    handler = f"{__name__}.Answers"
    crawler = get_crawler(
        Pages,
        {
            "DOWNLOADER": RoomyDownloader,
            "DOWNLOADER_MIDDLEWARES": {Detours: 10},
            "DOWNLOAD_HANDLERS": {"http": handler, "https": None, "file": None, "s3": None},
            "CONCURRENT_REQUESTS": 1,
            "RETRY_ENABLED": False,
            "ROBOTSTXT_OBEY": False,
            "TELNETCONSOLE_ENABLED": False,
            "LOG_ENABLED": False,
        },
    )
    heard: list[tuple[str, str]] = []

    def listen(name: str) -> None:
        def hear(**told: Any) -> None:
            about = told.get("request") or told.get("response")
            heard.append((name, about.url if about is not None else ""))

        crawler.signals.connect(hear, getattr(signals, name), weak=False)

    for name in SIGNALS:
        listen(name)
    if ours:
        connect = crawler.signals.connect

        def take_over() -> None:
            LeanScraper.take_over(crawler.engine)
            Way.take_over(crawler.engine)
            assert crawler.engine._start_scheduled_request.__func__ is Way.start

        connect(take_over, signals.engine_started, weak=False)
    await crawler.crawl_async()
    left = len(asyncio.all_tasks()) - 1
    return heard, crawler.spider.failed, left


def test_signals_callbacks_and_the_end_are_scrapys(caplog: pytest.LogCaptureFixture) -> None:
    theirs = asyncio.run(crawl(ours=False))
    said = [record.getMessage() for record in caplog.records if record.levelno >= logging.INFO]
    caplog.clear()
    ours = asyncio.run(crawl(ours=True))
    assert sorted(ours[0]) == sorted(theirs[0])
    assert ours[1:] == theirs[1:] == (["IgnoreRequest", "OSError"], 0)
    assert ("item_scraped", "http://h.test/there") in ours[0]
    errors = [r.getMessage() for r in caplog.records if r.levelno >= logging.ERROR]
    assert len(errors) == 1
    assert errors[0] in said


def test_an_engine_of_the_projects_own_keeps_its_way() -> None:
    class Own(ExecutionEngine):
        pass

    crawler = get_crawler(Spider, {"DOWNLOADER": RoomyDownloader, "LOG_ENABLED": False})
    crawler.spider = crawler._create_spider("s")
    for kind in (Own, ExecutionEngine):
        engine = kind(crawler, lambda spider: None)
        Way.take_over(engine)  # its scraper is Scrapy's
        assert "_start_scheduled_request" not in vars(engine)
    LeanScraper.take_over(engine)
    Way.take_over(engine)
    assert "_start_scheduled_request" in vars(engine)
