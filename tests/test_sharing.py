"""What workers tell each other, and what a worker that was away may still do: two workers
of one process on one ledger, their hooks called directly."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from scrapy import Request, Spider
from scrapy.http import Response
from scrapy.utils.test import get_crawler

from retryscrape.crawl.download import DownloadHandler
from retryscrape.crawl.faults import FetchError
from retryscrape.crawl.keys import TICKET
from retryscrape.crawl.runtime import Run
from retryscrape.crawl.worker import Worker
from retryscrape.ledger.dialect import LedgerError
from retryscrape.ledger.records import NewRow
from retryscrape.ledger.store import Ledger
from retryscrape.policy.exits import Pool, PoolRules, Signal
from retryscrape.policy.proxies import parse_proxies
from retryscrape.policy.ticket import Ticket

pytest_plugins = ["ledger_fixtures"]

HOSTS = ["a.test", "b.test"]


@pytest.fixture
def filled(ledger: Ledger) -> Ledger:
    rows = [NewRow(url=f"http://{host}/", line=n + 1, host=host) for n, host in enumerate(HOSTS)]
    ledger.open_batch("b", "m.txt", None, now=time.time())
    ledger.add_rows("b", rows, manifest="m.txt", read_to=2, job_id=None, now=time.time())
    return ledger


class Pair:
    """Two workers. What one looks up in the ledger it does as the running worker does."""

    def __init__(self, ledger: Ledger) -> None:
        self.workers = [self._worker(ledger) for _ in range(2)]

    @staticmethod
    def _worker(ledger: Ledger) -> Worker:
        run = Run.of(get_crawler(Spider))
        exits = parse_proxies(["one.test:1", "two.test:2"], "test").exits
        run.pool = Pool(exits, rng=run.rng, rules=PoolRules())
        run.worker = Worker(run, ledger, "b")
        run.worker.begin()
        return run.worker

    def __iter__(self) -> Iterator[Worker]:
        return iter(self.workers)

    def close(self) -> None:
        for worker in self.workers:
            worker.leave()


@pytest.fixture
def pair(filled: Ledger) -> Iterator[Pair]:
    made = Pair(filled)
    yield made
    made.close()


def paused(worker: Worker, host: str) -> bool:
    return worker.run.hosts.pause_of(host, time.time()) is not None


async def known_after(condition) -> float:
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < 30
        await asyncio.sleep(0.02)
    return time.monotonic() - began


def test_a_pause_and_an_exits_health_are_known_to_another_within_two_seconds(pair: Pair) -> None:
    one, two = pair

    async def scenario() -> list[float]:
        one.start()
        two.start()
        await one.take(1)
        host, exit_ = next(iter(one.cursors)), next(iter(one.run.pool.ids()))
        one.run.hosts.throttled(host, time.time(), 60.0)
        first = await known_after(lambda: paused(two, host))
        before = two.run.pool.snapshot(pairs=False)
        for n in range(3):
            one.run.pool.sent(exit_, host, time.time())
            one.run.pool.done(exit_, host, time.time() + n, Signal.DEAD, None)
        second = await known_after(lambda: two.run.pool.snapshot(pairs=False) != before)
        one.run.stop_reason = two.run.stop_reason = "the test ends"
        return [first, second]

    assert max(asyncio.run(scenario())) < 3.0  # two, and a busy machine's slack


def test_a_learned_rung_comes_with_the_host(pair: Pair) -> None:
    one, two = pair

    async def scenario() -> set[str]:
        await one.take(1)
        host = next(iter(one.cursors))
        for _ in range(5):
            one.run.rungs.learner.goes_on(host, "http", "browser")
            one.run.rungs.learner.success(host, "browser", time.time(), started="http")
        await one._look()
        one.claims.leave()  # as if it had died: the host is free again
        assert await two.take(9)
        starts = [
            two.run.rungs.learner.start_rung(host, time.time(), two.run.rng) for _ in range(200)
        ]
        return {rung for rung, times in Counter(starts).items() if times > 100}

    assert asyncio.run(scenario()) == {"browser"}


def test_a_worker_hears_of_a_pause_of_its_own_host(pair: Pair) -> None:
    """Another worker was redirected there, and was told to wait."""
    one, two = pair

    async def scenario() -> None:
        await one.take(1)
        host = next(iter(one.cursors))
        two.run.hosts.throttled(host, time.time(), 60.0)
        await two._look()
        await one._look()
        assert paused(one, host)

    asyncio.run(scenario())


def test_a_pause_that_was_ended_early_does_not_come_back(pair: Pair) -> None:
    one, two = pair

    async def scenario() -> None:
        await one.take(1)
        host = next(iter(one.cursors))
        one.run.hosts.keep_away(host, time.time() + 60, "host down")
        changes = one.sharing.changes(one.cursors)
        found = await asyncio.to_thread(one.sharing.exchange, changes)
        one.run.hosts.answered(host, time.time())  # while its word was on its way
        one.sharing.heard(found)
        assert not paused(one, host)
        await one._look()
        await two._look()
        assert not paused(two, host)

    asyncio.run(scenario())


def test_what_could_not_be_told_is_told_later(pair: Pair, monkeypatch) -> None:
    one, two = pair
    exit_ = next(iter(one.run.pool.ids()))

    def lost(_rows: Any) -> None:
        raise LedgerError("the connection is lost", retryable=True)

    async def scenario() -> None:
        await one.take(1)
        host = next(iter(one.cursors))
        one.run.hosts.throttled(host, time.time(), 60.0)
        one.run.pool.sent(exit_, host, time.time())
        one.run.pool.done(exit_, host, time.time(), Signal.GOOD, 0.1)
        with monkeypatch.context() as broken:
            broken.setattr(one.claims.ledger, "save_hosts", lost)
            with pytest.raises(LedgerError):
                await one._look()
        await one._look()
        await two._look()
        assert paused(two, host)

    asyncio.run(scenario())
    assert [row.ok for row in one.claims.ledger.load_exits(host="") if row.exit == exit_] == [1.0]


@pytest.mark.parametrize("lost", [True, False])
def test_what_was_given_out_before_a_long_stop_leaves_only_if_the_host_is_still_ours(
    pair: Pair, lost: bool, monkeypatch
) -> None:
    one, _ = pair
    sent: list[str] = []

    class Client:
        async def fetch(self, request: Request, **_: Any) -> Response:
            sent.append(request.url)
            return Response(request.url)

    def request(batch: str) -> Request:
        url = f"http://{HOSTS[0]}/{batch}"
        return Request(url, meta={TICKET: Ticket(url=url, host=HOSTS[0], batch=batch)})

    async def scenario() -> None:
        while not one.holds(HOSTS[0]):
            await one.take(9)
        handler = DownloadHandler.from_crawler(one.run.crawler)
        handler._client = Client()  # type: ignore[assignment]
        one._until = 0.0  # it was stopped for longer than it may trust its lease
        under_way = asyncio.ensure_future(handler.download_request(request("b")))
        await asyncio.sleep(0.05)
        assert not sent
        if lost:
            await asyncio.to_thread(one.claims.leave)  # others have taken its claims
        await one._look()
        if lost:
            with pytest.raises(FetchError):
                await under_way
        else:
            await under_way
        await handler.download_request(request(""))  # it has no row: nobody else's

    asyncio.run(scenario())
    own = [] if lost else [f"http://{HOSTS[0]}/b"]
    assert sent == [*own, f"http://{HOSTS[0]}/"]
