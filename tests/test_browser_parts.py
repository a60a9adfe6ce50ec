"""The browser rung's parts that need no browser: tables, waits, contexts, and doing without."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scrapy import Request
from scrapy.settings import Settings
from scrapy.utils.test import get_crawler

from retryscrape.crawl.adapt import verdict_of
from retryscrape.crawl.browser import executable, places
from retryscrape.crawl.browser.contexts import Contexts
from retryscrape.crawl.browser.documents import Document, Rendered, looks_html, response_of
from retryscrape.crawl.browser.engine import FAILED_LAUNCHES, launch_options
from retryscrape.crawl.browser.errors import launch_sentence
from retryscrape.crawl.browser.handler import Browser
from retryscrape.crawl.browser.neterrors import fault_of
from retryscrape.crawl.browser.options import BrowserOptions, BrowserProxy, Waits
from retryscrape.crawl.browser.waits import Look, patience
from retryscrape.crawl.download import DownloadHandler
from retryscrape.crawl.faults import At, FetchError, OwnCodeError
from retryscrape.crawl.keys import METHODS
from retryscrape.policy.outcomes import Kind, Outcome


@pytest.mark.parametrize(
    ("text", "reason", "at", "status"),
    [
        ("Page.goto: net::ERR_PROXY_CONNECTION_FAILED at http://x", "connect", At.PROXY, None),
        ("net::ERR_INVALID_AUTH_CREDENTIALS", "connect", At.PROXY, 407),
        ("net::ERR_HTTP_RESPONSE_CODE_FAILURE", "connect", At.PROXY, 407),
        ("net::ERR_TUNNEL_CONNECTION_FAILED", "connect", At.UNKNOWN, None),
        ("net::ERR_NAME_NOT_RESOLVED", "dns", At.TARGET, None),
        ("net::ERR_CONNECTION_REFUSED", "connect", At.TARGET, None),
        ("net::ERR_CONNECTION_RESET", "reset", At.UNKNOWN, None),
        ("net::ERR_EMPTY_RESPONSE", "reset", At.UNKNOWN, None),
        ("net::ERR_SOCKET_NOT_CONNECTED", "reset", At.UNKNOWN, None),
        ("net::ERR_TIMED_OUT", "timeout", At.UNKNOWN, None),
        ("net::ERR_CERT_DATE_INVALID", "tls", At.UNKNOWN, None),
        ("net::ERR_SSL_PROTOCOL_ERROR", "tls", At.UNKNOWN, None),
        ("net::ERR_CONTENT_LENGTH_MISMATCH", "truncated", At.UNKNOWN, None),
        ("net::ERR_CONTENT_DECODING_FAILED", "decode", At.UNKNOWN, None),
        ("net::ERR_UNSAFE_PORT", "scheme", At.TARGET, None),
        ("no such word", "reset", At.UNKNOWN, None),
    ],
)
def test_net_errors(text: str, reason: str, at: At, status: int | None) -> None:
    fault = fault_of(text)
    assert (fault.reason, fault.at, fault.status) == (reason, at, status)


LONG = Look(html="", url="", text=900, scripts=3)
SHORT = Look(html="", url="", text=40, scripts=3)


@pytest.mark.parametrize(
    ("kind", "status", "look", "seconds"),
    [
        (Kind.CHALLENGE, 403, SHORT, 15.0),
        (Kind.CHALLENGE, 200, LONG, 15.0),
        (Kind.CAPTCHA, 403, SHORT, 0.0),
        (Kind.DENIAL, 403, SHORT, 0.0),
        (None, 200, LONG, 0.0),
        (None, 200, SHORT, 0.0),
        (None, 403, SHORT, 2.5),
        (None, 403, LONG, 0.0),
        (None, 404, SHORT, 0.0),
        (None, 200, Look(html="", url="", text=10, refresh=3.0), 5.0),
        (None, 200, Look(html="", url="", text=10, refresh=300.0), 0.0),
        (None, 200, Look(html="", url="", text=900, refresh=3.0), 0.0),
    ],
)
def test_only_a_page_that_may_still_change_is_borne_with(
    kind: Kind | None, status: int, look: Look, seconds: float
) -> None:
    assert patience(Waits(), kind=kind, status=status, look=look, enough=500) == seconds


@pytest.mark.parametrize(
    ("body", "page"),
    [
        (b"<!DOCTYPE html><p>x", True),
        (b"\xef\xbb\xbf\n <html>", True),
        (b"<!-- a --> <div>", True),
        (b'{"a": 1}', False),
        (b"\x89PNG", False),
        (b"", False),
        (b"<?xml version='1.0'?>", False),
        (b"<rss><channel>", False),
    ],
)
def test_bytes_without_a_type_are_a_page_if_they_look_like_one(body: bytes, page: bool) -> None:
    assert looks_html(body) is page


@pytest.mark.parametrize(
    ("headers", "status", "rendered"),
    [
        ((("Content-Type", "text/html; charset=x"),), 200, True),
        ((("content-type", "TEXT/HTML"),), 403, True),
        ((("Content-Type", "application/xhtml+xml"),), 200, True),
        ((("Content-Type", "application/json"),), 200, False),
        ((("Content-Type", "image/svg+xml"),), 200, False),
        ((("Content-Type", "text/html"), ("Content-Disposition", "Attachment; x")), 200, False),
        ((), 200, None),
    ],
)
def test_what_a_browser_shows_as_a_page(
    headers: tuple[tuple[str, str], ...], status: int, rendered: bool | None
) -> None:
    assert Document("1", "http://x/", status, headers).rendered is rendered


@given(text=st.text(max_size=60), charset=st.sampled_from(["latin-1", "utf-8", "nonsense", ""]))
def test_the_body_can_always_be_read_back(text: str, charset: str) -> None:
    headers = (("Content-Type", f"text/html; charset={charset}"), ("Content-Length", "3"))
    document = Document("1", "http://x/", 200, headers)
    response: Any = response_of(Request("http://x/"), Rendered(document, "http://x/", text))
    assert response.text == text.encode("utf-8", "replace").decode("utf-8")
    assert "Content-Length" not in response.headers


def test_the_package_is_imported_without_playwright() -> None:
    code = (
        "import sys; import retryscrape.crawl.browser.handler;"
        "print([m for m in sys.modules if 'playwright' in m])"
    )
    root = Path(__file__).parent.parent
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=root)
    assert done.stdout.strip() == "[]"


def test_settings_of_the_user_win() -> None:
    rule = "retryscrape.crawl.browser.documents.looks_html"
    settings = Settings(
        {
            "PLAYWRIGHT_ABORT_REQUEST": rule,
            "PLAYWRIGHT_MAX_CONTEXTS": 3,
            "USER_AGENT": "Mine/1",
            "DOWNLOAD_VERIFY_CERTIFICATES": False,
            "PLAYWRIGHT_CONTEXTS": {"default": {"locale": "de"}},
            "PLAYWRIGHT_LAUNCH_OPTIONS": {"executable_path": "/x", "args": ["--mine"]},
        }
    )
    options = BrowserOptions.from_settings(settings)
    assert (options.abort, options.abort_types) == (looks_html, ())
    assert (options.max_contexts, options.user_agent, options.verify_tls) == (3, "Mine/1", False)
    assert options.context_kwargs == {"locale": "de"}
    assert options.slots == 3
    launch = launch_options(settings)
    assert launch["executable_path"] == "/x"
    assert launch["args"][0] == "--mine"
    assert "--ignore-certificate-errors" in launch["args"]
    assert "--ignore-certificate-errors" not in launch_options(Settings())["args"]
    assert launch["handle_sigint"] is False
    # Chromium's own guard against pages that jump or open windows without end
    assert "--disable-ipc-flooding-protection" in launch["ignore_default_args"]


def test_scrapys_own_user_agent_is_not_the_browsers() -> None:
    assert BrowserOptions.from_settings(Settings()).user_agent is None


def test_a_password_is_in_no_text() -> None:
    assert "geheim" not in repr(BrowserProxy(id="x", server="http://h:1", password="geheim"))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"PLAYWRIGHT_LAUNCH_OPTIONS": {"executable_path": "/no/such"}}, "/no/such"),
        ({"PLAYWRIGHT_BROWSER_TYPE": "firefox"}, "firefox"),
    ],
)
def test_why_nothing_can_be_rendered_is_one_sentence(settings: dict[str, Any], words: str) -> None:
    sentence = executable.unavailable(Settings(settings))
    assert words in str(sentence)
    assert "\n" not in str(sentence)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("x has been closed\n[err] Missing X server or $DISPLAY", "no display"),
        ("launch() got an unexpected keyword argument 'a'", "wrong name"),
        ("libnss3.so: error while loading shared libraries", "system library"),
        ("Timeout 3000ms exceeded.", "in time"),
        ("something new\nand more", "something new"),
    ],
)
def test_why_a_browser_does_not_start(text: str, hint: str) -> None:
    sentence = launch_sentence(OSError(text), "/usr/bin/chromium")
    assert sentence.startswith("The browser /usr/bin/chromium could not be started: ")
    assert hint in sentence
    assert "\n" not in sentence


def test_no_browser_anywhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(tmp_path))
    assert "no browser was found" in str(executable.unavailable(Settings()))


def test_a_browser_that_cannot_start_is_tried_again_and_then_left_alone(tmp_path: Path) -> None:
    broken = tmp_path / "chromium"
    broken.write_text(f"#!/bin/sh\necho >> {tmp_path}/tried\nexit 1\n")
    broken.chmod(0o755)
    crawler = get_crawler(
        settings_dict={"PLAYWRIGHT_LAUNCH_OPTIONS": {"executable_path": str(broken)}}
    )
    browser = Browser(crawler, BrowserOptions(), challenged=lambda page: None)

    async def tried() -> list[str]:
        reasons = []
        for _ in range(2):
            with pytest.raises(FetchError) as caught:
                await browser.fetch(
                    Request("http://127.0.0.1/"), proxy=None, host="h", escalated=False, timeout=20
                )
            reasons.append(caught.value.reason)
        await browser.close()
        return reasons

    assert browser.available() is None
    assert asyncio.run(tried()) == ["unavailable"] * 2
    assert (tmp_path / "tried").read_text() == "\n" * FAILED_LAUNCHES
    sentence = f"The browser {broken} could not be started: it ended at once."
    assert browser.available() == sentence
    assert crawler.stats.get_value("playwright/page_count", 0) == 0


@pytest.mark.parametrize(
    ("meta", "raised"), [({METHODS: ["a method"]}, OwnCodeError), ({}, PermissionError)]
)
def test_an_error_of_the_users_own_code_is_no_failure_of_the_site(
    meta: dict[str, Any], raised: type[Exception]
) -> None:
    async def fetch(*_: Any, **__: Any) -> None:
        raise PermissionError("shot.png")

    handler = object.__new__(DownloadHandler)
    handler.timeout = 30.0
    handler.run = SimpleNamespace(  # type: ignore[assignment]
        pool=None, rendering=SimpleNamespace(browser=SimpleNamespace(fetch=fetch))
    )
    ticket: Any = SimpleNamespace(host="x", escalate=False)
    with pytest.raises(raised) as caught:
        asyncio.run(handler._render(Request("http://x/", meta=meta), ticket))
    verdict = verdict_of(caught.value, proxied=True)
    assert (verdict.outcome is Outcome.NO_RESULT) is bool(meta)
    assert "shot.png" in f"{verdict.reason} {verdict.evidence}"


class LoadsItself:
    """A page of which the first close is lost, and its session."""

    def __init__(self, *, closes: bool) -> None:
        self.sent: list[str] = []
        self.closed = asyncio.Event()
        self.closes = closes
        self.page = self.wire = self.session = self

    async def close(self) -> None:
        await self.closed.wait()

    async def send(self, command: str, _: Any = None) -> None:
        self.sent.append(command)
        if self.closes and command == "Page.close":
            self.closed.set()

    def kill(self) -> None:
        self.sent.append("killed")
        self.closed.set()


@pytest.mark.parametrize("closes", [True, False])
def test_only_a_tab_that_cannot_be_closed_elsewhere_takes_its_browser_with_it(
    monkeypatch: pytest.MonkeyPatch, closes: bool
) -> None:
    for name in ("STUBBORN_SECONDS", "SWAP_SECONDS", "STUCK_SECONDS"):
        monkeypatch.setattr(places, name, 0.2 if name == "STUCK_SECONDS" else 0.05)

    async def scene() -> list[str]:
        tab = LoadsItself(closes=closes)
        await places.Places(BrowserOptions(), tab, tab).close_tab(tab)  # type: ignore[arg-type]
        return tab.sent

    sent = asyncio.run(scene())
    assert sent[:1] == ["Page.navigate"]
    assert ("killed" in sent) is not closes


class Fakes:
    """Contexts and tabs as numbers, and the order in which they were opened and closed."""

    def __init__(self, slots: int, limit: int, linger: float = 60) -> None:
        self.log: list[str] = []
        self.opened = self.now = self.most = 0
        self.contexts: Contexts[str, str] = Contexts(
            slots=slots,
            limit=limit,
            open_tab=self.open_tab,
            close_tab=self.close_tab,
            close_context=self.close_context,
            linger=linger,
        )

    async def open_tab(self, context: str) -> str:
        self.opened += 1
        await asyncio.sleep(0)
        self.log.append(f"+tab {context}")
        return f"{context}/{self.opened}"

    async def close_tab(self, tab: str) -> None:
        await asyncio.sleep(0)
        self.log.append(f"-tab {tab.partition('/')[0]}")

    async def close_context(self, context: str) -> None:
        self.now -= 1
        self.log.append(f"-{context}")

    async def lease(self, key: str) -> Any:
        async def opened() -> str:
            self.now += 1
            self.most = max(self.most, self.now)
            self.log.append(f"+{key}")
            return key

        await self.contexts.slot()
        return await self.contexts.lease(key, opened)

    async def use(self, key: str, *, well: bool = True) -> None:
        lease = await self.lease(key)
        await asyncio.sleep(0)
        lease.reusable = well
        self.contexts.release(lease)


def test_the_least_recently_used_context_makes_way_page_first() -> None:
    async def scene() -> list[str]:
        fakes = Fakes(slots=1, limit=2)
        for key in ("a", "b", "a", "c"):
            await fakes.use(key)
        await fakes.contexts.close()
        return fakes.log

    log = asyncio.run(scene())
    assert log.index("-b") < log.index("+c") < log.index("-a")
    assert log.index("-tab b") < log.index("-b")


def test_the_next_page_of_the_same_exit_and_host_gets_the_tab() -> None:
    async def scene() -> int:
        fakes = Fakes(slots=2, limit=4)
        for _ in range(5):
            await fakes.use("a")
        await fakes.use("a", well=False)
        await fakes.use("a")
        await fakes.contexts.close()
        return fakes.opened

    assert asyncio.run(scene()) == 2


def test_waiters_are_served_in_order_and_bounds_hold() -> None:
    async def scene() -> tuple[list[int], int, int]:
        fakes, order = Fakes(slots=2, limit=2), []

        async def one(n: int) -> None:
            lease = await fakes.lease(f"key{n % 7}")
            order.append(n)
            await asyncio.sleep(0.001)
            lease.reusable = n % 3 > 0
            fakes.contexts.release(lease)

        await asyncio.wait_for(asyncio.gather(*(one(n) for n in range(40))), 10)
        await fakes.contexts.close()
        return order, fakes.most, fakes.contexts.pages

    order, most, left = asyncio.run(scene())
    assert all(abs(place - n) <= 1 for place, n in enumerate(order))
    assert (most, left) == (2, 0)


def test_a_tab_that_opens_after_its_page_was_cancelled_is_closed() -> None:
    async def scene() -> tuple[int, list[str]]:
        fakes = Fakes(slots=1, limit=1)
        gate, opening = asyncio.Event(), asyncio.Event()

        async def slow(context: str) -> str:
            opening.set()
            await gate.wait()
            return f"{context}/late"

        fakes.contexts._open_tab = slow
        work = asyncio.create_task(fakes.lease("a"))
        await opening.wait()
        work.cancel()
        await asyncio.wait({work})
        fakes.contexts.free()
        gate.set()
        await fakes.contexts.close()
        return fakes.contexts.pages, fakes.log

    pages, log = asyncio.run(scene())
    assert pages == 0
    assert "-tab a" in log


def test_a_context_that_cannot_be_opened_is_tried_again() -> None:
    async def scene() -> str:
        fakes = Fakes(slots=1, limit=1)

        async def broken() -> str:
            raise OSError("no")

        await fakes.contexts.slot()
        with pytest.raises(OSError):
            await fakes.contexts.lease("a", broken)
        fakes.contexts.free()
        lease = await fakes.lease("a")
        return str(lease.tab)

    assert asyncio.run(scene()) == "a/1"
