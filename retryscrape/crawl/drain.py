"""Feeds a worker (``work=ledger``): rows of the hosts that it has claimed become requests.

In the place of feeder.py, which reads a manifest. Hosts are read side by side, a few
rows of each at a time, and no further than the scheduler has room.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from scrapy import Request

from retryscrape.crawl.feeder import Feeder
from retryscrape.crawl.patience import patiently
from retryscrape.crawl.worker import Worker, now, unread
from retryscrape.ledger.claimrows import Wanted
from retryscrape.ledger.dialect import LedgerError
from retryscrape.ledger.records import Known
from retryscrape.manifest.judge import judge
from retryscrape.manifest.rows import Row

#: Hosts that are claimed and read at a time: few if they are large, for others want some, too.
HOSTS, MOST_HOSTS = 50, 1000
#: So many times that are held at most, in flight included.
HELD = 4
#: Rows that one statement may bring, and the fewest of one host.
ROWS, FEWEST = 1000, 20
#: Seconds between two looks for work when there is none.
POLL = 1.0


def hosts_at_once(rows: int, hosts: int) -> int:
    """How many hosts to claim and read at once, if ``hosts`` had ``rows`` between them: a
    statement brings about ROWS rows, however small the hosts are."""
    return max(HOSTS, min(MOST_HOSTS, ROWS * hosts // max(1, rows)))


class Drain(Feeder):
    """Takes rows until none is left that this worker or another one could still do."""

    #: looks in a row at which nothing was under way, and whether nothing is left to do
    _idle, _drained = 0, False
    #: hosts to be claimed next, by the size of those that were read last
    _hosts = HOSTS

    async def _all(self) -> AsyncIterator[Request]:
        worker = self.run.worker
        assert worker is not None
        worker.start()
        self._scheme = await patiently(self.run, self._default_scheme)
        failing: float | None = None
        while self.run.stop_reason is None and not self._drained:
            try:
                async for request in self._step(worker):
                    yield request
                failing = None
            except LedgerError as error:
                failing = failing or now()
                if not error.retryable or now() - failing > self.run.config.ledger_wait:
                    raise
                await asyncio.sleep(POLL)

    async def _step(self, worker: Worker) -> AsyncIterator[Request]:
        """Rows, if there are any to read; else a look at what can be given back."""
        if len(worker.cursors) < HELD * self._hosts:
            await worker.take(self._hosts)
        if unread(worker.cursors):
            self._idle = 0
            async for request in self._read(worker):
                yield request
            return
        self._idle = self._idle + 1 if self._quiet() else 0
        await self._give_back(worker, stuck=self._idle > 3)
        if not worker.cursors:
            self._drained = not await asyncio.to_thread(worker.claims.pending)
        if not self._drained:
            await asyncio.sleep(POLL)

    def _default_scheme(self) -> str | None:
        """As it was given when the rows were made: ``example.com/x`` has no other."""
        given = [self.arguments.default_scheme]
        for job in self.books.ledger.jobs_of(self.books.primary):
            given.insert(1, (job.arguments or {}).get("default_scheme"))
        return next((scheme for scheme in given if scheme), None)

    async def _read(self, worker: Worker) -> AsyncIterator[Request]:
        hosts = list(unread(worker.cursors))[: self._hosts]
        after = {host: cursor for host in hosts if (cursor := worker.cursors[host]) is not None}
        limit = max(FEWEST, ROWS // len(after))
        found = await asyncio.to_thread(worker.claims.rows, after, self._wanted(), limit)
        rows = [row for some in found.values() for row in some]
        self._hosts = hosts_at_once(len(rows), len(hosts))
        await asyncio.to_thread(self._look_up_exits, worker.batch_id, rows)
        for host, some in found.items():
            if worker.cursors.get(host) == after[host]:  # not lost (and taken anew) meanwhile
                last = (some[-1].line or 0, some[-1].url) if some else None
                worker.cursors.pop(host)  # to the end of the line: others' turn
                worker.cursors[host] = last if len(some) == limit else None
        for row in rows:
            request = self._of(worker, row) if worker.holds(row.host) else None
            if request is not None:
                yield request

    def _wanted(self) -> Wanted:
        return Wanted(
            now=self.run.clock(),
            max_wait=self.run.config.max_wait,
            include_permanent=self.arguments.include_permanent,
        )

    def _look_up_exits(self, batch: str, rows: list[Known]) -> None:
        self._avoid = {}
        again = [row.url for row in rows if row.attempts]
        if self.run.pool is not None and again:
            self._avoid = self.books.ledger.exits_used(batch, again)

    def _of(self, worker: Worker, row: Known) -> Request | None:
        line = judge(row.url, row.line or 0, self._scheme, fields=row.fields)
        return self._request(worker.batch_id, line, row) if isinstance(line, Row) else None

    async def _give_back(self, worker: Worker, *, stuck: bool) -> None:
        """Hosts of which nothing is left. ``stuck``: nothing is under way here any more, so
        whatever is open of them will not be done by waiting."""
        hosts = list(worker.cursors)
        left = set()
        if hosts and not stuck:
            left = await asyncio.to_thread(worker.claims.unfinished, hosts, self._wanted())
        await worker.finish(host for host in hosts if host not in left)

    def _quiet(self) -> bool:
        """Whether no request and no page of this worker is under way."""
        engine = self.run.crawler.engine
        assert engine is not None
        busy = engine.downloader.active or (self.run.scheduler and len(self.run.scheduler))
        slot = engine.scraper.slot
        return not busy and (slot is None or slot.is_idle())
