"""Claims on hosts: no host for two live workers, and none lost with a worker that dies."""

from __future__ import annotations

import math
import threading
import time

import pytest
from msgspec.structs import replace
from sqlalchemy import text

from retryscrape.crawl.drain import hosts_at_once
from retryscrape.ledger.claimrows import Wanted, after, statement
from retryscrape.ledger.claims import START, Claims, reopen_hosts
from retryscrape.ledger.records import NewRow, Result
from retryscrape.ledger.store import Ledger
from retryscrape.ledger.times import iso
from retryscrape.policy.outcomes import ErrorClass, Outcome, Status

pytest_plugins = ["ledger_fixtures"]

HOSTS = [f"h{n}.test" for n in range(8)]


def fill(ledger: Ledger, hosts=HOSTS, rows: int = 3) -> None:
    ledger.open_batch("b", "m.txt", None, now=time.time())
    new = [
        NewRow(url=f"http://{host}/{n}", line=1 + n * len(hosts) + i, host=host)
        for n in range(rows)
        for i, host in enumerate(hosts)
    ]
    ledger.add_rows(
        "b", new, manifest="m.txt", read_to=len(new), job_id=None, now=time.time()
    )  # fmt: skip


def worker(ledger: Ledger, name: str, lease: float = 60.0) -> Claims:
    claims = Claims(ledger, "b", lease=lease)
    claims.join(name)
    return claims


def wanted(**more) -> Wanted:
    return Wanted(now=time.time(), max_wait=300.0, **more)


def end(ledger: Ledger, url: str, host: str, **values) -> None:
    row = Result(
        batch_id="b", url=url, line=None, host=host, status=Status.SUCCESS, outcome=Outcome.OK,
        attempts=1, passes=1,
    )  # fmt: skip
    ledger.write([replace(row, **values)])


def expire(ledger: Ledger, name: str) -> None:
    with ledger.writing() as connection:
        connection.execute(text("UPDATE workers SET until = 1 WHERE worker = :me"), {"me": name})


def test_every_host_goes_to_one_worker(ledger: Ledger) -> None:
    fill(ledger)
    first, second = worker(ledger, "a"), worker(ledger, "b")
    taken = [first.take(100), second.take(100), first.take(100), second.take(100)]
    while more := second.take(100):
        taken.append(more)
    hosts = [host for some in taken for host in some or ()]
    assert sorted(hosts) == HOSTS
    assert len(taken[0] or ()) == 2  # half of an even share
    assert first.pending()


def test_a_worker_that_asks_often_leaves_the_others_their_share(ledger: Ledger) -> None:
    """The one that came first asked for its next hosts a hundred times before the others asked
    for their first."""
    fill(ledger)
    quick, slow = worker(ledger, "a"), worker(ledger, "b")
    half = math.ceil(len(HOSTS) / 2)
    taken = [host for _ in range(len(HOSTS)) for host in quick.take(9, more=False) or ()]
    assert len(taken) == half
    assert slow.take(9, more=False)
    assert quick.take(9)  # nobody wanted the rest


def test_a_workers_rows_come_in_the_order_of_the_manifest_and_piecewise(ledger: Ledger) -> None:
    fill(ledger)
    claims = worker(ledger, "a")
    found = claims.rows({"h1.test": START, "h3.test": START}, wanted(), 2)
    assert [row.url for row in found["h1.test"]] == ["http://h1.test/0", "http://h1.test/1"]
    last = found["h1.test"][-1]
    more = claims.rows({"h1.test": (last.line or 0, last.url)}, wanted(), 2)
    assert [row.url for row in more["h1.test"]] == ["http://h1.test/2"]
    assert {row.host for row in found["h3.test"]} == {"h3.test"}


def test_a_worker_that_dies_gives_its_hosts_back_when_its_lease_ends(ledger: Ledger) -> None:
    fill(ledger, HOSTS[:1])
    dead, heir = worker(ledger, "dead"), worker(ledger, "heir")
    assert dead.take(9) == HOSTS[:1]
    assert heir.take(9) == []
    assert heir.pending()
    expire(ledger, "dead")
    assert heir.take(9) == HOSTS[:1]


def test_a_worker_that_was_stopped_past_its_lease_has_lost_everything(ledger: Ledger) -> None:
    fill(ledger)
    stopped = worker(ledger, "stopped")
    stopped.take(2)
    expire(ledger, "stopped")
    assert not stopped.renew()
    assert stopped.take(2) is None
    stopped.join("stopped again")
    assert stopped.renew()


def test_leaving_gives_back_at_once(ledger: Ledger) -> None:
    fill(ledger, HOSTS[:1])
    first, second = worker(ledger, "a"), worker(ledger, "b")
    first.take(1)
    assert not second.alone()
    first.leave()
    assert second.alone()
    assert second.take(1) == HOSTS[:1]


def test_a_host_that_is_drained_is_taken_again_only_by_the_next_draining(ledger: Ledger) -> None:
    fill(ledger, HOSTS[:1])
    first = worker(ledger, "a")
    first.take(1)
    first.finish(HOSTS[:1])
    second = worker(ledger, "b")
    assert second.since == first.since
    assert second.take(1) == []
    assert not second.pending()
    first.leave()
    second.leave()
    assert worker(ledger, "c").take(1) == HOSTS[:1]


def test_what_failed_in_this_draining_is_left_to_the_next(ledger: Ledger) -> None:
    fill(ledger, HOSTS[:1])
    claims = worker(ledger, "a")
    url, host = "http://h0.test/0", HOSTS[0]
    failed = {"status": Status.FAILED, "outcome": Outcome.TARGET_ERROR}
    end(
        ledger, url, host, **failed, error_class=ErrorClass.RETRYABLE,
        last_error_at=iso(time.time() + 1),
    )  # fmt: skip
    assert len(claims.rows({host: START}, wanted(), 9)[host]) == 2
    end(
        ledger, "http://h0.test/1", host, **failed, error_class=ErrorClass.PERMANENT,
        last_error_at=iso(1.0),
    )  # fmt: skip
    assert len(claims.rows({host: START}, wanted(), 9)[host]) == 1
    assert len(claims.rows({host: START}, wanted(include_permanent=True), 9)[host]) == 2
    end(ledger, "http://h0.test/2", host)
    assert claims.unfinished([host], wanted()) == set()


def test_parked_rows_keep_no_host_open(ledger: Ledger) -> None:
    fill(ledger, HOSTS[:1], rows=1)
    claims = worker(ledger, "a")
    assert claims.unfinished(HOSTS[:1], wanted()) == set(HOSTS[:1])
    end(
        ledger, "http://h0.test/0", HOSTS[0], status=Status.PENDING, outcome=None,
        not_before=time.time() + 3000,
    )  # fmt: skip
    assert claims.unfinished(HOSTS[:1], wanted()) == set()


def test_rows_that_are_loaded_meanwhile_are_drained_too(ledger: Ledger) -> None:
    fill(ledger, HOSTS[:1])
    claims = worker(ledger, "a")
    claims.take(1)
    claims.finish(HOSTS[:1])
    reopen_hosts(ledger, "b", ["h0.test", "new.test", ""])
    assert sorted([*(claims.take(9) or ()), *(claims.take(9) or ())]) == ["h0.test", "new.test"]


def test_a_batch_that_was_just_loaded_is_not_walked_through_for_each_host(
    postgres_url: str,
) -> None:
    """PostgreSQL takes a table that it has not looked at yet for empty."""
    hosts = [f"h{n}.test" for n in range(2000)]
    with Ledger.open(postgres_url) as ledger:
        fill(ledger, hosts, rows=1)
        worker(ledger, "a")
        values = {"batch": "b", "failed": iso(0.0), "due": 0.0, "limit": 20}
        values |= after(ledger.dialect, dict.fromkeys(hosts[:500], START))
        query = statement(ledger.dialect, wanted(), parked=True)
        with ledger.reading() as connection:
            plan = " ".join(row[0] for row in connection.execute(text(f"EXPLAIN {query}"), values))
    assert "Index Scan using entries_by_host" in plan


@pytest.mark.parametrize(
    ("rows", "hosts", "next_time"),
    [(1000, 50, 50), (100, 100, 1000), (0, 50, 1000), (50, 50, 1000), (1000, 500, 500)],
)
def test_small_hosts_are_claimed_many_at_a_time(rows: int, hosts: int, next_time: int) -> None:
    assert hosts_at_once(rows, hosts) == next_time


def test_workers_at_the_same_moment_never_get_the_same_host(ledger_url: str) -> None:
    hosts = [f"h{n}.test" for n in range(60)]
    with Ledger.open(ledger_url) as ledger:
        fill(ledger, hosts, rows=1)
    taken: list[str] = []

    def drain(name: str) -> None:
        with Ledger.open(ledger_url) as own:
            claims = worker(own, name)
            while some := claims.take(3):
                taken.extend(some)

    threads = [threading.Thread(target=drain, args=(f"w{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == sorted(hosts)
