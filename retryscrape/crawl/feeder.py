"""Reads the manifest on demand: rows into the ledger, requests to the engine.

A chunk is read and looked up in a thread, its rows are committed before any of
them is requested, and the next chunk is read only when the scheduler has room:
memory does not grow with the manifest, and the first request leaves at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from scrapy import Request

from retryscrape.crawl.books import Books, Unread
from retryscrape.crawl.keys import TICKET
from retryscrape.crawl.runtime import Run, iso
from retryscrape.crawl.take import Take, take
from retryscrape.ledger.records import Known, NewRow
from retryscrape.manifest.read import batch_name, digest, open_manifest, read_rows, read_urls
from retryscrape.manifest.rows import Continue, Rejected, Row
from retryscrape.manifest.urls import Good, check_url, in_shard
from retryscrape.policy.ticket import Ticket

logger = logging.getLogger("retryscrape")

#: Lines looked up at a time: the first chunk is small so that work begins at once.
FIRST_CHUNK, CHUNK = 50, 500


@dataclass(frozen=True, slots=True)
class Source:
    """A manifest (or part of one) that is being read."""

    name: str
    from_line: int = 1
    batch: str | None = None


class Feeder:
    """Feeds one run. ``make_request`` is the spider's."""

    def __init__(self, run: Run, spider: Any) -> None:
        assert run.books is not None
        assert run.arguments is not None
        self.run, self.spider = run, spider
        self.books: Books = run.books
        self.arguments = run.arguments
        self.skipped: Counter[str] = Counter()
        self._room = asyncio.Event()
        self._then: list[Source] = []

    async def requests(self) -> AsyncIterator[Request]:
        """All requests of this pass, as the scheduler can take them."""
        assert self.run.scheduler is not None
        self.run.scheduler.on_room(self._room.set)
        try:
            async for request in self._all():
                yield request
                await self._until_hungry()
        finally:
            self.run.scheduler.on_room(None)

    async def _until_hungry(self) -> None:
        scheduler = self.run.scheduler
        assert scheduler is not None
        while not scheduler.hungry() and self.run.stop_reason is None:
            self._room.clear()
            await self._room.wait()

    async def _all(self) -> AsyncIterator[Request]:
        arguments = self.arguments
        name = arguments.manifest or "urls="
        self._then = [Source(name, batch=arguments.batch)]
        while self._then:
            async for request in self._source(self._then.pop(0)):
                yield request

    async def _source(self, source: Source) -> AsyncIterator[Request]:
        rows = self._open(source)
        size = FIRST_CHUNK
        manifest = source.name
        batch = source.batch
        last = 0
        while True:
            chunk = await asyncio.to_thread(lambda: list(islice(rows, size)))
            size = CHUNK
            if not chunk:
                break
            batch = batch or _batch_of(chunk, source.name)
            by_batch: dict[str, list[Row | Rejected]] = {}
            for line in chunk:
                last = line.line
                if isinstance(line, Continue):
                    self._then.append(Source(line.manifest, line.from_line, line.batch or batch))
                elif self._mine(line):
                    own = None if self.arguments.batch else getattr(line, "batch", None)
                    by_batch.setdefault(own or batch, []).append(line)
            self.books.unread.setdefault(batch, Unread(manifest, last + 1))
            for name, lines in by_batch.items():
                async for request in self._lines(name, manifest, lines, last):
                    yield request
        if batch:
            self._finished(batch, manifest)

    def _open(self, source: Source) -> Iterator[Row | Rejected | Continue]:
        arguments = self.arguments
        if arguments.urls is not None:
            yield from read_urls(arguments.urls, default_scheme=arguments.default_scheme)
            return
        with open_manifest(source.name) as stream:
            yield from read_rows(
                stream,
                name=source.name,
                url_field=arguments.url_field,
                default_scheme=arguments.default_scheme,
                from_line=source.from_line,
            )

    def _mine(self, line: Row | Rejected) -> bool:
        """Whether the line belongs to this process (``shard=K/N``, by host)."""
        shard = self.arguments.shard
        if shard is None:
            return True
        if isinstance(line, Rejected):
            return shard[0] == 1
        return in_shard(line.url, *shard)

    async def _lines(
        self, batch: str, manifest: str, lines: list[Row | Rejected], last: int
    ) -> AsyncIterator[Request]:
        known = await asyncio.to_thread(self._store, batch, manifest, lines, last)
        self.books.unread[batch] = Unread(manifest, last + 1)
        for line in lines:
            if isinstance(line, Rejected):
                continue
            row = known.pop(line.url, None)  # a repeated line is asked for once
            request = self._request(batch, line, row) if row is not None else None
            if request is not None:
                yield request

    def _store(
        self, batch: str, manifest: str, lines: list[Row | Rejected], last: int
    ) -> dict[str, Known]:
        """In a thread: the rows that the ledger lacks go in, then what it knows of all."""
        self.books.enter(batch, manifest, digest(manifest))
        self.books.ledger.add_rows(
            batch,
            [_new_row(line, self.arguments.default_scheme) for line in lines],
            manifest=manifest,
            read_to=last,
            job_id=self.run.job_id,
            now=iso(self.run.clock()),
        )
        return self.books.ledger.known(
            batch, [line.url for line in lines if isinstance(line, Row)]
        )

    def _request(self, batch: str, line: Row, row: Known) -> Request | None:
        now = self.run.clock()
        if line.warning:
            logger.warning("line %d: %s", line.line, line.warning)
        decision = take(
            row,
            now=now,
            max_wait=self.run.config.max_wait,
            include_permanent=self.arguments.include_permanent,
        )
        if decision is not Take.YES:
            self.skipped[decision] += 1
            return None
        good = check_url(line.url, self.arguments.default_scheme)
        assert isinstance(good, Good)
        ticket = self._ticket(batch, line, row, good)
        pause = self.run.hosts.pause_of(good.host)
        if pause is not None and pause.until - now > self.run.config.max_wait:
            self.run.note(self.run.parked(ticket, pause.until, pause.reason, now))
            self.skipped[Take.PARKED] += 1
            return None
        request: Request = self.spider.make_request(good.url, line.fields or {})
        request.meta[TICKET] = self.run.starting(ticket, request.url)
        request.dont_filter = True
        if good.userinfo:
            request.headers[b"Authorization"] = good.authorization()
        return request

    def _ticket(self, batch: str, line: Row, row: Known, good: Good) -> Ticket:
        return Ticket(
            url=line.url,
            host=good.host,
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
            not_before=row.not_before or 0.0,
        )

    def _finished(self, batch: str, manifest: str) -> None:
        self.books.enter(batch, manifest, digest(manifest))
        self.books.ledger.finish_read(batch, manifest)
        self.books.unread.pop(batch, None)


def _batch_of(chunk: list[Row | Rejected | Continue], name: str) -> str:
    """The batch that the lines carry (a failures feed's), else the manifest's name."""
    carried = next((line.batch for line in chunk if getattr(line, "batch", None)), None)
    return carried or batch_name(name)


def _new_row(line: Row | Rejected, default_scheme: str | None) -> NewRow:
    if isinstance(line, Rejected):
        return NewRow(url=line.key, line=line.line, rejected=line.reason)
    good = check_url(line.url, default_scheme)
    host = good.host if isinstance(good, Good) else ""
    return NewRow(url=line.url, line=line.line, host=host, fields=line.fields, prior=line.prior)
