"""The lean scraper does for pages, items and errors what Scrapy's own does, listener for listener."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest
from scrapy import Request, Spider, signals
from scrapy.core.scraper import Scraper
from scrapy.exceptions import DropItem
from scrapy.http import Response
from scrapy.utils.defer import maybe_deferred_to_future
from scrapy.utils.test import get_crawler
from twisted.python.failure import Failure

from retryscrape.crawl.scraper import ITEMS_ONLY, LeanScraper

URL = "http://h.test/"
SIGNALS = ("item_scraped", "item_dropped", "item_error", "spider_error")


class Picky:
    """A pipeline with an opinion on each item."""

    def process_item(self, item: Any) -> Any:
        if item["n"] == "drop":
            raise DropItem("not wanted")
        return {"n": item["n"] // 1}


def items_only(response: Response, **kwargs: Any) -> tuple[Any, ...]:
    return ({"n": 1}, {"n": "drop"}, {"n": "error"})


def broken(response: Response, **kwargs: Any) -> tuple[Any, ...]:
    raise ValueError("no page")


setattr(items_only, ITEMS_ONLY, True)
setattr(broken, ITEMS_ONLY, True)


async def mixed(response: Response) -> AsyncIterator[Any]:
    yield {"n": 2}
    yield Request("http://h.test/next")
    raise ValueError("half way")


def plain(response: Response) -> list[Any]:
    return [{"n": 3}]


async def errback(failure: Failure) -> AsyncIterator[Any]:
    yield {"n": 4}


class Stage:
    """A scraper of a class, the signals it sent, and the requests it passed on."""

    def __init__(self, lean: bool, **settings: Any) -> None:
        base = {"ITEM_PIPELINES": {Picky: 1}, "CONCURRENT_ITEMS": 1, "LOG_ENABLED": False}
        self.crawler = get_crawler(Spider, {**base, **settings})
        self.crawler.spider = self.crawler._create_spider("s")
        self.heard: list[tuple[str, Any]] = []
        self.passed: list[str] = []
        engine: Any = SimpleNamespace(scraper=Scraper(self.crawler), crawl=self._crawl)
        self.crawler._engine = engine
        if lean:
            LeanScraper.take_over(engine)
        self.scraper = engine.scraper
        for name in SIGNALS:
            self._listen(name)

    def _crawl(self, request: Request) -> None:
        self.passed.append(request.url)

    def _listen(self, name: str) -> None:
        def plain_listener(**told: Any) -> None:
            self.heard.append((name, told.get("item")))

        async def slow_listener(**told: Any) -> None:
            await asyncio.sleep(0)
            self.heard.append((f"later {name}", told.get("item")))

        def broken_listener(item: Any = None) -> None:
            raise RuntimeError("a listener's own matter")

        awaited = name != "spider_error"  # Scrapy awaits no listener of this one
        for listener in (plain_listener, broken_listener, *([slow_listener] * awaited)):
            self.crawler.signals.connect(listener, getattr(signals, name), weak=False)

    async def scrape(self, result: Any, **request: Any) -> None:
        await self.scraper.open_spider_async()
        asked = Request(URL, **request)
        await maybe_deferred_to_future(self.scraper.enqueue_scrape(result, asked))
        assert self.scraper.slot.is_idle()
        await self.scraper.close_spider_async()


CASES: dict[str, Any] = {
    "items only": (Response(URL), {"callback": items_only}),
    "items only, with arguments": (Response(URL), {"callback": items_only, "cb_kwargs": {"a": 1}}),
    "a callback that fails": (Response(URL), {"callback": broken}),
    "items and requests": (Response(URL), {"callback": mixed}),
    "a list": (Response(URL), {"callback": plain}),
    "a failure with errback": (Failure(ValueError("x")), {"errback": errback}),
    "a failure without": (Failure(ValueError("x")), {"callback": plain}),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("settings", [{}, {"CONCURRENT_ITEMS": 3}], ids=["one", "three"])
def test_it_says_and_passes_on_what_scrapys_own_does(name: str, settings: dict[str, Any]) -> None:
    result, request = CASES[name]
    stages = [Stage(lean, **settings) for lean in (False, True)]
    for stage in stages:
        asyncio.run(stage.scrape(result, **request))
    theirs, ours = stages
    assert sorted(map(str, ours.heard)) == sorted(map(str, theirs.heard))
    assert ours.passed == theirs.passed
    assert type(ours.scraper) is LeanScraper


def test_what_an_items_only_page_comes_to() -> None:
    stage = Stage(lean=True)
    asyncio.run(stage.scrape(Response(URL), callback=items_only))
    assert [heard for heard in stage.heard if not heard[0].startswith("later")] == [
        ("item_scraped", {"n": 1}),
        ("item_dropped", {"n": "drop"}),
        ("item_error", {"n": "error"}),
    ]


def test_a_scraper_that_the_project_put_there_stays() -> None:
    class Theirs(Scraper):
        pass

    stage = Stage(lean=False)
    theirs = Theirs(stage.crawler)
    engine: Any = SimpleNamespace(scraper=theirs)
    LeanScraper.take_over(engine)
    assert engine.scraper is theirs
