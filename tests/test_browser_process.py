"""The browser in a process of its own: what goes over, what does not, and either side's death."""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from browser_site import CREDENTIALS, Site
from scrapy import Request
from scrapy.http import HtmlResponse
from scrapy.settings import Settings
from scrapy.utils.test import get_crawler
from scrapy_playwright.page import PageMethod

from retryscrape.crawl.browser import helper
from retryscrape.crawl.browser.aside import Aside
from retryscrape.crawl.browser.child import Child, sendable
from retryscrape.crawl.browser.link import Link
from retryscrape.crawl.browser.options import BrowserOptions, BrowserProxy, Waits
from retryscrape.crawl.browser.orders import calls_of, plain, setup_of
from retryscrape.crawl.browser.processes import Process, kill, processes, tree
from retryscrape.crawl.faults import At, FetchError
from retryscrape.crawl.keys import METHODS

pytest_plugins = ["browser_fixtures"]

WAITS = Waits(sparse=1.2, challenge=4.0, limit=4.0)


def own(page: Any) -> None:
    """Code of a user's."""


class Strange(Exception):
    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


class Bench:
    """A site, the browser beside, and the loop of the crawl."""

    def __init__(self, loop: asyncio.AbstractEventLoop, site: Site, **settings: Any) -> None:
        self.loop, self.site = loop, site
        self.crawler = get_crawler(settings_dict=settings)
        options = BrowserOptions.from_settings(self.crawler.settings, waits=WAITS, pages=2)
        self.aside = Aside(self.crawler, options)

    def run(self, work: Any) -> Any:
        return self.loop.run_until_complete(work)

    async def go(self, path: str, meta: Any = None, **how: Any) -> Any:
        request = Request(self.site.url + path, meta=meta or {})
        how = {"proxy": None, "host": "site", "escalated": False, "timeout": 30.0, **how}
        return await self.aside.fetch(request, **how)

    async def hanging(self, count: int, **how: Any) -> list[asyncio.Task[Any]]:
        """Pages that are asked for and never answered."""
        before = self.site.paths().count("/hang")
        works = [asyncio.create_task(self.go("/hang", **how)) for _ in range(count)]
        for _ in range(400):
            if self.site.paths().count("/hang") == before + count:
                break
            await asyncio.sleep(0.025)
        return works

    @property
    def child(self) -> Process:
        return processes()[self.aside._apart._helper.process.pid]  # type: ignore[union-attr]

    async def until(self, condition: Callable[[], bool], seconds: float = 10.0) -> bool:
        for _ in range(int(seconds / 0.05)):
            if condition():
                return True
            await asyncio.sleep(0.05)
        return condition()


def left(group: list[Process]) -> list[Process]:
    """Which of them are still there."""
    now = processes()
    return [process for process in group if now.get(process.pid) == process]


@pytest.fixture(scope="module")
def bench(loop: asyncio.AbstractEventLoop, site: Site) -> Iterator[Bench]:
    bench = Bench(loop, site)
    yield bench
    bench.run(bench.aside.close())


@pytest.fixture
def own_bench(loop: asyncio.AbstractEventLoop, site: Site) -> Iterator[Bench]:
    """For tests that end it."""
    bench = Bench(loop, site)
    yield bench
    bench.run(bench.aside.close())


def test_a_process_whose_parent_died_is_still_the_same_and_is_ended() -> None:
    shell = subprocess.Popen(["sh", "-c", "sleep 60 & wait"])
    while len(group := tree({processes()[shell.pid]})) < 2:
        time.sleep(0.02)
    shell.kill()
    shell.wait()
    assert left(group) == group[1:]
    assert kill(group) == 1


# --- what goes over ---------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [b"x", {"a": [1, None, ("b", 2.5)]}, re.compile("x"), pathlib.Path("x"), len, ValueError("x")],
)
def test_what_the_standard_library_makes_goes_over(value: Any) -> None:
    assert plain(value)


@pytest.mark.parametrize(
    "value",
    [
        *(own, lambda: None, functools.partial(own, 1), Strange, Strange(1, 2), [{"a": own}]),
        *(Bench.child, threading.Lock(), PageMethod("click"), (number for number in ())),
    ],
)
def test_what_is_code_of_the_users_does_not(value: Any) -> None:
    assert not plain(value)


@pytest.mark.parametrize(
    ("meta", "goes"),
    [
        ({}, True),
        ({"cb_kwargs": own}, True),
        ({"playwright_page_methods": [PageMethod("click", "#x", timeout=5)]}, True),
        ({"playwright_page_methods": {"shot": PageMethod("screenshot")}}, True),
        ({"playwright_page_methods": [PageMethod(own)]}, False),
        ({"playwright_page_methods": [PageMethod("on", "response", own)]}, False),
        ({"playwright_page_methods": iter([PageMethod("click")])}, False),
        ({"playwright_page_init_callback": own}, False),
        ({"playwright_page_init_callback": "their.module.callback"}, False),
    ],
)
def test_a_page_goes_over_unless_it_takes_code_of_the_users(meta: Any, goes: bool) -> None:
    assert (calls_of(Request("http://x/", meta=meta)) is not None) is goes


@pytest.mark.parametrize(
    ("settings", "goes"),
    [
        ({"PLAYWRIGHT_LAUNCH_OPTIONS": {"args": ["--x"]}}, True),
        ({"PLAYWRIGHT_LAUNCH_OPTIONS": '{"args": ["--x"]}'}, True),
        ({"PLAYWRIGHT_PROCESS_REQUEST_HEADERS": own}, True),
        ({"PLAYWRIGHT_ABORT_REQUEST": None}, True),
        ({"PLAYWRIGHT_ABORT_REQUEST": own}, False),
        ({"PLAYWRIGHT_BROWSER_PROVIDER": "their.Provider"}, False),
        ({"PLAYWRIGHT_CONTEXTS": {"default": {"locale": own}}}, False),
        ({"PLAYWRIGHT_LAUNCH_OPTIONS": {"logger": own}}, False),
    ],
)
def test_so_does_the_browser(settings: dict[str, Any], goes: bool) -> None:
    given = Settings(settings)
    setup = setup_of(given, BrowserOptions.from_settings(given))
    assert (setup is not None) is goes
    if setup is not None and "PLAYWRIGHT_LAUNCH_OPTIONS" in settings:
        assert setup.settings().getdict("PLAYWRIGHT_LAUNCH_OPTIONS") == {"args": ["--x"]}


@pytest.mark.parametrize("end", [FetchError("dns", At.TARGET, detail="x", bytes=7), KeyError("x")])
def test_an_error_stays_what_it_is(end: Exception) -> None:
    assert sendable(end) is end


def test_an_error_that_cannot_be_sent_comes_as_its_words() -> None:
    assert str(sendable(Strange(1, 2))) == "Strange: 1 and 2"


def test_the_memory_that_rendering_takes_is_the_processs_too() -> None:
    setup = setup_of(Settings(), BrowserOptions())
    child = Child(link=None, setup=setup)  # type: ignore[arg-type]
    assert os.getpid() in {process.pid for process in child._browser._memory()}


def test_messages_arrive_whole_and_an_end_is_an_end(loop: asyncio.AbstractEventLoop) -> None:
    headers = {"Content-Type": "text/html", "X": ["1", "2"]}
    page = HtmlResponse("http://x/", 404, headers, b"\xe9" * 3_000_000, encoding="latin-1")

    async def scene() -> None:
        here, there = [await Link.open(end) for end in socket.socketpair()]
        here.send(page)
        here.send(["small"])
        here.end()
        came = await there.read()
        assert type(came) is HtmlResponse
        assert (came.url, came.status, came.text) == (page.url, 404, page.text)
        assert came.headers == page.headers
        assert came.headers.getlist("x") == [b"1", b"2"]
        assert [await there.read(), await there.read()] == [["small"], None]
        there.send("back")
        there._writer.write(b"\0\0")  # and cut off
        await there.close()
        assert [await here.read(), await here.read()] == ["back", None]
        await here.close()
        here.send("to nobody")

    loop.run_until_complete(scene())


# --- pages, in the process ---------------------------------------------------------


def test_a_page_is_what_it_is_in_the_crawls_own_process(bench: Bench) -> None:
    waited = PageMethod("wait_for_selector", "title", state="attached")
    methods = {"title": PageMethod("title"), "waited": waited}
    meta = {"playwright_page_methods": methods, "mine": own}
    response = bench.run(bench.go("/redirect", meta))
    assert (response.status, response.css("title::text").get()) == (200, "Fine")
    assert response.meta["mine"] is own
    assert response.meta["playwright_page_methods"] is methods
    assert methods["title"].result == "Fine"
    assert "JSHandle" in waited.result
    assert response.meta["redirect_urls"] == [bench.site.url + "/redirect"]
    assert response.meta["retryscrape_bytes"] > 500
    assert 0 < response.meta["download_latency"] < 30
    assert "Chrome/" in str(bench.aside.user_agent)
    stats = bench.crawler.stats.get_stats()
    assert stats["retryscrape/browser/pages"] == stats["playwright/page_count"] == 1
    assert stats["retryscrape/browser/bytes"] == response.meta["retryscrape_bytes"]
    assert bench.aside._thread is None


def test_a_challenges_cookies_come_back(bench: Bench) -> None:
    response = bench.run(bench.go("/challenge", host="challenged"))
    assert response.headers["X-Real"] == b"yes"
    assert [c["name"] for c in response.meta["retryscrape_cookies"]] == ["cleared"]


def test_errors_come_back(bench: Bench) -> None:
    with pytest.raises(FetchError) as fault:
        bench.run(bench.go("/half"))
    assert (fault.value.reason, fault.value.at) == ("truncated", At.UNKNOWN)
    assert fault.value.bytes > 500
    with pytest.raises(AttributeError, match="no_such") as caught:
        bench.run(bench.go("/ok", {"playwright_page_methods": [PageMethod("no_such")]}))
    assert "render.py" in caught.value.__notes__[0]


def test_no_password_shows_and_signals_do_not_end_it(bench: Bench) -> None:
    user, password = CREDENTIALS
    proxy = BrowserProxy(id="e", server=bench.site.proxy, username=user, password=password)
    assert bench.run(bench.go("/ok", proxy=proxy)).status == 200
    child = bench.child
    for name in ("cmdline", "environ"):
        assert password.encode() not in pathlib.Path(f"/proc/{child.pid}/{name}").read_bytes()
    assert os.getpgid(child.pid) != os.getpgid(0)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(child.pid, number)
    assert bench.run(bench.go("/ok")).status == 200
    assert bench.child == child


def test_cancelling_cancels_the_page_there(bench: Bench) -> None:
    async def scene() -> Any:
        for work in await bench.hanging(2, timeout=60.0):
            work.cancel()
        async with asyncio.timeout(20):  # both slots are free again
            return await asyncio.gather(bench.go("/ok"), bench.go("/ok"))

    assert [response.status for response in bench.run(scene())] == [200, 200]


def test_a_killed_process_fails_its_pages_and_the_next_page_starts_another(
    bench: Bench,
) -> None:
    async def killed() -> Any:
        works = await bench.hanging(2)
        group = tree({bench.child})
        assert len(group) > 3
        os.kill(group[0].pid, signal.SIGKILL)
        ends = await asyncio.gather(*works, return_exceptions=True)
        response = await bench.go("/ok")
        return ends, response, await bench.until(lambda: not left(group))

    ends, response, gone = bench.run(killed())
    assert [(end.reason, end.at) for end in ends] == [("reset", At.UNKNOWN)] * 2
    assert (response.status, gone) == (200, True)


def test_one_that_is_killed_before_it_takes_orders_is_started_anew(own_bench: Bench) -> None:
    async def killed() -> Any:
        works = [asyncio.create_task(own_bench.go("/ok")) for _ in range(2)]
        assert await own_bench.until(lambda: own_bench.aside._apart._helper is not None)
        first = own_bench.aside._apart._helper.process
        first.kill()
        responses = await asyncio.gather(*works)
        return first.pid, [response.status for response in responses]

    first, statuses = own_bench.run(killed())
    assert (statuses, own_bench.child.pid != first) == ([200, 200], True)


def test_a_process_that_hangs_is_given_up(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    async def stopped() -> tuple[str, bool]:
        await bench.go("/ok")
        monkeypatch.setattr(helper, "MARGIN", 0.2)
        group = tree({bench.child})
        os.kill(group[0].pid, signal.SIGSTOP)
        with pytest.raises(FetchError) as caught:
            await bench.go("/ok", timeout=0.2)
        return caught.value.reason, await bench.until(lambda: not left(group))

    assert bench.run(stopped()) == ("reset", True)


def test_closing_ends_every_process_and_what_is_under_way(own_bench: Bench) -> None:
    async def closed() -> Any:
        works = await own_bench.hanging(2)
        works.append(asyncio.create_task(own_bench.go("/ok")))  # waits for a slot
        await asyncio.sleep(0)
        group = tree({own_bench.child})
        await own_bench.aside.close()
        return await asyncio.gather(*works, return_exceptions=True), left(group)

    ends, group = own_bench.run(closed())
    assert [end.reason for end in ends] == ["cancelled"] * 3
    assert group == []
    # those were told at the very end
    assert own_bench.crawler.stats.get_value("retryscrape/browser/pages") == 2


#: A crawl that renders: one page, then one that never comes.
CRAWL = """
import asyncio, sys
from scrapy import Request
from scrapy.utils.test import get_crawler
from retryscrape.crawl.browser.aside import Aside
from retryscrape.crawl.browser.options import BrowserOptions

async def main():
    crawler = get_crawler()
    aside = Aside(crawler, BrowserOptions.from_settings(crawler.settings))
    how = dict(proxy=None, host="h", escalated=False, timeout=30.0)
    for url in sys.argv[1:]:
        await aside.fetch(Request(url), **how)

asyncio.run(main())
"""


def test_a_killed_crawl_leaves_no_process(bench: Bench) -> None:
    async def killed() -> tuple[int, bool]:
        before = bench.site.paths().count("/hang")
        urls = [bench.site.url + path for path in ("/ok", "/hang")]
        crawl = await asyncio.create_subprocess_exec(sys.executable, "-c", CRAWL, *urls)
        assert await bench.until(lambda: bench.site.paths().count("/hang") > before, 30)
        group = tree({processes()[crawl.pid]})
        crawl.kill()
        await crawl.wait()
        return len(group), await bench.until(lambda: not left(group))

    size, gone = bench.run(killed())
    assert size > 4
    assert gone


# --- without it --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("python", "why"), [("/bin/false", "code 1"), ("/no/such/python", "No such file")]
)
def test_a_process_that_cannot_be_started_is_one_sentence(
    own_bench: Bench, monkeypatch: pytest.MonkeyPatch, python: str, why: str
) -> None:
    monkeypatch.setattr(sys, "executable", python)
    with pytest.raises(FetchError) as caught:
        own_bench.run(own_bench.go("/ok"))
    assert caught.value.reason == "unavailable"
    assert why in caught.value.detail
    assert caught.value.detail.count(".") == 1


def test_a_browser_that_cannot_start_is_told_by_the_process(
    loop: asyncio.AbstractEventLoop,
    site: Site,
    tmp_path: pathlib.Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    broken = tmp_path / "chromium"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    bench = Bench(loop, site, PLAYWRIGHT_LAUNCH_OPTIONS={"executable_path": str(broken)})
    caplog.set_level(logging.INFO)
    with pytest.raises(FetchError) as caught:
        bench.run(bench.go("/ok"))
    bench.run(bench.aside.close())
    sentence = f"The browser {broken} could not be started: it ended at once."
    assert (caught.value.reason, caught.value.detail) == ("unavailable", sentence)
    # and its own log lines are the crawl's: once, without a second name in front
    said = [r.getMessage() for r in caplog.records if r.name == "scrapy-playwright"]
    assert set(said) == {"Launching browser chromium"}


def test_a_page_that_waits_for_the_process_to_start_is_not_lost_to_the_thread(
    own_bench: Bench,
) -> None:
    async def look(page: Any) -> None:
        pass

    async def scene() -> Any:
        pages = [own_bench.go("/ok"), own_bench.go("/ok", {METHODS: [PageMethod(look)]})]
        return [response.status for response in await asyncio.gather(*pages)]

    assert own_bench.run(scene()) == [200, 200]


def test_code_of_the_users_is_run_here_and_takes_the_browser_with_it(own_bench: Bench) -> None:
    seen = []

    async def look(page: Any) -> None:
        seen.append(await page.title())

    async def scene() -> Any:
        hangs = (await own_bench.hanging(1))[0]
        group = tree({own_bench.child})
        await own_bench.go("/ok", {"playwright_page_methods": [PageMethod(look)]})
        assert left(group)[:1] == group[:1]  # for the page that is still in it
        assert not hangs.done()
        hangs.cancel()
        await own_bench.go("/ok")
        return await own_bench.until(lambda: not left(group))

    assert own_bench.run(scene())
    assert seen == ["Fine"]
    own_bench.run(own_bench.aside.close())
    assert "browser" not in {thread.name for thread in threading.enumerate()}
    assert own_bench.crawler.stats.get_value("retryscrape/browser/launches") == 2
