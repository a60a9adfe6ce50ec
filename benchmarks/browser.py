"""Pages per second on the browser rung against a bare Playwright loop.

    python benchmarks/browser.py [PAGES] [ROUNDS]

Same Chromium, same number of pages at once, same rule (no images, fonts, media), the same
pages from one small server: 13 KB of text, a style sheet, a script that adds to the page,
three images and a font. The bare loop is shown twice: a new tab per page, and four tabs that
are used again. Rounds alternate, so that other load on the machine meets all of them.
"""

from __future__ import annotations

import asyncio
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable

from scrapy import Request
from scrapy.utils.test import get_crawler

from retryscrape.crawl.browser.executable import executable
from retryscrape.crawl.browser.handler import Browser
from retryscrape.crawl.browser.options import BrowserOptions

AT_ONCE = 4
TARGET = 0.9
ABORTED = ("image", "font", "media")


def page(number: int) -> bytes:
    rng = random.Random(number)
    words = ["".join(rng.choices("abcdefghijklmno", k=rng.randint(3, 9))) for _ in range(1800)]
    text = "".join(f"<p>{' '.join(words[n : n + 60])}</p>" for n in range(0, 1800, 60))
    return (
        f"<!doctype html><title>Page {number}</title><link rel=stylesheet href=/s.css>"
        "<style>@font-face{font-family:f;src:url(/f.woff2)}h1{font-family:f}</style>"
        f"<h1>{number}</h1><img src=/1.png><img src=/2.png><img src=/3.png>{text}<div id=x></div>"
        "<script src=/a.js></script>"
    ).encode()


FILES = {
    ".css": ("text/css", b"body{color:#222}" * 50),
    ".js": ("application/javascript", b"x.textContent = 'made by script'"),
}


async def serve() -> None:
    """The server, in a process of its own; prints its port."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            while await reader.readline() not in (b"\r\n", b""):
                pass
            path = line.split()[1].decode()
            kind, body = FILES.get(os.path.splitext(path)[1], ("text/html", b""))
            body = body or page(int(path[1:]) if path[1:].isdigit() else 0)
            head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
            writer.write(head.encode() + body)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


async def spread(pages: int, one: Callable[[int], Awaitable[None]]) -> float:
    numbers = iter(range(pages))

    async def worker() -> None:
        for number in numbers:
            await one(number)

    start = time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(AT_ONCE)))
    return pages / (time.perf_counter() - start)


async def bare(url: str, pages: int, *, reuse: bool) -> float:
    from playwright.async_api import Page, Route, async_playwright

    async def rule(route: Route) -> None:
        if route.request.resource_type in ABORTED:
            await route.abort()
        else:
            await route.continue_()

    async with async_playwright() as playwright:
        path = executable(get_crawler().settings)
        browser = await playwright.chromium.launch(executable_path=path)
        context = await browser.new_context()
        spare: list[Page] = []

        async def one(number: int) -> None:
            tab = spare.pop() if spare else None
            if tab is None:
                tab = await context.new_page()
                await tab.route("**/*", rule)
            await tab.goto(f"{url}/{number}")
            assert "made by script" in await tab.content()
            if reuse:
                spare.append(tab)
            else:
                await tab.close()

        rate = await spread(pages, one)
        await browser.close()
    return rate


async def ours(url: str, pages: int) -> float:
    crawler = get_crawler()
    options = BrowserOptions.from_settings(crawler.settings, pages=AT_ONCE)
    browser = Browser(crawler, options)

    async def fetch(number: int) -> None:
        response = await browser.fetch(
            Request(f"{url}/{number}"), proxy=None, host="h", escalated=False, timeout=60
        )
        assert b"made by script" in response.body

    await fetch(0)  # the launch is not what is measured; the bare loop's is not either
    rate = await spread(pages, fetch)
    await browser.close()
    return rate


async def main(pages: int, rounds: int) -> None:
    server = subprocess.Popen(  # noqa: ASYNC220 - before anything runs
        [sys.executable, __file__, "--serve"], stdout=subprocess.PIPE, text=True
    )
    assert server.stdout is not None
    url = f"http://127.0.0.1:{int(server.stdout.readline())}"
    rates: dict[str, list[float]] = {"ours": [], "bare, new tabs": [], "bare, tabs reused": []}
    try:
        for _ in range(rounds):
            rates["bare, new tabs"].append(await bare(url, pages, reuse=False))
            rates["ours"].append(await ours(url, pages))
            rates["bare, tabs reused"].append(await bare(url, pages, reuse=True))
    finally:
        server.terminate()
        server.wait()
    mine = statistics.median(rates["ours"])
    print(f"{pages} pages, {AT_ONCE} at once, median of {rounds} rounds")
    for name, values in rates.items():
        rate = statistics.median(values)
        ratio = "" if name == "ours" else f"   ours / this: {mine / rate:.2f}"
        print(f"{name:20} {rate:6.2f} pages/s{ratio}")
    print(f"target: {TARGET:.1f} of the bare loop")


if __name__ == "__main__":
    if "--serve" in sys.argv:
        asyncio.run(serve())
    elif "--bare" in sys.argv:  # to be ended from outside
        asyncio.run(bare(sys.argv[-1], 10**9, reuse=True))
    else:
        numbers = [int(arg) for arg in sys.argv[1:]]
        asyncio.run(main(*(numbers + [100, 3][len(numbers) :])))
