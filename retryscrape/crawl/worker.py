"""One worker among others on a batch (``work=ledger``): its claims, and what is shared.

Keeps the lease, knows which hosts are this worker's now, and notices when they are
not any more. Which rows are read and when is drain.py's, who has what claims.py's.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress

from scrapy import Request

from retryscrape.crawl.keys import ticket_of
from retryscrape.crawl.runtime import Run, UsageProblem
from retryscrape.crawl.sharing import Sharing
from retryscrape.ledger.claims import START, Claims
from retryscrape.ledger.dialect import LedgerError
from retryscrape.ledger.store import Ledger

logger = logging.getLogger("retryscrape")

#: Seconds between two looks at what the others know. A pause is told at the next look and
#: heard at another worker's next one: known to all within 2 s.
EVERY = 0.7
#: Seconds for which an even share of the hosts has to do, if there are more that are free:
#: workers that have less look once a second.
CONTENT = 2.5
#: A lease is believed for this share of its time: the rest is for what is under way.
BELIEVED = 0.8


def now() -> float:
    """Seconds that also pass while the process is stopped or the machine sleeps."""
    return time.clock_gettime(_CLOCK)


_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Worker:
    """This process on one batch. ``cursors``: its hosts and how far each was read
    (None: to the end)."""

    def __init__(
        self, run: Run, ledger: Ledger, batch_id: str, *, clock: Callable[[], float] = now
    ) -> None:
        self.run, self.batch_id = run, batch_id
        self.claims = Claims(ledger, batch_id, lease=run.config.lease)
        self.sharing = Sharing(run, ledger)
        self.cursors: dict[str, tuple[int, str] | None] = {}
        self._clock = clock
        self._until = 0.0
        self._took = self._clock()
        self._turn = 0
        self._renewed = asyncio.Event()
        self._keeping: asyncio.Task[None] | None = None

    # --- may this worker do it -------------------------------------------------

    @property
    def sure(self) -> bool:
        """Whether the lease holds for certain. Not after a stop that outlasted it."""
        return self._clock() < self._until

    def holds(self, host: str) -> bool:
        """Whether the host's rows are this worker's, as far as it knows."""
        return host in self.cursors

    async def may_write(self, host: str) -> bool:
        """The same for certain: waits until the lease was looked at, if need be."""
        while not self.sure and self.run.stop_reason is None:
            self._renewed.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._renewed.wait(), EVERY)
        return self.holds(host)

    # --- beginning and end -----------------------------------------------------

    def begin(self) -> None:
        """Join the workers of the batch, before the first request. Raises LedgerError."""
        self._join()
        self.sharing.begin()

    def _join(self) -> None:
        """Under a new name each time: what an older one claimed is not to be mixed with it."""
        asked = self._clock()
        self._turn += 1
        self.claims.join(f"{self.run.job_id}/{self._turn}-{secrets.token_hex(3)}")
        self._until = asked + self.run.config.lease * BELIEVED

    def start(self) -> None:
        """Keep the lease from now on, on the loop."""
        if self._keeping is None:
            self._keeping = asyncio.ensure_future(self._keep())

    def leave(self) -> None:
        """Put down what was learned, and give everything back. In a thread, at the end."""
        if self._keeping is not None and self.run.loop is not None:
            with suppress(RuntimeError):  # the loop is closed: the task is gone with it
                self.run.loop.call_soon_threadsafe(self._keeping.cancel)
        self.sharing.keep(self.cursors)
        self.claims.leave()

    # --- hosts -----------------------------------------------------------------

    async def take(self, most: int) -> bool:
        """Claim more hosts; whether there were any."""
        turn, asked = self._turn, self._clock()
        more = asked - self._took > CONTENT
        hosts = await asyncio.to_thread(self.claims.take, most, more=more)
        if hosts is None or turn != self._turn:
            await self._lost(turn)
            return False
        self._held_since(asked)
        if hosts:
            self._took = asked
            known = await asyncio.to_thread(self.sharing.load, hosts)
            self.sharing.adopt(known)
            self.cursors |= dict.fromkeys(hosts, START)
        return bool(hosts)

    async def finish(self, hosts: Iterable[str]) -> None:
        """Give back hosts that are drained, with what was learned of them."""
        done = [host for host in hosts if host in self.cursors]
        if not done:
            return
        changes = self.sharing.changes(self.cursors)
        for host in done:
            del self.cursors[host]
        await asyncio.to_thread(self.sharing.save, changes)
        await asyncio.to_thread(self.claims.finish, done)

    def _held_since(self, asked: float) -> None:
        self._until = asked + self.run.config.lease * BELIEVED
        self._renewed.set()

    # --- the lease -------------------------------------------------------------

    async def _keep(self) -> None:
        failing: float | None = None
        while self.run.stop_reason is None:
            try:
                await self._look()
                failing = None
            except LedgerError as error:
                failing = failing or self._clock()
                if not error.retryable or self._clock() - failing > self.run.config.ledger_wait:
                    self.run.stop("ledger_failed", str(error))
            await asyncio.sleep(min(EVERY, self.run.config.lease / 5))

    async def _look(self) -> None:
        turn, asked = self._turn, self._clock()
        held = await asyncio.to_thread(self.claims.renew)
        if turn != self._turn:
            return
        if not held:
            await self._lost(turn)
            return
        self._held_since(asked)
        changes = self.sharing.changes(self.cursors)
        found = await asyncio.to_thread(self.sharing.exchange, changes)
        self.sharing.heard(found)

    async def _lost(self, turn: int) -> None:
        """The lease has ended while this process was away: others have its rows by now."""
        if turn != self._turn:
            return
        self._turn += 1
        logger.warning(
            "This worker was away for longer than its lease (RETRYSCRAPE_LEASE, %g s): "
            "%d hosts are given up, and it goes on with what is free",
            self.run.config.lease,
            len(self.cursors),
        )
        self.cursors.clear()
        self._forget_requests()
        await asyncio.to_thread(self._join)
        self._renewed.set()

    def _forget_requests(self) -> None:
        """What waits in the scheduler is not this worker's any more; requests without a
        row are nobody else's."""
        scheduler = self.run.scheduler
        if scheduler is None:
            return
        kept: list[Request] = []
        for request in scheduler.drain():
            ticket = ticket_of(request)
            if ticket is None or not ticket.batch:
                kept.append(request)
        for request in kept:
            scheduler.enqueue_request(request)


def open_worker(run: Run, ledger: Ledger, batch_id: str) -> Worker:
    """Join the batch. Raises UsageProblem with the ledger's sentence."""
    worker = Worker(run, ledger, batch_id)
    try:
        worker.begin()
    except LedgerError as error:
        raise UsageProblem(str(error)) from None
    return worker


def unread(cursors: dict[str, tuple[int, str] | None]) -> Collection[str]:
    """Hosts of which more rows may be there."""
    return [host for host, cursor in cursors.items() if cursor is not None]
