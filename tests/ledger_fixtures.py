"""Fixtures for the tests of the ledger, once per backend.

``ledger_url`` gives one fresh, empty database per test and backend: a backend
is one more entry of BACKENDS. PostgreSQL takes part if RETRYSCRAPE_TEST_POSTGRES
names a server (``postgresql://...``); each test has a schema of its own there.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from sqlalchemy import create_engine, make_url

from retryscrape.ledger.store import Ledger

POSTGRES = os.environ.get("RETRYSCRAPE_TEST_POSTGRES", "")


@contextmanager
def _sqlite(folder: Path) -> Iterator[str]:
    yield f"sqlite:///{folder / 'ledger.db'}"


@contextmanager
def _postgres(_: Path) -> Iterator[str]:
    name = f"test_{uuid.uuid4().hex}"
    url = make_url(POSTGRES).set(drivername="postgresql+psycopg")
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.exec_driver_sql(f"CREATE SCHEMA {name}")
    here = url.update_query_dict({"options": f"-csearch_path={name}"})
    yield here.render_as_string(hide_password=False)
    with engine.begin() as connection:
        connection.exec_driver_sql(f"DROP SCHEMA {name} CASCADE")
    engine.dispose()


BACKENDS: dict[str, Callable[[Path], AbstractContextManager[str]]] = {"sqlite": _sqlite}
if POSTGRES:
    BACKENDS["postgres"] = _postgres


@pytest.fixture(params=sorted(BACKENDS))
def ledger_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    with BACKENDS[request.param](tmp_path) as url:
        yield url


@pytest.fixture
def ledger(ledger_url: str) -> Iterator[Ledger]:
    with Ledger.open(ledger_url) as opened:
        yield opened
