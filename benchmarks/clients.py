"""Pages per CPU second of HTTP clients: outside Scrapy, and in its engine; direct and proxied.

    python benchmarks/clients.py [--pages 4000] [--rounds 3]

13 KB pages from a small server on core 0, which also plays the proxy; each case is a
process of its own on core 1, 64 requests at once. Medians of the rounds. Libraries
that are not installed are left out.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from importlib.util import find_spec
from typing import Any

AT_ONCE = 64
PAGE = b"<html><title>A page</title><body>" + b"<p>word word</p>" * 830 + b"</body></html>"
ANSWER = (
    b"HTTP/1.1 200 OK\r\nServer: bench\r\nDate: Thu, 01 Jan 2026 00:00:00 GMT\r\n"
    b"Content-Type: text/html; charset=utf-8\r\nCache-Control: no-cache\r\n"
    b"Vary: Accept-Encoding\r\nContent-Length: %d\r\n\r\n%b" % (len(PAGE), PAGE)
)
OURS = ("asyncio", "http11")
#: Seconds of CPU, seconds.
Usage = tuple[float, float]
LIBRARIES = ("aiohttp", "impit", "pycurl")


class Server(asyncio.Protocol):
    """Answers each request, relative or absolute, with the page."""

    def connection_made(self, transport: Any) -> None:
        self.transport, self.rest = transport, b""

    def data_received(self, data: bytes) -> None:
        *heads, self.rest = (self.rest + data).split(b"\r\n\r\n")
        self.transport.write(ANSWER * len(heads))


async def serve() -> None:
    """Print the port; run until standard input ends."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Server, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


async def all_of(pages: int, fetch: Any) -> None:
    """Fetch so many pages, ``AT_ONCE`` at a time."""
    numbers = iter(range(pages))

    async def worker() -> None:
        for number in numbers:
            size = await fetch(number)
            assert size == len(PAGE), size

    await asyncio.gather(*(worker() for _ in range(AT_ONCE)))


async def bare(name: str, port: int, proxied: bool, pages: int) -> None:
    """A client without a framework."""
    site, proxy = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{port}" if proxied else None
    if name in OURS:
        await _ours(name, site, proxy, pages)
    elif name == "aiohttp":
        import aiohttp

        connector = aiohttp.TCPConnector(limit=AT_ONCE)
        async with aiohttp.ClientSession(connector=connector, auto_decompress=False) as session:

            async def fetch(number: int) -> int:
                async with session.get(f"{site}/{number}", proxy=proxy) as response:
                    return len(await response.read())

            await all_of(pages, fetch)
    elif name == "impit":
        import impit

        client = impit.AsyncClient(proxy=proxy, follow_redirects=False)

        async def fetch(number: int) -> int:
            return len((await client.get(f"{site}/{number}")).content)

        await all_of(pages, fetch)
    else:
        _pycurl(site, proxy, pages)


async def _ours(name: str, site: str, proxy: str | None, pages: int) -> None:
    from scrapy import Request
    from scrapy.utils.test import get_crawler

    from retryscrape.crawl.clients import Proxy, make_client

    client = make_client(name, get_crawler(settings_dict={"CONCURRENT_REQUESTS": AT_ONCE}))
    exit_ = Proxy(id="local", url=proxy) if proxy else None

    async def fetch(number: int) -> int:
        response = await client.fetch(
            Request(f"{site}/{number}"),
            proxy=exit_,
            timeout=30,
            fresh=False,
            max_size=10**9,
            warn_size=0,
        )
        return len(response.body)

    await all_of(pages, fetch)
    await client.close()


def _pycurl(site: str, proxy: str | None, pages: int) -> None:
    """libcurl's own loop, the cheapest way to drive it."""
    import pycurl

    multi, waiting, active = pycurl.CurlMulti(), list(range(pages)), 0
    free = [pycurl.Curl() for _ in range(AT_ONCE)]
    while waiting or active:
        while waiting and free:
            curl = free.pop()
            curl.setopt(pycurl.URL, f"{site}/{waiting.pop()}")
            curl.setopt(pycurl.PROXY, proxy or "")
            curl.parts, curl.heads = [], []
            curl.setopt(pycurl.WRITEFUNCTION, curl.parts.append)
            curl.setopt(pycurl.HEADERFUNCTION, curl.heads.append)
            multi.add_handle(curl)
            active += 1
        multi.perform()
        _, good, bad = multi.info_read()
        assert not bad, bad
        for curl in good:
            assert len(b"".join(curl.parts)) == len(PAGE)
            multi.remove_handle(curl)
            free.append(curl)
            active -= 1
        multi.select(1.0)


def engine(name: str, port: int, proxied: bool, pages: int) -> Usage:
    """A client as the download handler of a Scrapy crawl that keeps nothing; when it began."""
    import scrapy
    from scrapy.core.downloader.handlers.base import BaseDownloadHandler
    from scrapy.crawler import AsyncCrawlerProcess

    from retryscrape.crawl.clients import Proxy, make_client

    exit_ = Proxy(id="local", url=f"http://127.0.0.1:{port}") if proxied else None

    class Handler(BaseDownloadHandler):
        def __init__(self, crawler: Any) -> None:
            super().__init__(crawler)
            self.client = make_client(name, crawler)

        async def download_request(self, request: Any) -> Any:
            return await self.client.fetch(
                request, proxy=exit_, timeout=30, fresh=False, max_size=10**9, warn_size=0
            )

        async def close(self) -> None:
            await self.client.close()

    begun = []

    class Spider(scrapy.Spider):
        name = "bench"
        start_urls = [f"http://127.0.0.1:{port}/{number}" for number in range(pages)]  # noqa: RUF012

        async def start(self) -> Any:
            begun.append(_now())
            async for request in super().start():
                yield request

        def parse(self, response: Any) -> None:
            assert len(response.body) == len(PAGE)

    settings = {
        "DOWNLOAD_HANDLERS": {"http": Handler},
        "CONCURRENT_REQUESTS": AT_ONCE,
        "CONCURRENT_REQUESTS_PER_DOMAIN": AT_ONCE,
        "CONCURRENT_ITEMS": 1,
        "LOG_LEVEL": "ERROR",
        "TELNETCONSOLE_ENABLED": False,
        "DOWNLOAD_DELAY": 0,
    }
    process = AsyncCrawlerProcess(settings)
    process.crawl(Spider)
    process.start()
    return begun[0]


def one_case(where: str, name: str, port: int, proxied: bool, pages: int) -> None:
    """Run one case in this process; print pages per CPU second and per second."""
    before = (engine if where == "engine" else _bare)(name, port, proxied, pages)
    cpu, wall = (after - start for after, start in zip(_now(), before, strict=True))
    print(json.dumps({"per_cpu": pages / cpu, "per_second": pages / wall}), flush=True)
    os._exit(0)  # the reactor was started without its own end


def _bare(name: str, port: int, proxied: bool, pages: int) -> Usage:
    """When the pages began: imports and start-up belong to no page."""
    from scrapy.utils.reactor import install_reactor

    install_reactor("twisted.internet.asyncioreactor.AsyncioSelectorReactor")
    from twisted.internet import reactor

    reactor.startRunning(installSignalHandlers=False)
    loop = reactor._asyncioEventloop
    loop.run_until_complete(bare(name, port, proxied, AT_ONCE * 4))
    before = _now()
    loop.run_until_complete(bare(name, port, proxied, pages))
    return before


def _now() -> Usage:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime, time.perf_counter()


def _start(core: int, *arguments: str, **pipes: Any) -> subprocess.Popen[str]:
    core = core if core in os.sched_getaffinity(0) else 0
    command = ["taskset", "-c", str(core), sys.executable, __file__, *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **pipes)


def table(pages: int, rounds: int) -> None:
    """All cases, by turns, on one server."""
    bares = [*OURS, *(name for name in LIBRARIES if find_spec(name))]
    cases = [("bare", name) for name in bares] + [("engine", name) for name in OURS]
    print(f"{'where':8}{'client':10}{'way':8}{'pages per CPU s':>16}{'spread':>14}{'pages/s':>9}")
    with _start(0, "serve", stdin=subprocess.PIPE) as server:
        port = server.stdout.readline().strip()
        for where, name in cases:
            for way in ("direct", "proxy"):
                given = (where, name, port, way, str(pages))
                runs = [
                    json.loads(_start(1, "case", *given).communicate()[0]) for _ in range(rounds)
                ]
                cpu = sorted(run["per_cpu"] for run in runs)
                spread = f"{cpu[0]:.0f}-{cpu[-1]:.0f}"
                wall = statistics.median(run["per_second"] for run in runs)
                middle = statistics.median(cpu)
                print(f"{where:8}{name:10}{way:8}{middle:16.0f}{spread:>14}{wall:9.0f}", flush=True)
        server.stdin.close()


def main() -> None:
    if sys.argv[1:2] == ["serve"]:
        asyncio.run(serve())
    elif sys.argv[1:2] == ["case"]:
        where, name, port, way, pages = sys.argv[2:]
        one_case(where, name, int(port), way == "proxy", int(pages))
    else:
        parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
        parser.add_argument("--pages", type=int, default=4000)
        parser.add_argument("--rounds", type=int, default=3)
        given = parser.parse_args()
        table(given.pages, given.rounds)


if __name__ == "__main__":
    main()
