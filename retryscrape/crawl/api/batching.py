"""Placing orders of many URLs: those that come within a moment go together, in chunks."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from retryscrape.crawl.api.buying import Buyer
from retryscrape.crawl.api.orders import Job, new_ref
from retryscrape.crawl.api.reading import Reading
from retryscrape.crawl.faults import ApiFault
from retryscrape.crawl.tasks import kept
from retryscrape.ledger.tasks import TaskRow
from retryscrape.policy.outcomes import Outcome

#: Seconds without another URL after which a chunk goes as it is, and the longest wait.
QUIET, LONGEST = 0.5, 5.0

Waiting = tuple[Job, "asyncio.Future[TaskRow]"]


class BatchBuyer(Buyer):
    """Places orders of batches, at most ``slots`` at once."""

    def __init__(self, *given: Any, reading: Reading) -> None:
        super().__init__(*given)
        self._reading = reading
        self._room = asyncio.Semaphore(self.provider.slots)
        self._waiting: list[Waiting] = []
        self._timer: asyncio.TimerHandle | None = None
        self._oldest = 0.0
        self._sending: set[asyncio.Task[None]] = set()

    async def buy(self, job: Job) -> TaskRow:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[TaskRow] = loop.create_future()
        if not self._waiting:
            self._oldest = loop.time()
        self._waiting.append((job, future))
        if self._timer is not None:
            self._timer.cancel()
        if len(self._waiting) >= self.provider.chunk:
            self._send()
        else:
            due = min(loop.time() + QUIET, self._oldest + LONGEST)
            self._timer = loop.call_at(due, self._send)
        return await future

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for task in self._sending:
            task.cancel()
        if self._sending:
            await asyncio.wait(self._sending)

    def _send(self) -> None:
        chunk, self._waiting = self._waiting, []
        kept(self._chunk([one for one in chunk if not one[1].done()]), self._sending)

    async def _chunk(self, chunk: Sequence[Waiting]) -> None:
        """One batch, from its order to its end: that long it takes up a slot."""
        async with self._room:
            row = await self._placed([one for one in chunk if not one[1].done()])
            if row is not None:
                await asyncio.wait({self._reading.batch(row, soon=False)})

    async def _placed(self, chunk: Sequence[Waiting]) -> TaskRow | None:
        """Place the order, and tell all who wait for it; one of its rows if it was taken."""
        if not chunk:
            return None
        jobs, ref = [job for job, _ in chunk], new_ref()
        rows = [self.orders.new(job, f"{ref}-{n}") for n, job in enumerate(jobs)]
        try:
            taken = await self.place(jobs, rows, self._batch(jobs, ref))
        except ApiFault as fault:
            if fault.outcome is Outcome.REJECTED and len(chunk) > 1:
                return await self._halves(chunk)
            _tell(chunk, fault)
            return None
        except Exception as error:  # NotYet, a ledger that fails: they all hear of it
            _tell(chunk, error)
            return None
        for (_, future), row in zip(chunk, taken, strict=True):
            if not future.done():
                future.set_result(row)
        return taken[0]

    async def _halves(self, chunk: Sequence[Waiting]) -> TaskRow | None:
        """One URL that the API rejects must not take the others with it."""
        middle = len(chunk) // 2
        first = await self._placed(chunk[:middle])
        second = await self._placed(chunk[middle:])
        return first or second

    def _batch(self, jobs: Sequence[Job], ref: str) -> dict[str, Any]:
        provider, names = self.provider, self.provider.fields
        requests = {
            job.target: {
                names["url"]: job.target,
                **provider.submit,
                **(provider.escalated if job.escalated else {}),
            }
            for job in jobs
        }
        order: dict[str, Any] = {names["requests"]: list(requests.values())}
        if provider.webhook is not None:
            order[names["webhook"]] = self.hook_url(ref)
        return order


def _tell(chunk: Sequence[Waiting], error: Exception) -> None:
    for _, future in chunk:
        if not future.done():
            future.set_exception(error)
