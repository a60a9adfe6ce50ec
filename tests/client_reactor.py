"""A pytest plugin for tests that run on Scrapy's reactor (``tests.client_bench``)."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def reactor_ends() -> Iterator[None]:
    """The reactor's threads end with the tests: Python would wait for them for ever."""
    yield
    if "twisted.internet.reactor" in sys.modules:
        from twisted.internet import reactor

        if reactor.running:
            reactor.fireSystemEvent("shutdown")
