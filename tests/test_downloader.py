"""Room in download slots: told ahead, so that nothing waits where a pause cannot reach it."""

from __future__ import annotations

import math
import time
from types import SimpleNamespace

import pytest
from scrapy import Request, Spider
from scrapy.utils.test import get_crawler

from retryscrape.crawl.downloader import RoomyDownloader
from retryscrape.crawl.runtime import MOST_UNSETTLED, Run

HOST = "a.test"


@pytest.fixture
def downloader(monkeypatch: pytest.MonkeyPatch) -> RoomyDownloader:
    settings = {"DOWNLOAD_DELAY": 10, "CONCURRENT_REQUESTS_PER_DOMAIN": 3}
    made = RoomyDownloader(get_crawler(Spider, settings_dict=settings))
    monkeypatch.setattr(made, "_start_slot_gc", lambda: None)
    return made


def test_the_next_departure_is_told_exactly(downloader: RoomyDownloader) -> None:
    """Scrapy draws the delay anew at each look: a request that was given out at the mean one
    would wait in the slot."""
    _, slot = downloader._get_slot(Request(f"http://{HOST}/"))
    slot.lastseen = time.monotonic()
    told = downloader.room(HOST, 0)
    assert {slot.lastseen + slot.download_delay() for _ in range(20)} == {told}
    assert 5.0 <= told - slot.lastseen <= 15.0
    slot.lastseen += 1.0
    assert downloader.room(HOST, 0) != told + 1.0
    slot.delay = 1000.0  # AutoThrottle says so
    assert 500.0 <= downloader.room(HOST, 0) - slot.lastseen <= 1500.0


def test_with_a_delay_one_request_of_a_host_waits_for_robots_txt(
    downloader: RoomyDownloader,
) -> None:
    assert downloader.room(HOST, 0) == 0.0
    assert 5.0 < downloader.room(HOST, 1) - time.monotonic() <= 10.0
    assert downloader.room(HOST, 3) == math.inf
    _, slot = downloader._get_slot(Request(f"http://{HOST}/"))
    assert downloader.room(HOST, 1) > time.monotonic()
    slot.active.add(Request(f"http://{HOST}/"))
    assert downloader.room(HOST, 1) == 0.0  # it is in its slot, and nothing left lately


def test_without_a_delay_nothing_waits() -> None:
    made = RoomyDownloader(get_crawler(Spider, settings_dict={"DOWNLOAD_DELAY": 0}))
    assert made.room(HOST, 3) == 0.0
    assert made.room(HOST, 8) == math.inf


def test_nothing_is_asked_for_while_the_ledger_lags_behind(downloader: RoomyDownloader) -> None:
    """A page that is not committed is asked for again after a kill."""
    run = Run.of(downloader.crawler)
    downloader.lags = run.lags
    assert not downloader.needs_backout()  # no ledger
    run.books = SimpleNamespace(writer=SimpleNamespace(unsettled=MOST_UNSETTLED - 1))
    assert not downloader.needs_backout()
    run.books.writer.unsettled += 1
    assert downloader.needs_backout()
