"""Fixtures for the tests of the ledger, once per backend.

``ledger_url`` gives one fresh, empty database per test and backend: a backend
is one more entry of BACKENDS (a function from a temporary folder to a URL).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from retryscrape.ledger.store import Ledger

BACKENDS: dict[str, Callable[[Path], str]] = {
    "sqlite": lambda folder: f"sqlite:///{folder / 'ledger.db'}",
}


@pytest.fixture(params=sorted(BACKENDS))
def ledger_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return BACKENDS[request.param](tmp_path)


@pytest.fixture
def ledger(ledger_url: str) -> Iterator[Ledger]:
    with Ledger.open(ledger_url) as opened:
        yield opened
