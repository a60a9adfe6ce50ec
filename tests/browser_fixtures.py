"""The loop and the web of the browser's tests, one of each for a file."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from browser_site import Site


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()


@pytest.fixture(scope="module")
def site(loop: asyncio.AbstractEventLoop) -> Iterator[Site]:
    site = loop.run_until_complete(Site().__aenter__())
    yield site
    loop.run_until_complete(site.__aexit__())
