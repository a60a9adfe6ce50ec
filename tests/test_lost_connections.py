"""PostgreSQL goes away in the middle of a crawl: nothing is lost, and nothing is given away."""

from __future__ import annotations

import asyncio
import logging
import threading
from concurrent.futures import wait
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ledger_makers import fill, success
from sqlalchemy import create_engine, make_url, text

from retryscrape.crawl.patience import patiently
from retryscrape.ledger.database import Database
from retryscrape.ledger.dialect import LedgerError, passwords
from retryscrape.ledger.patience import Patience, insist
from retryscrape.ledger.store import Ledger
from retryscrape.ledger.writer import Writer
from tests.commandline import *  # noqa: F403
from tests.commandline import Project, until
from tests.hostile_fixture import *  # noqa: F403
from tests.ledger_fixtures import *  # noqa: F403
from tests.relay import *  # noqa: F403
from tests.relay import PASSWORD, Relay

URLS = [f"http://h.test/{n}" for n in range(1, 41)]


def rows(url: str, statement: str) -> list[tuple[Any, ...]]:
    engine = create_engine(make_url(url).set(drivername="postgresql+psycopg"))
    with engine.begin() as connection:
        found = [tuple(row) for row in connection.execute(text(statement))]
    engine.dispose()
    return found


def terminate(url: str, relay: Relay) -> int:
    """Let the server end every connection that came through the relay; how many there were."""
    statement = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        f" WHERE application_name = '{relay.name}'"
    )
    return len(rows(url, statement))


# --- the writer and the questions of a run --------------------------------------------


def test_results_outlast_connections_that_are_cut(postgres_relay: Relay, tmp_path: Path) -> None:
    with Ledger.open(postgres_relay.url) as ledger:
        fill(ledger, URLS)
        writer = Writer(ledger, tmp_path, give_up=30.0)
        writer.submit(success(URLS[0])).result(30)
        postgres_relay.cut()
        futures = [writer.submit(success(url)) for url in URLS[1:]]
        assert not wait(futures, 0.5).done
        postgres_relay.mend()
        assert {future.result(30).url for future in futures} == set(URLS[1:])
        assert writer.close(10)
        assert sum(ledger.counts("b").by_status.values()) == len(URLS)


def test_after_a_while_it_is_given_up_with_one_sentence(
    postgres_relay: Relay, tmp_path: Path
) -> None:
    said: list[str] = []
    with Ledger.open(postgres_relay.url) as ledger:
        fill(ledger, URLS)
        writer = Writer(ledger, tmp_path, give_up=0.5, on_failure=said.append)
        postgres_relay.cut()
        future = writer.submit(success(URLS[0]))
        with pytest.raises(LedgerError):
            future.result(30)
        writer.close(10)
    assert len(said) == 1
    assert said[0].startswith("ledger postgresql+psycopg://")
    assert "Connection refused" in said[0]
    assert PASSWORD not in said[0]


def test_what_a_run_asks_is_asked_again_while_that_can_help(postgres_relay: Relay) -> None:
    def run_with(seconds: float) -> Any:
        return SimpleNamespace(config=SimpleNamespace(ledger_wait=seconds), stop_reason=None)

    with Database.open(postgres_relay.url) as ledger:

        def look() -> int:
            with ledger.reading() as connection:
                return int(connection.execute(text("SELECT 1")).scalar_one())

        postgres_relay.cut()
        with pytest.raises(LedgerError):
            asyncio.run(patiently(run_with(0.1), look))
        threading.Timer(0.5, postgres_relay.mend).start()
        assert asyncio.run(patiently(run_with(30.0), look)) == 1
        assert insist(Patience(0.0), look) == 1
    gone = LedgerError("no such thing")
    with pytest.raises(LedgerError, match="no such thing"):
        insist(Patience(30.0), lambda: (_ for _ in ()).throw(gone))


def test_a_password_is_known_in_every_form() -> None:
    given = "postgresql://me:a%2Fb%20c@db.test/x?sslpassword=k%26y&application_name=crawl"
    assert passwords(given) == {"a/b c", "a%2Fb%20c", "a%2Fb+c", "k&y", "k%26y"}
    assert passwords("postgresql:// ://") == set()


# --- whole crawls ----------------------------------------------------------------------


def test_a_crawl_goes_on_when_connections_come_back(
    web, project: Project, postgres_relay: Relay, postgres_url: str
) -> None:
    manifest = project.manifest("m.txt", [web.url(f"/ok/{n}?ms=100") for n in range(60)])
    settings = {"RETRYSCRAPE_LEDGER": postgres_relay.url, "CONCURRENT_REQUESTS_PER_DOMAIN": "4"}
    crawl = project.start(
        "crawl", "pages", "-a", f"manifest={manifest}", settings={**settings, "LOG_LEVEL": "DEBUG"}
    )
    until(lambda: len(web.requests()) > 5)
    assert terminate(postgres_url, postgres_relay)
    until(lambda: len(web.requests()) > 15)
    postgres_relay.cut()
    until(lambda: len(web.requests()) > 25)
    postgres_relay.mend()
    done = crawl.wait()
    assert done.code == 0, done.err
    assert rows(postgres_url, "SELECT status, count(*) FROM entries GROUP BY 1") == [
        ("success", 60)
    ]
    assert len(web.requests()) == 60
    assert "Traceback" not in done.err
    assert given_away(project, done.err) == []


def test_a_crawl_stops_in_order_when_they_do_not(
    web, project: Project, postgres_relay: Relay, postgres_url: str
) -> None:
    manifest = project.manifest("m.txt", [web.url(f"/ok/{n}?ms=100") for n in range(60)])
    settings = {
        "RETRYSCRAPE_LEDGER": postgres_relay.url,
        "RETRYSCRAPE_LEDGER_WAIT": "1",
        "RETRYSCRAPE_LEASE": "4",
        "CONCURRENT_REQUESTS_PER_DOMAIN": "4",
        "LOG_LEVEL": "DEBUG",
    }
    assert project.scrapy("load", str(manifest), settings=settings).code == 0
    work = ("crawl", "pages", "-a", "batch=m", "-a", "work=ledger")
    worker = project.start(*work, settings=settings)
    until(lambda: len(web.requests()) > 10)
    postgres_relay.cut()
    done = worker.wait()
    assert done.code == 1, done.err
    assert "The run stops: ledger postgresql+psycopg://" in done.err
    assert "Connection refused" in done.err
    assert "Traceback" not in done.err
    refused = project.scrapy(*work, settings=settings)
    assert refused.code == 2
    assert "Nothing was requested" in refused.err

    postgres_relay.mend()
    [(left,)] = rows(postgres_url, "SELECT count(*) FROM entries WHERE status = 'pending'")
    asked = len(web.requests())
    assert 0 < left < 60
    again = project.scrapy("redrive", "m", settings=settings)  # a batch of workers, too
    assert again.code == 0, again.err
    assert rows(postgres_url, "SELECT status, count(*) FROM entries GROUP BY 1") == [
        ("success", 60)
    ]
    assert len(web.requests()) - asked == left
    assert given_away(project, done.err + refused.err + again.err) == []


def given_away(project: Project, said: str) -> list[str]:
    """Where the database's password, or its beginning, can be read."""
    word = PASSWORD[:6].encode()
    files = [path for path in project.out.rglob("*") if path.is_file()]
    found = [str(path) for path in files if word in path.read_bytes()]
    return [*found, *(["the log"] if word in said.encode() else [])]


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
