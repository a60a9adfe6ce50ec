"""Waiting in the scheduler: nothing before its time, nothing of a paused host, and
nothing that others would have to wait for."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest
from scrapy import Request, Spider
from scrapy.utils.test import get_crawler

from retryscrape.crawl import scheduler as scheduler_module
from retryscrape.crawl.keys import TICKET, host_of
from retryscrape.crawl.runtime import Run
from retryscrape.crawl.scheduler import WaitingScheduler
from retryscrape.policy.ticket import Ticket

START = 1_000_000.0


class Clock:
    """The scheduler's time, set by hand."""

    now = START

    def time(self) -> float:
        return self.now

    def monotonic(self) -> float:
        return self.now


class Downloader:
    """Room as it is told, keyed by host."""

    def __init__(self) -> None:
        self.full: set[str] = set()

    def get_slot_key(self, request: Request) -> str:
        return host_of(request)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(scheduler_module, "time", clock)
    monkeypatch.setattr(scheduler_module, "call_later", lambda *_: SimpleNamespace(cancel=int))
    return clock


@pytest.fixture
def queue(clock: Clock) -> WaitingScheduler:
    crawler = get_crawler(Spider)
    crawler.spider = crawler._create_spider("s")
    crawler._engine = SimpleNamespace(downloader=Downloader(), _slot=None)  # type: ignore[assignment]
    made = WaitingScheduler.from_crawler(crawler)
    made.open(crawler.spider)
    return made


def request(url: str, *, not_before: float = 0.0, priority: int = 0) -> Request:
    made = Request(url, priority=priority, dont_filter=True)
    host = host_of(made)
    made.meta[TICKET] = Ticket(
        url=url, request_url=url, host=host, batch="b", not_before=not_before
    )
    return made


def urls(queue: WaitingScheduler) -> list[str]:
    """Everything that may leave now."""
    given: list[str] = []
    while (one := queue.next_request()) is not None:
        given.append(one.url.removeprefix("http://"))
    return given


def test_a_waiting_request_is_given_at_its_time_and_not_before(
    queue: WaitingScheduler, clock: Clock
) -> None:
    queue.enqueue_request(request("http://a.test/1", not_before=START + 5))
    queue.enqueue_request(request("http://b.test/1"))
    assert urls(queue) == ["b.test/1"]
    assert queue.has_pending_requests(), "the spider must stay open"
    clock.now = START + 4.999
    assert urls(queue) == []
    clock.now = START + 5
    assert urls(queue) == ["a.test/1"]
    assert not queue.has_pending_requests()


def test_a_paused_host_gives_nothing_and_others_go_on(
    queue: WaitingScheduler, clock: Clock
) -> None:
    run: Run = queue.run
    run.hosts.throttled("a.test", START, 4.0)
    for n in range(3):
        queue.enqueue_request(request(f"http://a.test/{n}"))
        queue.enqueue_request(request(f"http://b.test/{n}"))
    assert urls(queue) == ["b.test/0", "b.test/1", "b.test/2"]
    clock.now = START + 4
    assert urls(queue) == ["a.test/0", "a.test/1", "a.test/2"]


def test_a_pause_that_begins_later_holds_what_is_queued_already(
    queue: WaitingScheduler, clock: Clock
) -> None:
    queue.enqueue_request(request("http://a.test/1"))
    queue.run.hosts.throttled("a.test", START, 2.0)
    assert urls(queue) == []
    clock.now = START + 2
    assert urls(queue) == ["a.test/1"]


def test_hosts_take_turns_and_priority_counts_within_a_host(queue: WaitingScheduler) -> None:
    for n in range(2):
        queue.enqueue_request(request(f"http://a.test/{n}", priority=n))
        queue.enqueue_request(request(f"http://b.test/{n}"))
    assert urls(queue) == ["a.test/1", "b.test/0", "a.test/0", "b.test/1"]


def test_a_full_slot_holds_its_requests_until_one_has_left(
    queue: WaitingScheduler, clock: Clock
) -> None:
    room: dict[str, Any] = {"a.test": 1}

    class Roomy(Downloader):
        def room(self, key: str, given: int) -> float:
            return math.inf if given >= room.get(key, 99) else 0.0

    queue._downloader = Roomy()  # type: ignore[assignment]
    for n in range(2):
        queue.enqueue_request(request(f"http://a.test/{n}"))
    queue.enqueue_request(request("http://b.test/0"))
    first = queue.next_request()
    assert first is not None
    assert urls(queue) == ["b.test/0"]
    queue._left(first)
    assert urls(queue) == ["a.test/1"]


def test_a_hosts_requests_can_be_taken_out_to_be_parked(queue: WaitingScheduler) -> None:
    queue.enqueue_request(request("http://a.test/1"))
    queue.enqueue_request(request("http://a.test/2", not_before=START + 9))
    queue.enqueue_request(request("http://b.test/1"))
    assert {one.url for one in queue.drain("a.test")} == {"http://a.test/1", "http://a.test/2"}
    assert len(queue) == 1


def test_what_comes_back_to_a_host_that_was_parked_meanwhile_is_parked_too(
    queue: WaitingScheduler, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A retry was on its way from the middlewares when another answer paused the host: it
    waited in the scheduler for the whole hour, and the run with it."""
    notes: list[Any] = []
    monkeypatch.setattr(queue.run, "clock", clock.time)
    monkeypatch.setattr(queue.run, "note", notes.append)
    queue.run.hosts.keep_away("a.test", START + 3600, "blocked: too many")
    queue.enqueue_request(request("http://a.test/1", not_before=START + 1))
    queue.enqueue_request(request("http://b.test/1"))
    assert [(row.url, row.not_before) for row in notes] == [("http://a.test/1", START + 3600)]
    assert len(queue) == 1

    queue.run.hosts.keep_away("c.test", START + 5, "throttled: 5 s")
    queue.enqueue_request(request("http://c.test/1"))
    assert len(queue) == 2  # a pause that is waited for


def test_it_says_when_it_is_hungry(queue: WaitingScheduler) -> None:
    assert queue.hungry()
    for n in range(scheduler_module.LOW + 1):
        queue.enqueue_request(request(f"http://a.test/{n}"))
    urls_out = queue.next_request()
    assert urls_out is not None
    calls: list[int] = []
    queue.on_room(lambda: calls.append(1))
    urls(queue)
    assert calls, "the manifest is read on as soon as little is left"
    assert queue.hungry()


def test_paused_hosts_do_not_keep_the_manifest_from_those_that_come_later(
    queue: WaitingScheduler, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue.run, "clock", clock.time)
    for n in range(scheduler_module.HIGH + 1):
        if n < 100:
            queue.run.hosts.throttled(f"h{n}.test", START, 60.0)
        queue.enqueue_request(request(f"http://h{n % 100}.test/{n}"))
    assert queue.next_request() is None
    assert queue.hungry()
    queue.enqueue_request(request("http://later.test/1"))
    assert urls(queue) == ["later.test/1"]
    assert queue.waiting() == (scheduler_module.HIGH + 1, START + 60)


def test_a_host_in_its_delay_does(queue: WaitingScheduler) -> None:
    full = SimpleNamespace(room=lambda key, given: math.inf, get_slot_key=host_of)
    queue._downloader = full  # type: ignore[assignment]
    for n in range(scheduler_module.HIGH + 1):
        queue.enqueue_request(request(f"http://slow.test/{n}"))
    assert queue.next_request() is None
    assert not queue.hungry()
