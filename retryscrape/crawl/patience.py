"""A database that cannot be reached is asked again, for RETRYSCRAPE_LEDGER_WAIT seconds.

For what a run asks of its ledger itself; results have the writer's own patience.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, TypeVar

from retryscrape.crawl.runtime import Run
from retryscrape.ledger.dialect import LedgerError
from retryscrape.ledger.writer import FIRST_BACKOFF, LAST_BACKOFF

T = TypeVar("T")


class Patience:
    """One call's waits: growing, and no longer than ``seconds`` together."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds
        self._wait = FIRST_BACKOFF

    def wait_after(self, error: LedgerError) -> float:
        """Seconds until the next try. Raises the error if there is to be none."""
        wait, self._wait = self._wait, min(self._wait * 2, LAST_BACKOFF)
        if not error.retryable or time.monotonic() + wait > self._end:
            raise error
        return wait


async def patiently(run: Run, call: Callable[..., T], *args: Any) -> T:
    """Call in a thread, again and again while that can help and the run goes on."""
    patience = Patience(run.config.ledger_wait)
    while True:
        try:
            return await asyncio.to_thread(call, *args)
        except LedgerError as error:
            wait = patience.wait_after(error)
            if run.stop_reason is not None:
                raise
        await asyncio.sleep(wait)


def insist(seconds: float, call: Callable[..., T], *args: Any) -> T:
    """The same in the thread at hand, at the end of a run."""
    patience = Patience(seconds)
    while True:
        try:
            return call(*args)
        except LedgerError as error:
            wait = patience.wait_after(error)
        time.sleep(wait)
