"""Many workers on one batch: real processes on one ledger; killed, stopped, and let go on."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import create_engine, make_url, text

from tests.commandline import *  # noqa: F403
from tests.commandline import Project, Started, until
from tests.hostile_fixture import *  # noqa: F403
from tests.ledger_fixtures import *  # noqa: F403

HOSTS = [f"127.0.0.{n}" for n in range(1, 9)]
WORK = ("crawl", "pages", "-a", "batch=m", "-a", "work=ledger")


class Shared:
    """A project whose ledger any database can be."""

    def __init__(self, project: Project, url: str) -> None:
        self.project, self.url = project, url
        self.settings = {"RETRYSCRAPE_LEDGER": url}
        self._engine = create_engine(make_url(url).set(drivername=_driver(url)))

    def sql(self, statement: str) -> list[tuple]:
        with self._engine.connect() as connection:
            return [tuple(row) for row in connection.execute(text(statement))]

    @contextmanager
    def everything_held(self) -> Iterator[None]:
        """A worker of our own has all hosts meanwhile: the others join, and wait for them."""
        now = "extract(epoch FROM now())"
        with self._engine.begin() as connection:
            connection.execute(text("UPDATE claims SET worker = 'gate'"))
            connection.execute(
                text(f"INSERT INTO workers VALUES ('m', 'gate', {now}, {now} + 1000)")
            )
        yield
        with self._engine.begin() as connection:
            connection.execute(text("UPDATE claims SET worker = NULL"))
            connection.execute(text("DELETE FROM workers WHERE worker = 'gate'"))

    def load(self, urls: list[str]) -> None:
        manifest = self.project.manifest("m.txt", urls)
        done = self.project.scrapy("load", str(manifest), settings=self.settings)
        assert done.code == 0, done.err

    def worker(self, **settings: str) -> Started:
        return self.project.start(*WORK, settings={**self.settings, **settings})

    def close(self) -> None:
        self._engine.dispose()


def _driver(url: str) -> str:
    return "postgresql+psycopg" if url.startswith("postgresql") else "sqlite"


@pytest.fixture
def shared(ledger_url: str, project: Project) -> Iterator[Shared]:
    made = Shared(project, ledger_url)
    yield made
    project.close()  # before the schema is dropped below them
    made.close()


@pytest.fixture
def on_postgres(postgres_url: str, project: Project) -> Iterator[Shared]:
    made = Shared(project, postgres_url)
    yield made
    project.close()
    made.close()


def test_a_batch_is_loaded_without_a_request_and_drained_by_two_workers(web, shared) -> None:
    urls = [web.url(f"/ok/{n}?ms=20", host) for n in range(10) for host in HOSTS[:4]]
    shared.load([*urls, urls[0], "no url", web.url("/status/404")])
    assert web.requests() == []
    assert shared.sql("SELECT count(*) FROM entries WHERE status = 'pending'") == [(41,)]

    for done in [worker.wait() for worker in [shared.worker(), shared.worker()]]:
        assert done.code == 0, done.err

    assert Counter(shared.sql("SELECT status, outcome FROM entries")) == {
        ("success", "ok"): 40,
        ("failed", "gone"): 1,
        ("failed", "rejected"): 1,
    }
    assert len(web.requests()) == 41
    assert shared.sql("SELECT count(*) FROM workers") == [(0,)]
    feed = shared.project.feed("m")
    assert sorted(row["outcome"] for row in feed) == ["gone", "rejected"]  # and no unread lines
    assert "Traceback" not in done.err


def test_workers_need_a_batch_that_is_there_and_no_manifest(shared) -> None:
    missing = shared.project.scrapy(*WORK, settings=shared.settings)
    assert missing.code == 2
    assert "There is no batch 'm' in the ledger: scrapy load fills one." in missing.err
    both = shared.project.scrapy(*WORK, "-a", "manifest=m.txt", settings=shared.settings)
    assert both.code == 2
    assert "give no manifest=" in both.err


def test_four_workers_two_killed_one_stopped_past_its_lease(web, on_postgres) -> None:
    """Every row has exactly one result, no success is fetched again but for the rows that
    were in flight, and a host that said 429 is left alone by all."""
    rows, in_flight = 40, 16
    web.set_host("127.0.0.8", "busy", after=6, seconds=4)
    on_postgres.load([web.url(f"/ok/{n}?ms=100", host) for n in range(rows) for host in HOSTS])
    limits = {"RETRYSCRAPE_LEASE": "3", "CONCURRENT_REQUESTS_PER_DOMAIN": "2"}
    with on_postgres.everything_held():  # the four start seconds apart
        workers = [on_postgres.worker(**limits) for _ in range(4)]
        until(lambda: on_postgres.sql("SELECT count(*) FROM workers") == [(5,)])
    held = "SELECT DISTINCT worker FROM claims WHERE worker IS NOT NULL"
    until(lambda: len(on_postgres.sql(held)) >= 3)
    until(lambda: len(web.requests()) > 60)
    # What only a killed process knew nobody keeps: the pause is to be in the ledger first.
    paused_row = "SELECT 1 FROM hosts WHERE host LIKE '127.0.0.8:%' AND paused_until IS NOT NULL"
    until(lambda: on_postgres.sql(paused_row))
    names = [name for (name,) in on_postgres.sql(held)]
    mine = {worker.pid: [n for n in names if f"-{worker.pid}-" in n] for worker in workers}
    busy = [worker for worker in workers if mine[worker.pid]]
    busy[0].kill()
    stopped = busy[1]
    stopped.send_signal(signal.SIGSTOP)
    until(
        lambda: (
            not on_postgres.sql(f"SELECT 1 FROM workers WHERE worker = '{mine[stopped.pid][0]}'")
        )
    )
    stopped.send_signal(signal.SIGCONT)
    others = [worker for worker in workers if worker not in (busy[0], stopped)]
    others[0].kill()
    for worker in (others[1], stopped):
        done = worker.wait()
        assert done.code == 0, done.err
        assert "Traceback" not in done.err

    assert "away for longer than its lease" in stopped.said()
    assert on_postgres.sql("SELECT status, count(*) FROM entries GROUP BY 1") == [
        ("success", rows * len(HOSTS))
    ]
    requests = web.requests()
    asked = Counter((request["host"], request["path"]) for request in requests)
    assert len(asked) == rows * len(HOSTS)
    assert sum(times - 1 for times in asked.values()) <= 3 * in_flight
    paused = sorted(r["epoch"] for r in requests if r["host"] == "127.0.0.8")
    refused = paused[6]  # the first 429; what was under way then may come a little later
    assert not [moment for moment in paused if refused + 1 < moment < refused + 4]
