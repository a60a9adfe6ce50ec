"""Reads the manifest on demand: rows into the ledger, requests to the engine.

A chunk is read and looked up in a thread, its rows are committed before any of
them is requested, and the next chunk is read only when the scheduler has room:
memory does not grow with the manifest, and the first request leaves at once.
"""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import AsyncIterator, Iterator
from itertools import islice
from typing import Any

from scrapy import Request

from retryscrape.crawl.books import Books, first_batch
from retryscrape.crawl.keys import TICKET
from retryscrape.crawl.patience import patiently
from retryscrape.crawl.runtime import Run, UsageProblem
from retryscrape.crawl.sources import URLS, Source, batch_of, items_of
from retryscrape.crawl.take import Take, take
from retryscrape.ledger.dialect import LedgerError
from retryscrape.ledger.forms import clean
from retryscrape.ledger.lines import new_row
from retryscrape.ledger.records import BatchInfo, Known
from retryscrape.manifest.read import Continue, Item, ManifestError, Rejected, Row, hashed_whole
from retryscrape.policy.outcomes import Status
from retryscrape.policy.shards import in_shard
from retryscrape.policy.ticket import Ticket

logger = logging.getLogger("retryscrape")

#: Lines looked up at a time: the first chunk is small so that work begins at once.
FIRST_CHUNK, CHUNK = 50, 500


class Feeder:
    """Feeds one run. ``make_request`` is the spider's."""

    def __init__(self, run: Run, spider: Any) -> None:
        assert run.books is not None
        assert run.arguments is not None
        self.run, self.spider = run, spider
        self.books: Books = run.books
        self.arguments = run.arguments
        self._room = asyncio.Event()
        self._then: list[Source] = []
        self._met: set[int] = set()
        #: exits that URLs of the chunk at hand have left through in earlier passes
        self._avoid: dict[str, frozenset[str]] = {}
        self._warned: set[str] = set()

    async def requests(self) -> AsyncIterator[Request]:
        """All requests of this pass, as the scheduler can take them."""
        scheduler = self.run.scheduler  # None: the project has one of its own
        if scheduler is not None:
            scheduler.on_room(self._room.set)
        try:
            async for request in self._all():
                yield request
                await self._until_hungry()
        except (LedgerError, UsageProblem) as error:
            # Scrapy would log a traceback and crawl what it has.
            self.run.stop("ledger_failed", str(error))
        finally:
            if scheduler is not None:
                scheduler.on_room(None)

    async def _until_hungry(self) -> None:
        scheduler = self.run.scheduler
        while scheduler is not None and not scheduler.hungry() and self.run.stop_reason is None:
            self._room.clear()
            await self._room.wait()

    async def _all(self) -> AsyncIterator[Request]:
        arguments = self.arguments
        name = arguments.manifest or URLS
        self._then = [Source(name, batch=arguments.batch)]
        while self._then:
            async for request in self._source(self._then.pop(0)):
                yield request

    def _nothing_left(self, source: Source) -> BatchInfo | None:
        """The batch, if every line of the manifest is known to have its row, and no row is to be
        asked for: a million lines need not be read to say so. Not of a failures feed, which
        may name another manifest to be read on."""
        info = self.books.batches.get(self.books.primary)
        if info is None or source.batch not in (None, info.batch_id):
            return None
        if not info.complete or info.manifest != clean(source.name) or info.due or info.parked:
            return None
        if self.arguments.include_permanent or not hashed_whole(source.name):
            return None
        alike = first_batch(source.name) is None and self._read_alike(info.batch_id)
        return info if alike else None

    def _read_alike(self, batch: str) -> bool:
        """Whether earlier crawls took the same lines for the same URLs."""
        jobs = [job.arguments or {} for job in self.books.ledger.jobs_of(batch)]
        ways = {tuple(job.get(name) for name in ("url_field", "default_scheme")) for job in jobs}
        return len(jobs) > 1 and len(ways) == 1

    async def _source(self, source: Source) -> AsyncIterator[Request]:
        done = await asyncio.to_thread(self._nothing_left, source)
        if done is not None:
            failed = done.counts.get(Status.FAILED, 0)
            self.books.skipped[Take.PERMANENT] += failed - done.rejected
            return
        reader = Reader(items_of(self.arguments, source))
        batch = source.batch
        while chunk := await asyncio.to_thread(reader.chunk):
            batch = batch or batch_of(chunk, source.name)
            for name, lines in self._sorted(chunk, batch).items():
                async for request in self._lines(name, source, lines, reader.last):
                    yield request
        if reader.broken is not None:
            self._broken(source, batch, reader.broken)
        else:
            batch = batch or self.books.first_batch(self.arguments)
            await patiently(self.run, self._finished, batch, source)

    def _sorted(self, chunk: list[Item], batch: str) -> dict[str, list[Row | Rejected]]:
        """The lines of this process by their batch; a pointer to read on from is kept for later."""
        lines: dict[str, list[Row | Rejected]] = {}
        for item in chunk:
            if isinstance(item, Continue):
                self._then.append(Source(item.manifest, item.from_line, item.batch or batch))
            elif self._mine(item):
                own = None if self.arguments.batch else item.batch
                lines.setdefault(own or batch, []).append(item)
        return lines or {batch: []}

    def _broken(self, source: Source, batch: str | None, error: ManifestError) -> None:
        """The manifest could not be read to its end: what came is crawled, the rest is not lost."""
        logger.error("%s", error)
        self.run.incomplete = str(error)
        if batch:
            self.books.unread[batch] = source.name

    def _mine(self, line: Row | Rejected) -> bool:
        """Whether the line belongs to this process (``shard=K/N``, by host)."""
        target = None if isinstance(line, Rejected) else line.target
        return in_shard(target.host if target else "", self.arguments.shard)

    async def _lines(
        self, batch: str, source: Source, lines: list[Row | Rejected], last: int
    ) -> AsyncIterator[Request]:
        known, fresh = await patiently(self.run, self._store, batch, source, lines, last)
        self.books.unread[batch] = source.name
        for line in lines:
            if isinstance(line, Rejected):
                continue
            row = known.pop(line.url, None)
            if row is None or self._repeated(row, fresh):
                continue
            request = self._request(batch, line, row)
            if request is not None:
                yield request

    def _repeated(self, row: Known, fresh: frozenset[str]) -> bool:
        """Whether an earlier line of this run had the same URL: it is asked for once.

        The ledger tells for rows that this run made; only those that were there
        before it are remembered here, by a hash each.
        """
        told = not self.books.job_known
        if row.url in fresh and told:
            return False
        if (told and row.job_id == self.run.job_id) or hash(row.url) in self._met:
            return True
        self._met.add(hash(row.url))
        return False

    def _store(
        self, batch: str, source: Source, lines: list[Row | Rejected], last: int
    ) -> tuple[dict[str, Known], frozenset[str]]:
        """In a thread: the rows that the ledger lacks go in, then what it knows of all."""
        self.books.enter(batch, source.name)
        added = self.books.ledger.add_rows(
            batch,
            [new_row(line) for line in lines],
            manifest=source.name,
            read_to=last,
            job_id=self.run.job_id,
            now=self.run.clock(),
            shard=self.books.shard,
        )
        self.books.skipped["duplicate"] += added.duplicates
        urls = [row.url for row in lines if isinstance(row, Row)]
        known = self.books.ledger.known(batch, urls)
        self._avoid = {}
        if self.run.pool is not None:
            again = [url for url, row in known.items() if row.attempts]
            self._avoid = self.books.ledger.exits_used(batch, again)
        return known, added.fresh

    def _request(self, batch: str, line: Row, row: Known) -> Request | None:
        now = self.run.clock()
        if line.warning and line.warning not in self._warned:
            self._warned.add(line.warning)
            logger.warning("line %d: %s (said once)", line.line, line.warning)
        decision = take(
            row,
            now=now,
            max_wait=self.run.config.max_wait,
            include_permanent=self.arguments.include_permanent,
            passes=self.arguments.passes,
        )
        if decision is not Take.YES:
            self.books.skipped[decision] += 1
            return None
        assert line.target is not None
        ticket = self._ticket(batch, line, row)
        if self.run.parking.put_off(ticket.host, ticket):
            self.books.skipped[Take.PARKED] += 1
            return None
        request: Request = self.spider.make_request(line.target.url, line.fields or {})
        request.meta[TICKET] = self.run.rungs.start(
            ticket, request.url, self.run.clock(), self.run.rng
        )
        request.dont_filter = True
        if line.target.credentials:
            request.headers[b"Authorization"] = basic_auth(*line.target.credentials)
        self.run.asked += 1
        return request

    def _ticket(self, batch: str, line: Row, row: Known) -> Ticket:
        return Ticket(
            url=line.url,
            host=line.target.host if line.target else row.host,
            batch=batch,
            line=line.line if row.line is None else row.line,
            fields=line.fields or row.fields,
            rung=row.rung or "",
            escalate=row.escalate,
            prior_attempts=row.attempts,
            prior_passes=row.passes,
            prior_cost=row.cost,
            prior_bytes=row.bytes,
            prior_outcome=row.outcome,
            avoid=self._avoid.get(line.url, frozenset()),
            not_before=row.not_before or 0.0,
        )

    def _finished(self, batch: str, source: Source) -> None:
        self.books.enter(batch, source.name)
        self.books.ledger.finish_read(batch, source.name, shard=self.books.shard)
        self.books.unread.pop(batch, None)


class Reader:
    """Takes chunks from a manifest; used in threads, one call at a time."""

    def __init__(self, items: Iterator[Item]) -> None:
        self._items = items
        self._size = FIRST_CHUNK
        #: number of the last line that was handed out
        self.last = 0
        self.broken: ManifestError | None = None

    def chunk(self) -> list[Item]:
        """The next lines; empty at the end. A stream that breaks off ends it too."""
        lines: list[Item] = []
        try:
            for item in islice(self._items, self._size):
                lines.append(item)
        except ManifestError as error:
            self.broken = error
        self._size = CHUNK
        if lines:
            self.last = lines[-1].line
        return lines


def basic_auth(user: str, password: str) -> bytes:
    """The value of an ``Authorization`` header for a URL's own user and password."""
    return b"Basic " + base64.b64encode(f"{user}:{password}".encode())
