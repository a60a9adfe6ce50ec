"""Reading results: every so often, and at once when an event says that there is one."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from retryscrape.crawl.api.client import Client
from retryscrape.crawl.api.orders import Orders
from retryscrape.crawl.faults import At, FetchError
from retryscrape.crawl.runtime import Run
from retryscrape.ledger.tasks import TaskRow
from retryscrape.policy.api_answers import Answer, Bought, Look, bought, looked
from retryscrape.policy.api_batch import Reconciled, items, merge, reconcile
from retryscrape.policy.api_provider import ApiKind, Provider
from retryscrape.policy.classify import classify
from retryscrape.policy.outcomes import Outcome, Page
from retryscrape.policy.redact import plain

logger = logging.getLogger("retryscrape")

#: With webhooks a task is read this many times less often: only in case an event was lost.
HOOKED = 10
#: Batches whose results are kept for URLs that ask for them a little later.
KEPT = 8


class Reading:
    """The tasks and batches that this run waits for."""

    def __init__(self, run: Run, provider: Provider, client: Client, orders: Orders) -> None:
        self.run, self.provider, self.client, self.orders = run, provider, client, orders
        self._wakes: dict[str, asyncio.Event] = {}
        self._batches: OrderedDict[str, asyncio.Task[tuple[Look, Mapping[str, Bought]]]] = (
            OrderedDict()
        )

    async def result(self, row: TaskRow, *, soon: bool) -> tuple[Look, Bought | None]:
        """What an order came to; ``AGAIN`` at the deadline, None for a URL that is not in
        its batch. ``soon``: read first, then wait (it was placed by an earlier run)."""
        assert row.task_id is not None
        if self.provider.kind is ApiKind.BATCHES:
            look, found = await asyncio.shield(self.batch(row, soon=soon))
            return look, found.get(row.target)
        look, answer = await self._ended(row.task_id, row.submitted_at, soon=soon)
        return look, bought(answer.body, self.provider, row.target) if answer else None

    def batch(self, row: TaskRow, *, soon: bool) -> asyncio.Task[tuple[Look, Mapping[str, Bought]]]:
        """The one reading of a batch that all its URLs wait for."""
        assert row.task_id is not None
        reading = self._batches.get(row.task_id)
        if reading is None:
            reading = asyncio.ensure_future(self._batch(row.task_id, row.submitted_at, soon=soon))
            reading.add_done_callback(_heard)
            self._batches[row.task_id] = reading
            for old in list(self._batches)[:-KEPT]:
                if self._batches[old].done():
                    del self._batches[old]
        return reading

    def wake(self, task_id: str) -> bool:
        """An event says that a task has ended; whether anybody waits for it."""
        wake = self._wakes.get(task_id)
        if wake is not None:
            wake.set()
        return wake is not None

    def ending(self) -> bool:
        """Whether the run comes to its end: open tasks are left to the next one."""
        engine: Any = self.run.crawler.engine
        slot = getattr(engine, "_slot", None)  # there is no public name for "is closing"
        return self.run.stop_reason is not None or (slot is not None and slot.closing is not None)

    async def close(self) -> None:
        """Wait for nothing any more."""
        for reading in self._batches.values():
            reading.cancel()
        if self._batches:
            await asyncio.wait(self._batches.values())

    # --- one task or batch -----------------------------------------------------

    async def _ended(
        self, task_id: str, submitted_at: float, *, soon: bool
    ) -> tuple[Look, Answer | None]:
        """Read until it has ended, is lost, or its deadline is over."""
        wake = self._wakes.setdefault(task_id, asyncio.Event())
        hooked = self.provider.webhook is not None
        interval = self.provider.poll * (HOOKED if hooked else 1)
        try:
            if not soon and not (hooked and await self.orders.announced(task_id)):
                await self._pause(wake, interval)
            while True:
                look, answer = await self._look(task_id)
                if look is not Look.AGAIN:
                    return look, answer
                if self.run.clock() >= submitted_at + self.provider.deadline:
                    return Look.AGAIN, None
                await self._pause(wake, interval)
        finally:
            self._wakes.pop(task_id, None)

    async def _look(self, task_id: str) -> tuple[Look, Answer | None]:
        self.run.crawler.stats.inc_value("retryscrape/api/reads")
        answer = await self.client.read(task_id)
        if not isinstance(answer, Answer):
            return Look.AGAIN, None
        large = len(answer.body) > 1 << 18
        look = (
            await asyncio.to_thread(looked, answer, self.provider)
            if large
            else looked(answer, self.provider)
        )
        return look, answer if look is Look.FINISHED else None

    async def _pause(self, wake: asyncio.Event, seconds: float) -> None:
        """Wait for an event or the time, a second at most without a look at the run."""
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while not wake.is_set() and loop.time() < end:
            if self.ending():
                raise FetchError("cancelled", At.UNKNOWN, detail="the run ends")
            with suppress(TimeoutError):
                await asyncio.wait_for(wake.wait(), min(1.0, max(0.0, end - loop.time())))
        wake.clear()

    # --- batches ---------------------------------------------------------------

    async def _batch(
        self, batch_id: str, submitted_at: float, *, soon: bool
    ) -> tuple[Look, Mapping[str, Bought]]:
        look, answer = await self._ended(batch_id, submitted_at, soon=soon)
        if look is not Look.FINISHED or answer is None:
            self._batches.pop(batch_id, None)
            return look, {}
        wanted = await self.orders.targets(batch_id)
        owed = await asyncio.to_thread(self._reconciled, wanted, answer.body)
        logger.info("Batch %s at the scraping API: %s", plain(batch_id, 80), owed.words)
        for url in owed.unknown[:3]:
            logger.warning("A result for a URL that was not asked for: %s", plain(url, 200))
        return look, owed.found

    def _reconciled(self, wanted: list[str], body: bytes) -> Reconciled:
        """Before anything is classified: a completed batch is not a complete one."""
        known = merge({}, items(body, self.provider), self.provider)
        return reconcile(list(dict.fromkeys(wanted)), known, self.provider, self._fits)

    def _fits(self, page: Page) -> bool:
        return classify(page, self.run.checks).outcome is not Outcome.INVALID


def _heard(reading: asyncio.Task[Any]) -> None:
    """All who waited may be gone: an error that nobody hears of is none to complain about."""
    if not reading.cancelled():
        reading.exception()
