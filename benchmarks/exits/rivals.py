"""The other tools' crawls: ``python -m benchmarks.exits.rivals turn|rotating|crawlee FOLDER``.

Each reads ``urls.txt`` and ``proxies.txt`` and writes ``found.jsonl``: URL and digest of each
page that the tool handed to its callback. Set up as their documentation says.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

from benchmarks.exits.tools import AT_ONCE, RETRIES, TIMEOUT

#: What a user adds to Scrapy's RETRY_HTTP_CODES when proxies are in use.
RETRY_CODES = (403, 407, 408, 429, 500, 502, 503, 504, 522, 524)


class Notes:
    """The lines of ``found.jsonl``."""

    def __init__(self, folder: Path) -> None:
        self._file = (folder / "found.jsonl").open("w", buffering=1)

    def add(self, url: str, body: bytes) -> None:
        self._file.write(json.dumps([url, sha256(body).hexdigest()]) + "\n")


class InTurn:
    """The middleware that everybody writes first."""

    proxies: itertools.cycle[str]

    def process_request(self, request: Any) -> None:
        request.meta["proxy"] = next(self.proxies)


def scrapy(name: str, urls: list[str], proxies: list[str], notes: Notes) -> None:
    """Bare Scrapy, its RetryMiddleware on; with or without scrapy-rotating-proxies-ng."""
    from scrapy import Request, Spider
    from scrapy.crawler import AsyncCrawlerProcess

    class Pages(Spider):
        name = "pages"

        async def start(self) -> Any:
            for url in urls:
                yield Request(url, dont_filter=True)

        def parse(self, response: Any) -> None:
            notes.add(response.request.url, response.body)

    InTurn.proxies = itertools.cycle(proxies)
    own: dict[str, Any] = {"DOWNLOADER_MIDDLEWARES": {InTurn: 610}}
    if name == "rotating":
        package = "rotating_proxies.middlewares"
        own = {
            "ROTATING_PROXY_LIST": proxies,
            "ROTATING_PROXY_PAGE_RETRY_TIMES": RETRIES,
            "DOWNLOADER_MIDDLEWARES": {
                f"{package}.RotatingProxyMiddleware": 610,
                f"{package}.BanDetectionMiddleware": 620,
            },
        }
    shared = {
        "CONCURRENT_REQUESTS": AT_ONCE,
        "CONCURRENT_REQUESTS_PER_DOMAIN": AT_ONCE,
        "DOWNLOAD_TIMEOUT": TIMEOUT,
        "RETRY_TIMES": RETRIES,
        "RETRY_HTTP_CODES": RETRY_CODES,
        "LOG_LEVEL": "ERROR",
    }
    process = AsyncCrawlerProcess({**shared, **own})
    process.crawl(Pages)
    process.start()


async def crawlee(urls: list[str], proxies: list[str], notes: Notes) -> None:
    """Crawlee's HttpCrawler on its default client, with its session pool."""
    from crawlee import ConcurrencySettings
    from crawlee.crawlers import HttpCrawler, HttpCrawlingContext
    from crawlee.http_clients import ImpitHttpClient
    from crawlee.proxy_configuration import ProxyConfiguration
    from crawlee.sessions import SessionPool
    from crawlee.storage_clients import MemoryStorageClient

    crawler = HttpCrawler(
        http_client=ImpitHttpClient(),
        proxy_configuration=ProxyConfiguration(proxy_urls=list(proxies)),
        # a session keeps its proxy: as many as there are proxies, so that good ones stay
        session_pool=SessionPool(max_pool_size=len(proxies)),
        concurrency_settings=ConcurrencySettings(
            min_concurrency=AT_ONCE, desired_concurrency=AT_ONCE, max_concurrency=AT_ONCE
        ),
        max_request_retries=RETRIES,
        max_session_rotations=RETRIES,
        navigation_timeout=timedelta(seconds=TIMEOUT),
        storage_client=MemoryStorageClient(),
        configure_logging=False,
    )

    @crawler.router.default_handler
    async def handle(context: HttpCrawlingContext) -> None:
        notes.add(context.request.url, await context.http_response.read())

    await crawler.run(urls)


def main() -> None:
    name, folder = sys.argv[1], Path(sys.argv[2])
    urls = (folder / "urls.txt").read_text().split()
    proxies = (folder / "proxies.txt").read_text().split()
    notes = Notes(folder)
    if name == "crawlee":
        asyncio.run(crawlee(urls, proxies, notes))
    else:
        scrapy(name, urls, proxies, notes)


if __name__ == "__main__":
    main()
