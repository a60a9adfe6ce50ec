"""One reconciliation as commands run it: the lock, the manifests, today's checks, the feeds.

What is compared with what is ledger/reconcile.py's.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from msgspec.structs import replace
from scrapy import Spider
from scrapy.settings import BaseSettings
from scrapy.spiderloader import get_spider_loader

from retryscrape.crawl.arguments import ArgumentError, Arguments
from retryscrape.crawl.judge import page_judge
from retryscrape.ledger.files import write_files
from retryscrape.ledger.lock import BatchLock
from retryscrape.ledger.pagecheck import Finding
from retryscrape.ledger.reconcile import Reconciler, Tally
from retryscrape.ledger.records import ReadRow
from retryscrape.ledger.store import Ledger
from retryscrape.ledger.typed import typed_last, typed_of
from retryscrape.manifest.read import ManifestError, digest, open_manifest, read_rows
from retryscrape.policy.outcomes import Status
from retryscrape.spiders.manifest import ManifestSpider

#: Manifests that cannot be read a second time.
_GONE = frozenset({"-", "urls="})


#: With fewer successes, pages that are all gone are taken for what they seem to be.
_FEW = 100


class PagesElsewhereError(Exception):
    """Not one page is there: a disk that is not mounted, or another machine's. One sentence."""


class Sink(Protocol):
    """Takes findings as they come."""

    def found(self, finding: Finding) -> None:
        """A row that has to be fetched again."""

    def restored(self, url: str, path: str) -> None:
        """A page that got its row back."""


class Check:
    """One batch, checked by what was typed for it last, or by what is given here."""

    def __init__(
        self,
        ledger: Ledger,
        batch_id: str,
        out: Path,
        settings: BaseSettings,
        *,
        spider: str | None = None,
        arguments: Mapping[str, str] | None = None,
        recheck: bool = False,
        repair: bool = True,
        force: bool = False,
    ) -> None:
        self.ledger, self.batch_id, self.out = ledger, batch_id, out
        self.recheck, self.repair, self.force = recheck, repair, force
        last = typed_last(ledger, batch_id)
        self.typed = replace(
            last,
            spider=spider or last.spider,
            arguments={**last.arguments, **(arguments or {})},
        )
        self.spidercls = spider_class(settings, self.typed.spider)
        #: sentences about manifests that could not be compared
        self.unchecked: list[str] = []
        self._jobs = {job.job_id: typed_of(job) for job in ledger.jobs_of(batch_id) if job.spider}

    def run(self, sink: Sink) -> Tally:
        """Check, and repair.

        Raises ArgumentError, BatchBusyError, PagesElsewhereError, LedgerError, OSError.
        """
        self._look_for_pages()
        judge = page_judge(self.spidercls, self.typed.arguments)
        with BatchLock.take(
            self.out / self.batch_id, self.batch_id, job_id=f"reconcile-{os.getpid()}"
        ):
            reconciler = Reconciler(
                ledger=self.ledger,
                batch_id=self.batch_id,
                out=self.out,
                judge=judge,
                vouched=self._vouched,
                found=sink.found,
                restored=sink.restored,
                now=time.time(),
                repair=self.repair,
            )
            self._compare_manifests(reconciler)
            reconciler.check_pages()
            reconciler.take_up()
            if self.repair and not reconciler.tally.clean:
                write_files(self.ledger, self.out, self.batch_id, now=time.time())
        return reconciler.tally

    def _look_for_pages(self) -> None:
        """A million successes must not be fetched again because a disk was not mounted."""
        folder = self.out / self.batch_id / "pages"
        successes = self.ledger.counts(self.batch_id).by_status[Status.SUCCESS]
        if self.repair and not self.force and successes > _FEW and not folder.is_dir():
            raise PagesElsewhereError(
                f"{successes} rows of batch {self.batch_id} have a page, and there is no"
                f" {folder.absolute()}: is its disk mounted, or was it another machine that"
                " wrote them? (scrapy reconcile --force takes them for lost)"
            )

    def _vouched(self, job_id: str | None) -> bool:
        """Whether a run let its pages in by the very checks that count now."""
        if self.recheck or job_id is None:
            return False
        return self.typed.judges_like(self._jobs.get(job_id))

    def _compare_manifests(self, reconciler: Reconciler) -> None:
        reads: dict[str, list[ReadRow]] = {}
        for read in self.ledger.reads_of(self.batch_id):
            if not self._is_feed(read.manifest):
                reads.setdefault(read.manifest, []).append(read)
        if self._all_counted(reads):
            return
        for name, known in reads.items():
            complaint = self._compare(reconciler, name, known)
            if complaint:
                self.unchecked.append(complaint)

    def _all_counted(self, reads: Mapping[str, list[ReadRow]]) -> bool:
        """Whether the number of rows alone proves that every line has its own: all manifests
        were read to their end, are as they were, and no row of theirs is gone since.

        Reading a million lines again and looking each up takes about 20 s, this 0.3.
        """
        known = [read for found in reads.values() for read in found]
        if not all(read.complete and read.digest == digest(read.manifest) for read in known):
            return False
        batch = next(row for row in self.ledger.batches() if row["batch_id"] == self.batch_id)
        counted: int = batch["urls"] + batch["rejected"]
        return self.ledger.counts(self.batch_id).total == counted

    def _is_feed(self, manifest: str) -> bool:
        feed = self.out / self.batch_id / "failures.jsonl"
        return manifest not in _GONE and Path(manifest).absolute() == feed.absolute()

    def _compare(self, reconciler: Reconciler, name: str, reads: list[ReadRow]) -> str | None:
        """Compare one manifest; why that was not possible, or None."""
        if name in _GONE:
            return f"manifest {name!r} cannot be read a second time: not compared"
        now = digest(name)
        if now is not None and any(read.digest not in (None, now) for read in reads):
            return f"manifest {name} is not what the batch was made of: not compared"
        options = Arguments.from_kwargs({**self.typed.arguments, "urls": "", "batch": "stored"})
        try:
            with open_manifest(name) as stream:
                lines = read_rows(
                    stream,
                    name=name,
                    url_field=options.url_field,
                    default_scheme=options.default_scheme,
                )
                reconciler.compare(name, lines)
        except ManifestError as error:
            return f"{error}: not compared"
        if self.repair:
            for read in reads:
                self.ledger.finish_read(self.batch_id, name, shard=read.shard)
        return None


def spider_class(settings: BaseSettings, name: str | None) -> type[Spider]:
    """The spider of this name, ``ManifestSpider`` if none is known. Raises ArgumentError."""
    if name is None:
        return ManifestSpider
    try:
        return get_spider_loader(settings).load(name)
    except KeyError:
        raise ArgumentError(f"There is no spider {name!r} in this project.") from None
