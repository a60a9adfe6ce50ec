"""The hostile web as pytest fixtures: ``web`` for every test that needs sites or proxies.

Import the fixtures in conftest.py: ``from tests.hostile_fixture import *``. A worker of
pytest-xdist gets a web of its own, on free ports.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from retryscrape.hostile.process import WebHandle, hostile_process
from retryscrape.hostile.web import HostileWeb

__all__ = ["hostile_session", "proxies_file", "web", "web_in_thread"]


@pytest.fixture(scope="session")
def hostile_session() -> Iterator[WebHandle]:
    """One web in a process of its own for all tests of this worker."""
    with hostile_process() as handle:
        yield handle


@pytest.fixture
def web(hostile_session: WebHandle) -> WebHandle:
    """The session's web, as if just started."""
    hostile_session.reset()
    return hostile_session


@pytest.fixture
def proxies_file(web: WebHandle, tmp_path: Path):
    """A function: writes a proxies file of the named proxies, and gives its path."""

    def write(*names: str) -> Path:
        path = tmp_path / "proxies.txt"
        path.write_text(web.proxies(*names), encoding="utf-8")
        return path

    return write


@pytest.fixture
def web_in_thread() -> Iterator[WebHandle]:
    """A web of one's own inside of this process (for coverage, debuggers and broken set-ups)."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="hostile web")
    thread.start()
    web = HostileWeb()
    try:
        asyncio.run_coroutine_threadsafe(web.__aenter__(), loop).result(30)
        yield WebHandle(web.describe())
    finally:
        asyncio.run_coroutine_threadsafe(web.__aexit__(None, None, None), loop).result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()
