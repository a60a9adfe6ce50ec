"""A database that cannot be reached is asked again for a while. Pure but for the wait itself."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

from retryscrape.ledger.dialect import LedgerError

T = TypeVar("T")

#: The first wait, and the longest, in seconds.
FIRST_BACKOFF = 0.05
LAST_BACKOFF = 2.0


class Patience:
    """One call's waits: growing, and no longer than ``seconds`` together."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._end = clock() + seconds
        self._wait = FIRST_BACKOFF

    def wait_after(self, error: LedgerError) -> float:
        """Seconds until the next try. Raises the error if there is to be none."""
        wait, self._wait = self._wait, min(self._wait * 2, LAST_BACKOFF)
        if not error.retryable or self._clock() + wait > self._end:
            raise error
        return wait


def insist(patience: Patience, call: Callable[..., T], *args: Any) -> T:
    """Call again and again while that can help, in the thread at hand. Raises LedgerError."""
    while True:
        try:
            return call(*args)
        except LedgerError as error:
            wait = patience.wait_after(error)
        time.sleep(wait)
