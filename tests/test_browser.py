"""The browser rung against real Chromium and a small web: what comes back, what is left open."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

import pytest
from browser_site import CREDENTIALS, PDF, PNG, Site
from scrapy import Request
from scrapy.utils.test import get_crawler
from scrapy_playwright.page import PageMethod

from retryscrape.crawl.browser.aside import Aside
from retryscrape.crawl.browser.handler import Browser
from retryscrape.crawl.browser.options import BrowserOptions, BrowserProxy, Waits
from retryscrape.crawl.browser.processes import processes
from retryscrape.crawl.browser.thread import OnThread
from retryscrape.crawl.faults import At, FetchError
from retryscrape.crawl.keys import BYTES
from retryscrape.hostile.proxies import Proxy
from retryscrape.hostile.web import HostileWeb
from retryscrape.policy.outcomes import Kind, Page

pytest_plugins = ["browser_fixtures"]

WAITS = Waits(sparse=1.2, challenge=4.0, limit=4.0)


def challenged(page: Page) -> Kind | None:
    return Kind.CHALLENGE if page.header("cf-mitigated") else None


class Bench:
    """A site, a browser, and the loop that both live in."""

    def __init__(self, loop: asyncio.AbstractEventLoop, site: Site, **options: Any) -> None:
        self.loop, self.site = loop, site
        checked = options.get("verify_tls", True)
        self.crawler = get_crawler(settings_dict={"DOWNLOAD_VERIFY_CERTIFICATES": checked})
        options = {"waits": WAITS, **options}
        own = BrowserOptions.from_settings(self.crawler.settings, **options)
        self.browser = Browser(self.crawler, own, challenged=challenged)

    def run(self, work: Any) -> Any:
        return self.loop.run_until_complete(work)

    def request(self, path: str, **kwargs: Any) -> Request:
        return Request(path if "://" in path else self.site.url + path, **kwargs)

    async def go(self, request: Request | str, **how: Any) -> Any:
        request = self.request(request) if isinstance(request, str) else request
        how = {"proxy": None, "host": "site", "escalated": False, "timeout": 30.0, **how}
        return await self.browser.fetch(request, **how)

    def fetch(self, request: Request | str, **how: Any) -> Any:
        return self.run(self.go(request, **how))

    def fault(self, request: Request | str, **how: Any) -> FetchError:
        with pytest.raises(FetchError) as caught:
            self.fetch(request, **how)
        return caught.value

    def proxy(self, name: str = "exit", **how: Any) -> BrowserProxy:
        user, password = CREDENTIALS
        how = {"server": self.site.proxy, "username": user, "password": password, **how}
        return BrowserProxy(id=name, **how)

    def until(self, condition: Callable[[], bool], seconds: float = 10.0) -> bool:
        async def waiting() -> bool:
            for _ in range(int(seconds / 0.05)):
                if condition():
                    return True
                await asyncio.sleep(0.05)
            return condition()

        return bool(self.run(waiting()))

    def stat(self, name: str) -> Any:
        return self.crawler.stats.get_value(f"retryscrape/browser/{name}", 0)


@pytest.fixture(scope="module")
def hostile(loop: asyncio.AbstractEventLoop) -> Iterator[HostileWeb]:
    web = loop.run_until_complete(HostileWeb().__aenter__())
    yield web
    loop.run_until_complete(web.__aexit__())


@pytest.fixture(scope="module")
def bench(loop: asyncio.AbstractEventLoop, site: Site) -> Iterator[Bench]:
    bench = Bench(loop, site)
    yield bench
    loop.run_until_complete(bench.browser.close())


@pytest.fixture
def own_bench(
    loop: asyncio.AbstractEventLoop, site: Site, request: pytest.FixtureRequest
) -> Iterator[Bench]:
    """A browser of the test's own, for tests that kill it or count in it."""
    bench = Bench(loop, site, **getattr(request, "param", {}))
    yield bench
    loop.run_until_complete(bench.browser.close())


def test_a_page_comes_back_as_its_final_dom(bench: Bench) -> None:
    response = bench.fetch("/ok")
    assert (response.status, response.css("title::text").get()) == (200, "Fine")
    assert "Content-Length" not in response.headers


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/script", "ordinary page"),
        ("/fetch", "by fetch"),
        ("/refresh", "ordinary page"),
        ("/leaves", "ordinary page"),
        ("/untyped", "ordinary page"),
        ("/latin", "caf\u00e9"),
    ],
)
def test_what_scripts_and_refreshes_bring_is_waited_for(bench: Bench, path: str, text: str) -> None:
    assert text in bench.fetch(path).text


def test_the_verdict_is_taken_on_the_document_after_the_challenge(bench: Bench) -> None:
    request = bench.request("/challenge")
    response = bench.fetch(request, host="challenged")
    assert response.status == 200
    assert response.headers["X-Real"] == b"yes"
    assert "cf-mitigated" not in response.headers
    assert response.css("title::text").get() == "Real"
    assert [c["name"] for c in request.meta["retryscrape_cookies"]] == ["cleared"]


def test_a_cleared_challenge_stays_cleared_for_its_exit_and_host_only(bench: Bench) -> None:
    bench.fetch("/challenge", host="kept")
    before = len(bench.site.log)
    bench.fetch("/challenge/next", host="kept")
    assert bench.site.paths()[before:] == ["/challenge/next"]
    before = len(bench.site.log)
    bench.fetch("/challenge/next", host="another")
    assert bench.site.paths()[before:].count("/challenge/next") == 2
    assert [c["name"] for c in bench.browser.cookies_for(None, "kept")] == ["cleared"]
    assert bench.browser.cookies_for(bench.proxy(), "kept") == []


@pytest.mark.parametrize(
    ("path", "status", "body"),
    [
        ("/json", 200, b'{"price": 1}'),
        ("/json-as-html", 200, b'{"price": "<b>1</b>"}'),
        ("/png", 200, PNG),
        ("/png403", 403, PNG),
        ("/pdf", 200, PDF),
        ("/text", 200, b"plain & simple"),
        ("/attachment", 200, b"<p>file</p>"),
        ("/untyped.bin", 200, b"\x00\x01\x02"),
        ("/204", 204, b""),
        ("/403-empty", 403, b""),
    ],
)
def test_what_is_no_page_comes_back_as_its_bytes(
    bench: Bench, path: str, status: int, body: bytes
) -> None:
    response = bench.fetch(path)
    assert (response.status, response.body) == (status, body)


def test_redirects_are_followed_and_told(bench: Bench) -> None:
    request = bench.request("/redirect")
    assert bench.fetch(request).url == bench.site.url + "/ok"
    assert request.meta["redirect_urls"] == [request.url]


def test_a_redirect_loop_ends_as_its_last_redirect(bench: Bench) -> None:
    request = bench.request("/loop")
    assert bench.fetch(request).status == 302
    assert request.meta["redirect_times"] >= 20


def test_images_fonts_and_media_are_not_loaded_and_bytes_are_counted(bench: Bench) -> None:
    before = len(bench.site.log)
    request = bench.request("/heavy")
    bench.fetch(request)
    assert set(bench.site.paths()[before:]) == {"/heavy", "/a.css"}
    assert 15_000 < request.meta["retryscrape_bytes"] < 19_000


def test_only_an_escalated_page_is_scrolled_to_its_end(bench: Bench) -> None:
    assert "came by scrolling<" not in bench.fetch("/lazy").text
    assert "came by scrolling<" in bench.fetch("/lazy", escalated=True).text


def test_the_exit_carries_everything_and_its_password_reaches_nobody_else(bench: Bench) -> None:
    before = len(bench.site.log)
    request = bench.request("/heavy", headers={"Proxy-Authorization": "Basic plain-downloader"})
    assert bench.fetch(request, proxy=bench.proxy()).status == 200
    assert all(seen.through_proxy for seen in bench.site.log[before:])
    bench.fetch(bench.request("/heavy", headers={"Proxy-Authorization": "Basic x"}), host="b")
    assert "proxy-authorization" not in bench.site.log[-1].headers


def test_the_browser_is_itself_but_for_the_word_headless(bench: Bench) -> None:
    headers = bench.fetch(bench.request("/echo", headers={"User-Agent": "Scrapy"})).json()[
        "headers"
    ]
    assert "Chrome/" in headers["user-agent"]
    assert "Headless" not in str(headers)
    assert headers["user-agent"] == bench.browser.user_agent


def test_method_body_and_own_headers_of_a_request_are_sent(bench: Bench) -> None:
    request = bench.request("/echo", method="POST", body=b"a=1", headers={"X-Mine": "1"})
    sent = bench.fetch(request).json()
    assert (sent["method"], sent["body"], sent["headers"]["x-mine"]) == ("POST", "a=1", "1")


@pytest.mark.parametrize(
    ("url", "reason", "at"),
    [
        ("http://nohost.invalid/", "dns", At.TARGET),
        ("/reset", "reset", At.UNKNOWN),
        ("/half", "truncated", At.UNKNOWN),
        ("/half.pdf", "truncated", At.UNKNOWN),
    ],
)
def test_faults_of_the_target_have_our_words(bench: Bench, url: str, reason: str, at: At) -> None:
    fault = bench.fault(url)
    assert (fault.reason, fault.at) == (reason, at)


@pytest.mark.parametrize(
    ("how", "reason", "status"),
    [
        ({"password": "wrong"}, "connect", 407),
        ({"username": None, "password": None}, "connect", 407),
        ({"server": "http://127.0.0.1:9"}, "connect", None),
        ({"server": "socks5://127.0.0.1:9"}, "scheme", None),
        ({"server": "ftp://127.0.0.1:9"}, "scheme", None),
    ],
)
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_faults_of_the_exit_are_the_exits(
    bench: Bench, how: dict[str, Any], reason: str, status: int | None, scheme: str
) -> None:
    url = bench.site.url.replace("http", scheme) + "/ok"
    fault = bench.fault(url, proxy=bench.proxy(str(how), **how))
    assert (fault.reason, fault.at, fault.status) == (reason, At.PROXY, status)
    assert CREDENTIALS[1] not in str(fault)


def test_fifty_failing_pages_leave_none_open(bench: Bench) -> None:
    async def many() -> list[Any]:
        failing = bench.request(
            "/ok",
            meta={
                "playwright_page_methods": [PageMethod("wait_for_selector", "#never", timeout=50)]
            },
        )
        works = [bench.go(failing.copy()) for _ in range(8)]
        works += [bench.go("/hang", timeout=0.4) for _ in range(12)]
        works += [bench.go("/reset") for _ in range(30)]
        return await asyncio.gather(*works, return_exceptions=True)

    ends = bench.run(many())
    assert [type(end) for end in ends] == [FetchError] * 50
    assert {end.reason for end in ends} == {"render_timeout", "reset"}
    assert bench.until(lambda: bench.browser.pages == 0)
    assert bench.fetch("/ok").status == 200


def test_a_page_that_blocks_its_own_thread_is_given_up_and_closed(bench: Bench) -> None:
    fault = bench.fault("/stuck", timeout=1.5)
    assert fault.reason == "render_timeout"
    assert bench.until(lambda: bench.browser.pages == 0)


def test_a_page_that_never_rests_is_taken_as_it_is(bench: Bench) -> None:
    assert bench.fetch("/reloads", timeout=20).status == 200


QUICK = Waits(challenge=0.3, limit=0.3, hang=0.1, sparse=0.2)


def test_a_page_that_is_gone_whenever_it_is_looked_at_ends_by_its_status(
    loop: asyncio.AbstractEventLoop, site: Site
) -> None:
    bench = Bench(loop, site, waits=QUICK)
    response = bench.fetch("/never-seen")
    # cut off by a script that never comes, yet all of it was sent
    waiting = bench.fetch("/waits-for-script")
    bench.run(bench.browser.close())
    assert response.status == 403
    assert waiting.text.count("ordinary page") == 60


def test_a_file_that_a_page_goes_on_to_is_bytes_unless_the_page_is_a_page(bench: Bench) -> None:
    file, page = bench.fetch("/to-json"), bench.fetch("/fetches-file")
    assert (file.url, file.body) == (bench.site.url + "/json", b'{"price": 1}')
    assert (page.url, "ordinary page" in page.text) == (bench.site.url + "/fetches-file", True)


def test_what_came_of_a_page_without_end_is_counted(bench: Bench) -> None:
    request = bench.request("/endless")
    fault = bench.fault(request, timeout=2.0)
    assert fault.reason == "render_timeout"
    assert request.meta[BYTES] == fault.bytes > 100_000


def test_cancelling_closes_the_page_and_returns_at_once(bench: Bench) -> None:
    async def cancelled() -> float:
        work = asyncio.create_task(bench.go("/hang"))
        await asyncio.sleep(0.5)
        start = asyncio.get_running_loop().time()
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        return asyncio.get_running_loop().time() - start

    assert bench.run(cancelled()) < 0.5
    assert bench.until(lambda: bench.browser.pages == 0)


def test_the_users_own_page_methods_and_errors_go_through(bench: Bench) -> None:
    async def wrong(page: Any) -> None:
        raise ZeroDivisionError

    title = PageMethod("title")
    bench.fetch(bench.request("/ok", meta={"playwright_page_methods": [title]}))
    assert title.result == "Fine"
    with pytest.raises(ZeroDivisionError):
        bench.fetch(bench.request("/ok", meta={"playwright_page_methods": [PageMethod(wrong)]}))


@pytest.mark.parametrize("own_bench", [{"pages": 2, "max_contexts": 2}], indirect=True)
def test_more_exits_than_contexts_neither_deadlock_nor_exceed_them(own_bench: Bench) -> None:
    async def many() -> list[Any]:
        return await asyncio.gather(*(own_bench.go("/ok", host=f"host{n % 4}") for n in range(8)))

    responses = own_bench.run(many())
    assert [r.status for r in responses] == [200] * 8
    assert own_bench.stat("pages_at_once") <= 2
    assert own_bench.stat("contexts_at_once") <= 2


@pytest.mark.parametrize("own_bench", [{"pages": 2, "recycle": 3}], indirect=True)
def test_the_browser_is_renewed_while_pages_go_on_and_keeps_its_cookies(own_bench: Bench) -> None:
    async def many() -> list[Any]:
        return await asyncio.gather(*(own_bench.go("/ok") for _ in range(6)))

    own_bench.fetch("/challenge")
    assert [r.status for r in own_bench.run(many())] == [200] * 6
    assert own_bench.stat("launches") == 3
    before = len(own_bench.site.log)
    own_bench.fetch("/challenge/next")
    assert own_bench.site.paths()[before:] == ["/challenge/next"]


@pytest.mark.parametrize("victim", ["browser", "driver"])
def test_a_killed_process_fails_its_pages_and_the_next_page_starts_anew(
    own_bench: Bench, victim: str
) -> None:
    own_bench.fetch("/ok")
    driver, browser, *_ = own_bench.browser._engine.processes()

    async def killed() -> Any:
        before = own_bench.site.paths().count("/hang")
        works = [asyncio.create_task(own_bench.go("/hang")) for _ in range(2)]
        for _ in range(200):
            if own_bench.site.paths().count("/hang") == before + 2:
                break
            await asyncio.sleep(0.05)
        os.kill(driver.pid if victim == "driver" else browser.pid, signal.SIGKILL)
        return await asyncio.gather(*works, return_exceptions=True)

    ends = own_bench.run(killed())
    assert [(end.reason, end.at) for end in ends] == [("reset", At.UNKNOWN)] * 2
    assert own_bench.fetch("/ok").status == 200
    assert own_bench.until(lambda: processes().get(browser.pid) != browser)


def test_closing_ends_every_process_and_what_is_in_flight(own_bench: Bench) -> None:
    own_bench.fetch("/ok")
    group = own_bench.browser._engine.processes()
    assert len(group) > 3

    async def closed() -> Any:
        work = asyncio.create_task(own_bench.go("/hang"))
        await asyncio.sleep(0.3)
        await own_bench.browser.close()
        return (await asyncio.gather(work, return_exceptions=True))[0]

    assert own_bench.run(closed()).reason == "cancelled"
    assert own_bench.until(lambda: not [p for p in group if processes().get(p.pid) == p], 3)
    assert own_bench.fault("/ok").reason == "cancelled"


def test_the_driver_leads_a_session_of_its_own(bench: Bench) -> None:
    bench.fetch("/ok")
    driver = bench.browser._engine.processes()[0]
    assert os.getsid(driver.pid) != os.getsid(0)
    assert os.getpgid(driver.pid) != os.getpgid(0)


def exit_of(proxy: Proxy) -> BrowserProxy:
    url = urlsplit(proxy.url)
    return BrowserProxy(
        id=proxy.spec.name,
        server=f"http://{url.hostname}:{url.port}",
        username=url.username,
        password=url.password,
    )


def plainly(proxy: Proxy, url: str, cookies: list[dict[str, Any]]) -> int:
    """The status that a plain request gets through a proxy."""
    address = urlsplit(proxy.url)
    connection = HTTPConnection(address.hostname or "", address.port, timeout=10)
    cookie = "; ".join(f"{c['name']}={c['value']}" for c in cookies)
    connection.request("GET", url, headers={"Cookie": cookie})
    status = connection.getresponse().status
    connection.close()
    return status


def test_a_challenges_cookie_opens_the_plain_rung_on_the_same_exit_only(
    bench: Bench, hostile: HostileWeb
) -> None:
    here, there = hostile.proxy("good1"), hostile.proxy("good2")
    first, later = "http://wall.test/challenge/1", "http://wall.test/challenge/2"
    assert bench.fetch(first, proxy=exit_of(here), host="wall.test").status == 200
    cookies = bench.browser.cookies_for(exit_of(here), "wall.test")

    async def asked(proxy: Proxy) -> int:
        return await asyncio.to_thread(plainly, proxy, later, cookies)

    assert bench.run(asked(here)) == 200
    assert bench.run(asked(there)) == 403


def test_another_login_at_the_same_exit_is_another_context(bench: Bench) -> None:
    wrong = bench.proxy("gateway", password="yesterday's")
    assert bench.fault("/ok", proxy=wrong).status == 407
    assert bench.fetch("/ok", proxy=bench.proxy("gateway")).status == 200


@pytest.mark.parametrize("own_bench", [{"verify_tls": False}], indirect=True)
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_bytes_are_what_the_exit_carried(
    own_bench: Bench, hostile: HostileWeb, scheme: str
) -> None:
    proxy = hostile.proxy("auth1")
    before = sum(c["received"] + c["sent"] for c in hostile.connections("auth1"))
    total = 0
    for path in ("ok/1", "large/1", "large/2", "assets/1", "json/1"):
        request = Request(f"{scheme}://shop.test/{path}")
        own_bench.fetch(request, proxy=exit_of(proxy))
        total += request.meta["retryscrape_bytes"]
    carried = sum(c["received"] + c["sent"] for c in hostile.connections("auth1")) - before
    # Chromium tells nowhere of handshakes on connections that it then did not use
    assert total == pytest.approx(carried, rel=0.01 if scheme == "http" else 0.03)


@pytest.mark.parametrize(
    ("kind", "reason", "at"),
    [
        ("dead", "connect", At.PROXY),
        ("always-407", "connect", At.PROXY),
        ("closes", "reset", At.UNKNOWN),
        ("resets-after", "reset", At.UNKNOWN),
        ("closes-partial", "reset", At.UNKNOWN),
        ("garbage", "reset", At.UNKNOWN),
        ("socks", "reset", At.UNKNOWN),
        ("cuts", "truncated", At.UNKNOWN),
    ],
)
def test_a_broken_exit_is_never_taken_for_a_page(
    bench: Bench, hostile: HostileWeb, kind: str, reason: str, at: At
) -> None:
    fault = bench.fault("http://shop.test/ok/1", proxy=exit_of(hostile.proxy(kind)))
    assert (fault.reason, fault.at) == (reason, at)


def test_a_self_signed_certificate_is_refused(bench: Bench, hostile: HostileWeb) -> None:
    assert bench.fault(hostile.url("/ok/1", secure=True)).reason == "tls"


@pytest.mark.parametrize("path", ["/hugelength/1", "/bomb/1?mb=60"])
@pytest.mark.parametrize("own_bench", [{"max_size": 10_000_000}], indirect=True)
def test_a_document_over_the_size_limit_is_dropped(
    own_bench: Bench, hostile: HostileWeb, path: str
) -> None:
    assert own_bench.fault(hostile.url(path)).reason == "too_large"


@pytest.mark.parametrize(
    ("path", "status", "body"),
    [("/empty/1", 200, b""), ("/blank/1", 200, b" \r\n\t\n  "), ("/nolocation/1", 302, b"")],
)
def test_an_empty_answer_stays_empty(
    bench: Bench, hostile: HostileWeb, path: str, status: int, body: bytes
) -> None:
    response = bench.fetch(hostile.url(path))
    assert (response.status, response.body) == (status, body)


def test_a_page_that_leaves_for_no_content_stays(bench: Bench, hostile: HostileWeb) -> None:
    assert bench.fetch(hostile.url("/runsaway/1")).status == 200


def test_a_target_that_wants_a_login_is_no_fault_of_the_exit(bench: Bench) -> None:
    direct = bench.fetch("/login")
    assert (direct.status, direct.headers["X-Own"], direct.body) == (401, b"1", b"")
    assert bench.fetch("/login", proxy=bench.proxy()).status == 401


def test_the_tab_of_a_page_that_keeps_jumping_is_no_other_pages(bench: Bench) -> None:
    assert bench.fetch("/jumps").status == 200
    assert bench.fetch("/ok").status == 200
    assert bench.fetch("/jumps").status == 200
    assert not bench.browser._contexts._spare


def test_the_classifier_says_what_is_still_a_challenge(
    loop: asyncio.AbstractEventLoop, hostile: HostileWeb
) -> None:
    bench = Bench(loop, Site())
    bench.browser = Browser(
        bench.crawler, BrowserOptions.from_settings(bench.crawler.settings, waits=WAITS)
    )
    cleared = bench.fetch(hostile.url("/hiddenchallenge/1"))
    hard = bench.fetch(hostile.url("/hardchallenge/1"))
    loop.run_until_complete(bench.browser.close())
    assert b"_cf_chl_opt" not in cleared.body
    assert (hard.status, hard.headers["cf-mitigated"]) == (403, b"challenge")


@pytest.mark.parametrize("way", [Aside, OnThread])
def test_a_loop_that_never_rests_holds_no_page_up(
    loop: asyncio.AbstractEventLoop, site: Site, way: type[Aside | OnThread]
) -> None:
    crawler = get_crawler()
    options = BrowserOptions.from_settings(crawler.settings, waits=WAITS)
    loop.run_until_complete(way(crawler, options).close())  # nothing was started
    aside = way(crawler, options)

    async def busy() -> None:
        while True:
            time.sleep(0.01)  # noqa: ASYNC251 - plain pages that are being worked at
            await asyncio.sleep(0)

    async def go() -> Any:
        plain = asyncio.create_task(busy())
        request = Request(site.url + "/ok")
        how: dict[str, Any] = {"proxy": None, "host": "site", "escalated": False}
        response = await aside.fetch(request, **how, timeout=20.0)  # was over a minute
        before = site.paths().count("/hang")
        gone = asyncio.create_task(aside.fetch(Request(site.url + "/hang"), **how, timeout=20.0))
        for _ in range(2000):
            if site.paths().count("/hang") > before:
                break
            await asyncio.sleep(0.01)
        plain.cancel()
        await aside.close()
        with pytest.raises(FetchError, match="cancelled"):
            await gone
        return response

    response = loop.run_until_complete(go())
    assert (response.status, response.request.meta[BYTES] > 0) == (200, True)
    assert "browser" not in {thread.name for thread in threading.enumerate()}
    assert crawler.stats.get_value("retryscrape/browser/pages") == 2
