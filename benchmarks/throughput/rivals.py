"""What is compared with: one crawl a process, ``python -m benchmarks.throughput.rivals NAME FOLDER``.

``FOLDER/urls.txt`` and, through proxies, ``FOLDER/proxies.txt``. Each keeps what its name
says and nothing else; ``pages`` in a name means that each page is written to a file.
"""

from __future__ import annotations

import asyncio
import hashlib
import sys
from datetime import timedelta
from itertools import cycle
from pathlib import Path
from typing import Any

AT_ONCE = 64
TITLE = "title::text"


def scrapy(name: str, urls: list[str], proxies: list[str]) -> None:
    """Bare Scrapy: its defaults but for concurrency and the log; ``tuned`` as one would."""
    from scrapy import Request, Spider
    from scrapy.crawler import AsyncCrawlerProcess

    turn = cycle(proxies) if proxies else None

    class Pages(Spider):
        name = "pages"

        async def start(self) -> Any:
            for url in urls:
                meta = {"proxy": next(turn)} if turn else {}
                yield Request(url, dont_filter=True, meta=meta)

        def parse(self, response: Any) -> Any:
            yield {"url": response.url, "size": len(response.body)}

    settings = {
        "CONCURRENT_REQUESTS": AT_ONCE,
        "CONCURRENT_REQUESTS_PER_DOMAIN": AT_ONCE,
        "DOWNLOAD_DELAY": 0,
        "LOG_LEVEL": "INFO",
    }
    if name == "floor-engine":
        handler = "benchmarks.throughput.rivals.AtOnce"
        settings |= {"DOWNLOAD_HANDLERS": {"http": handler}, "CONCURRENT_ITEMS": 1}
    elif name == "scrapy-tuned":
        settings |= {"CONCURRENT_ITEMS": 1, "LOG_LEVEL": "ERROR", "TELNETCONSOLE_ENABLED": False}
    process = AsyncCrawlerProcess(settings)
    process.crawl(Pages)
    process.start()


class AtOnce:
    """A download handler that has the page already: what is left is Scrapy's engine."""

    lazy = True

    def __init__(self, crawler: Any) -> None:
        self.page = b"<html><title>A page</title>" + b"<p>word word</p>" * 830

    @classmethod
    def from_crawler(cls, crawler: Any) -> AtOnce:
        return cls(crawler)

    async def download_request(self, request: Any) -> Any:
        from scrapy.http import HtmlResponse

        headers = {"Content-Type": "text/html; charset=utf-8"}
        return HtmlResponse(request.url, headers=headers, body=self.page, request=request)

    async def close(self) -> None:
        pass


async def client(urls: list[str]) -> None:
    """The plain rung's client, and nothing around it."""
    from scrapy import Request
    from scrapy.utils.test import get_crawler

    from retryscrape.crawl.clients import make_client

    ours = make_client("asyncio", get_crawler(settings_dict={"CONCURRENT_REQUESTS": AT_ONCE}))
    left = iter(urls)

    async def worker() -> None:
        for url in left:
            await ours.fetch(
                Request(url), proxy=None, timeout=30, fresh=False, max_size=10**9, warn_size=0
            )

    await asyncio.gather(*(worker() for _ in range(AT_ONCE)))
    await ours.close()


async def crawlee(name: str, urls: list[str], proxies: list[str], folder: Path) -> None:
    """Crawlee's HttpCrawler: ``crawlee-CLIENT-STORAGE[-pages]``."""
    from crawlee import ConcurrencySettings, http_clients, storage_clients
    from crawlee.configuration import Configuration
    from crawlee.crawlers import HttpCrawler, HttpCrawlingContext
    from crawlee.proxy_configuration import ProxyConfiguration

    _, client, storage, *keeps = name.split("-")
    stores = {
        "memory": lambda: storage_clients.MemoryStorageClient(),
        "file": lambda: storage_clients.FileSystemStorageClient(),
        "sql": lambda: storage_clients.SqlStorageClient(
            connection_string=f"sqlite+aiosqlite:///{folder}/c.db"
        ),
    }
    pages = folder / "pages"
    pages.mkdir()
    crawler = HttpCrawler(
        configuration=Configuration(storage_dir=str(folder / "storage")),
        http_client=getattr(http_clients, f"{client.title()}HttpClient")(),
        proxy_configuration=ProxyConfiguration(proxy_urls=list(proxies)) if proxies else None,
        storage_client=stores[storage](),
        concurrency_settings=ConcurrencySettings(
            min_concurrency=AT_ONCE, desired_concurrency=AT_ONCE, max_concurrency=AT_ONCE
        ),
        navigation_timeout=timedelta(seconds=30),
        configure_logging=False,
    )

    @crawler.router.default_handler
    async def handle(context: HttpCrawlingContext) -> None:
        body = await context.http_response.read()
        if keeps:
            name = hashlib.sha256(context.request.url.encode()).hexdigest()[:16]
            (pages / f"{name}.html").write_bytes(body)
            await context.push_data({"url": context.request.url, "size": len(body)})

    await crawler.run(urls)


def main() -> None:
    name, folder = sys.argv[1], Path(sys.argv[2])
    urls = (folder / "urls.txt").read_text().split()
    listed = folder / "proxies.txt"
    proxies = listed.read_text().split() if listed.exists() else []
    if name.startswith("crawlee"):
        asyncio.run(crawlee(name, urls, proxies, folder))
    elif name == "floor-client":
        asyncio.run(client(urls))
    else:
        scrapy(name, urls, proxies)


if __name__ == "__main__":
    main()
