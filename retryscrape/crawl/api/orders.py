"""Orders as the crawl sees them: the ledger's book off the reactor thread, and what is known here.

No rule of the book is here (``ledger.tasks``).
"""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TypeVar

from msgspec import Struct

from retryscrape.crawl.faults import At, FetchError
from retryscrape.crawl.runtime import Run
from retryscrape.ledger.dialect import LedgerError
from retryscrape.ledger.tasks import Held, TaskBook, TaskRow

_Value = TypeVar("_Value")


class Job(Struct, frozen=True, kw_only=True):
    """What is to be bought: a row's URL (``url``, ``target`` as it is asked for) on a rung."""

    batch_id: str
    url: str
    target: str
    rung: str
    host: str = ""
    escalated: bool = False

    @property
    def key(self) -> tuple[str, str]:
        """The row's."""
        return self.batch_id, self.url


class Orders:
    """The orders of one run."""

    def __init__(self, run: Run) -> None:
        assert run.books is not None
        self.run = run
        self.book = TaskBook(run.books.ledger)
        #: orders whose result this process has handed out: what came of it may not be
        #: committed yet, and nobody else needs to be told
        self._handed: set[str] = set()
        #: how often in a row the API refused a row's order
        self.refused: Counter[tuple[str, str]] = Counter()

    def new(self, job: Job, ref: str) -> TaskRow:
        """The row of an order that is about to be placed."""
        return TaskRow(
            ref=ref,
            batch_id=job.batch_id,
            url=job.url,
            target=job.target,
            submitted_at=self.run.clock(),
            rung=job.rung,
            job_id=self.run.job_id,
        )

    async def held(self, job: Job) -> Held | None:
        """The order that still stands for a row."""
        found = await self._do(lambda: self.book.held(job.batch_id, job.url))
        return None if found is not None and found.row.ref in self._handed else found

    async def begin(self, rows: Sequence[TaskRow]) -> None:
        """In the ledger before it is sent."""
        await self._do(lambda: self.book.begin(rows))

    async def accepted(self, rows: Sequence[TaskRow], task_id: str) -> None:
        """In the ledger before it is read."""
        await self._do(lambda: self.book.accepted([row.ref for row in rows], task_id))

    async def lost(self, rows: Sequence[TaskRow]) -> None:
        """Their answer did not come: from now on they may still turn up."""
        now = self.run.clock()
        await self._do(lambda: self.book.lost([row.ref for row in rows], now))

    async def close(self, rows: Sequence[TaskRow], state: str) -> None:
        """They have come to this."""
        await self._do(lambda: self.book.close([row.ref for row in rows], state))

    async def hand_out(self, row: TaskRow) -> None:
        """Its result was read, and is the crawl's matter now."""
        self._handed.add(row.ref)
        await self._do(lambda: self.book.close([row.ref], "done"))

    async def targets(self, task_id: str) -> list[str]:
        """What was asked for in a batch."""
        return await self._do(lambda: self.book.targets(task_id))

    async def announced(self, task_id: str) -> bool:
        """Whether an event of it came before its id was known."""
        return await self._do(lambda: self.book.announced(task_id))

    async def event(self, ref: str, task_id: str, name: str) -> bool:
        """Remember an event, and the task that an order became; whether the event is new."""

        def remember() -> bool:
            if ref:
                self.book.adopt(ref, task_id)
            return self.book.seen(task_id, name, self.run.clock())

        return await self._do(remember)

    async def _do(self, work: Callable[[], _Value]) -> _Value:
        """In a thread. A ledger that fails stops the run: nothing may be bought past it."""
        try:
            return await asyncio.to_thread(work)
        except LedgerError as error:
            self.run.stop("ledger_failed", str(error))
            raise FetchError("cancelled", At.UNKNOWN, detail="the ledger failed") from None


def new_ref() -> str:
    """A name for an order that nobody can guess: events come in under it."""
    return secrets.token_hex(16)
