"""Fills batches from a manifest without asking for anything (``scrapy load``)."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import ExitStack
from itertools import islice
from pathlib import Path

from retryscrape.crawl.arguments import Arguments
from retryscrape.crawl.sources import URLS, Source, batch_of, items_of
from retryscrape.ledger.claims import reopen_hosts
from retryscrape.ledger.lines import new_row
from retryscrape.ledger.lock import BatchLock
from retryscrape.ledger.store import Ledger
from retryscrape.manifest.read import Continue, Rejected, Row, digest

#: Lines that become rows in one transaction.
CHUNK = 2000


class Load:
    """One loading. ``tallies``: per batch what its lines came to (new, duplicates, rejected).

    Goes on where an earlier one ended early: lines that have their row are left alone.
    """

    def __init__(self, ledger: Ledger, out: Path, arguments: Arguments, job_id: str) -> None:
        self.ledger, self.out, self.arguments, self.job_id = ledger, out, arguments, job_id
        self.tallies: dict[str, Counter[str]] = {}
        self.clock = time.time
        self._entered: set[tuple[str, str]] = set()
        self._locks = ExitStack()

    def run(self) -> None:
        """Read to the end. Raises ManifestError, LedgerError, BatchBusyError, OSError."""
        arguments = self.arguments
        sources = [Source(arguments.manifest or URLS, batch=arguments.batch)]
        with self._locks:
            while sources:
                sources += self._source(sources.pop(0))
        self.ledger.refresh()

    def _source(self, source: Source) -> list[Source]:
        name, batch = source.name, source.batch
        more: list[Source] = []
        items = items_of(self.arguments, source)
        while chunk := list(islice(items, CHUNK)):
            batch = batch or batch_of(chunk, name)
            lines: dict[str, list[Row | Rejected]] = {}
            for item in chunk:
                if isinstance(item, Continue):
                    more.append(Source(item.manifest, item.from_line, item.batch or batch))
                else:
                    own = None if self.arguments.batch else item.batch
                    lines.setdefault(own or batch, []).append(item)
            for own_batch, some in lines.items():
                self._store(own_batch, name, some, chunk[-1].line)
        self._enter(batch or batch_of([], name), name)  # also one without a line
        for own_batch, manifest in self._entered:
            if manifest == name:
                self.ledger.finish_read(own_batch, name)
        return more

    def _store(self, batch: str, name: str, lines: list[Row | Rejected], last: int) -> None:
        self._enter(batch, name)
        added = self.ledger.add_rows(
            batch,
            [new_row(line) for line in lines],
            manifest=name,
            read_to=last,
            job_id=self.job_id,
            now=self.clock(),
        )
        hosts = {
            line.target.host
            for line in lines
            if isinstance(line, Row) and line.target and line.url in added.fresh
        }
        reopen_hosts(self.ledger, batch, hosts)
        self.tallies[batch] += Counter(
            new=added.new, duplicates=added.duplicates, rejected=added.rejected
        )

    def _enter(self, batch: str, name: str) -> None:
        if batch not in self.tallies:
            # beside workers, but not beside a crawl that reads a manifest itself
            lock = BatchLock.take(self.out / batch, batch, job_id=self.job_id, shared=True)
            self._locks.enter_context(lock)
            self.tallies[batch] = Counter()
        if (batch, name) not in self._entered:
            self._entered.add((batch, name))
            self.ledger.open_batch(batch, name, digest(name), now=self.clock())
