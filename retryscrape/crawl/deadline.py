"""A deadline that is learned while the request is out. What is usual is the pool's to know.

The first requests of a crawl leave before anything is known of how long an answer takes: through
an exit that hangs each of them would wait for all of DOWNLOAD_TIMEOUT.
"""

from __future__ import annotations

import asyncio

from retryscrape.policy.exit_views import SHORTEST_TIMEOUT
from retryscrape.policy.exits import Pool
from retryscrape.policy.ticket import Ticket


class Deadline:
    """Cancels the present task once its answer takes longer than is usual by then; ``missed``
    says that it did. ``cap`` is in seconds, and somebody else's to keep."""

    def __init__(self, pool: Pool, ticket: Ticket, cap: float) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task: asyncio.Task[object] = task
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()
        self._pool, self._ticket, self._cap = pool, ticket, cap
        self._timer = self._loop.call_later(SHORTEST_TIMEOUT, self._look)
        self.missed = False

    def close(self) -> None:
        """The answer is there."""
        self._timer.cancel()

    def _look(self) -> None:
        passed = self._loop.time() - self._began
        usual = self._pool.timeout(self._ticket.exit or "", self._ticket.host, self._cap)
        if usual <= passed:
            self.missed = True
            self._task.cancel()
            return
        again = usual - passed if usual < self._cap else SHORTEST_TIMEOUT
        self._timer = self._loop.call_later(again, self._look)
