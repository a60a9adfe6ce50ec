"""The ledger's side of one run: batches, lock, writer, what is carried over, the end.

Opening and closing only; every rule of the ledger is in :mod:`retryscrape.ledger`.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from retryscrape.crawl.runtime import Run, UsageProblem
from retryscrape.crawl.spending import unpaid
from retryscrape.ledger.clock import AHEAD, mend_times
from retryscrape.ledger.dialect import LedgerError
from retryscrape.ledger.files import write_files
from retryscrape.ledger.lock import BatchBusyError, BatchLock
from retryscrape.ledger.pages import PageStore, page_path
from retryscrape.ledger.patience import Patience, insist
from retryscrape.ledger.records import BatchInfo, Counts, ExitRow, HostRow, Result
from retryscrape.ledger.store import Ledger
from retryscrape.ledger.times import iso
from retryscrape.ledger.writer import Writer
from retryscrape.manifest.read import batch_name, digest, open_manifest, read_rows
from retryscrape.policy.exit_rows import ExitRow as PoolRow
from retryscrape.policy.outcomes import Status
from retryscrape.policy.shards import in_shard

if TYPE_CHECKING:
    from retryscrape.crawl.arguments import Arguments

logger = logging.getLogger("retryscrape")

#: Bytes of a blocked page that are kept: enough to see and to classify it again.
KEPT = 512 * 1024


class Books:
    """What a run has open: one ledger, one writer, one lock a batch."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.out = Path(run.config.out)
        self._stack = ExitStack()
        self.batches: dict[str, BatchInfo] = {}
        #: whether an earlier run had the same job id (a caller's ``_job`` may come twice)
        self.job_known = False
        #: manifests whose end has not been reached, by batch
        self.unread: dict[str, str] = {}
        #: why rows of the manifest were not asked for, and which vendors blocked
        self.skipped: Counter[str] = Counter()
        self.blockers: Counter[str] = Counter()
        #: rows of each batch as the run left them
        self.totals: dict[str, Counts] = {}
        self.feed_written = True
        self._store = PageStore(self.out)
        self._disk = ThreadPoolExecutor(1, thread_name_prefix="blocked-pages")
        self.ledger = self._open_ledger()
        self.writer = Writer(
            self.ledger,
            out=self.out,
            give_up=run.config.ledger_wait,
            on_failure=self._failed,
            on_full=self._full,
            deliver=self._deliver,
        )

    def _deliver(self, call: Callable[[], None]) -> None:
        """On the loop; without one (it is closed, or not there yet) nobody waits there."""
        loop = self.run.loop
        try:
            call() if loop is None else loop.call_soon_threadsafe(call)
        except RuntimeError:
            call()

    @property
    def shard(self) -> str:
        """``K/N``, or nothing: what keeps the readings of several processes apart."""
        shard = self.run.arguments.shard if self.run.arguments else None
        return f"{shard[0]}/{shard[1]}" if shard else ""

    @property
    def primary(self) -> str:
        """The batch that the run is about (a failures feed may hold rows of others)."""
        return next(iter(self.batches), "")

    def _open_ledger(self) -> Ledger:
        try:
            self.out.mkdir(parents=True, exist_ok=True)
            return Ledger.open(ledger_url(self.run))
        except LedgerError as error:
            raise UsageProblem(_sentence(error)) from None
        except OSError as error:
            raise UsageProblem(
                f"Setting RETRYSCRAPE_OUT: {self.out} cannot be written: {error.strerror}."
            ) from None

    def enter(self, batch_id: str, manifest: str, *, read: bool = True) -> BatchInfo:
        """Open a batch, once a run: its manifest is hashed then, and not for each chunk of it.
        Without ``read`` there is none. Raises UsageProblem if another run works on it."""
        known = self.batches.get(batch_id)
        if known is not None:
            return known
        try:
            folder = self.out / batch_id
            lock = BatchLock.take(folder, batch_id, job_id=self.run.job_id, shard=self.shard)
            self._stack.enter_context(lock)
            self._mend_times(batch_id)
            info = self.ledger.open_batch(
                batch_id,
                manifest,
                digest(manifest) if read else None,
                now=self.run.clock(),
                shard=self.shard,
            )
        except (LedgerError, BatchBusyError) as error:
            raise UsageProblem(_sentence(error)) from None
        except OSError as error:
            raise UsageProblem(f"{self.out / batch_id} cannot be used: {error.strerror}.") from None
        self.batches[batch_id] = info
        self.run.suspicion.know(self.ledger, batch_id)
        if len(self.batches) == 1:
            jobs = self.ledger.jobs_of(batch_id)
            self.job_known = any(job.job_id == self.run.job_id for job in jobs)
            self._start_job(batch_id)
        return info

    def join(self, batch_id: str) -> BatchInfo:
        """Open a batch that others fill and work on, too. Raises UsageProblem."""
        try:
            folder, job_id = self.out / batch_id, self.run.job_id
            self._mend_times(batch_id)
            ledger: Any = self.ledger
            info: BatchInfo | None = ledger.batch_info(batch_id, now=self.run.clock())
            if info is None:
                raise UsageProblem(
                    f"There is no batch {batch_id!r} in the ledger: scrapy load fills one."
                )
            self._stack.enter_context(BatchLock.take(folder, batch_id, job_id=job_id, shared=True))
        except (LedgerError, BatchBusyError) as error:
            raise UsageProblem(_sentence(error)) from None
        except OSError as error:
            raise UsageProblem(f"{self.out / batch_id} cannot be used: {error.strerror}.") from None
        self.batches[batch_id] = info
        if not info.complete:
            self.unread[batch_id] = info.manifest
        self._start_job(batch_id)
        return info

    def _mend_times(self, batch_id: str) -> None:
        longest = self.run.hosts.rules.longest
        if rows := mend_times(self.ledger, batch_id, now=self.run.clock(), longest=longest):
            logger.warning("%d rows %s", rows, AHEAD)

    def _start_job(self, batch_id: str) -> None:
        """With what was typed: a re-drive, and a check of the pages, go by the same rules."""
        spider = self.run.crawler.spider
        self.ledger.start_job(
            self.run.job_id,
            batch_id,
            iso(self.run.clock()),
            spider=self.run.crawler.spidercls.name,
            arguments=getattr(spider, "given", None),
            settings=remembered(self.run.config.proxies),
        )

    def first_batch(self, arguments: Arguments) -> str:
        """The batch's name: as given, else what a failures feed carries, else the file's."""
        if arguments.batch:
            return arguments.batch
        name = arguments.manifest
        assert name is not None
        return first_batch(name) or self._batch_of_feed(name) or batch_name(name)

    def _batch_of_feed(self, manifest: str) -> str | None:
        """The batch whose failures feed this is, if it lies in its place. When nothing is
        left the feed is empty, and carries no name."""
        folder = Path(manifest).absolute().parent
        own = Path(manifest).name == "failures.jsonl" and folder.parent == self.out.absolute()
        known = own and self.ledger.batch_info(folder.name, now=self.run.clock()) is not None
        return folder.name if known else None

    def restore(self) -> None:
        """Carry over what earlier runs learned of hosts and exits."""
        rows = self.ledger.load_hosts()
        self.run.hosts.restore(rows, self.run.clock())
        self.run.rungs.learner.restore(rows)
        if self.run.pool is not None:
            self.run.pool.restore(self.ledger.load_exits())

    def keep(self) -> None:
        """Put down what this run has learned of hosts and exits."""
        self.ledger.save_hosts(merged_hosts(self.run))
        self.ledger.save_exits(pool_rows(self.run))

    def close(self, reason: str) -> None:
        """Commit what is left, write the feeds, give the locks back. Never raises for the disk."""
        wait = self.run.config.ledger_wait
        try:
            if reason == "over_budget":
                self._leave_unpaid()
            self.writer.close()
            self._disk.shutdown()
            # one that was waited for in vain already is not waited for again
            insist(Patience(0.0 if self.writer.failure else wait), self._put_down, reason)
        except (LedgerError, OSError) as error:
            logger.error("The end of the run could not be written down: %s", _said(error))
            self.feed_written = False
            self.run.stop_reason = self.run.stop_reason or _said(error)
        finally:
            self._count()
            self._stack.close()
            self.ledger.close()

    def _leave_unpaid(self) -> None:
        """Rows that were read and not asked for: the budget's end is why. Not those of others,
        and not those that wait for a time of their own."""
        arguments = self.run.arguments
        if arguments is None or arguments.work == "ledger":
            return
        self.writer.flush()
        why = self.run.stop_reason or ""
        for batch_id in self.batches:
            for row in self.ledger.failures(batch_id):
                fresh = row.status is Status.PENDING and row.not_before is None
                if fresh and in_shard(row.host, arguments.shard):
                    self.writer.submit(unpaid(replace(row, job_id=self.run.job_id), why))

    def _put_down(self, reason: str) -> None:
        if self._last_of_many():
            for batch_id in self.batches:
                self.ledger.mark_pass(batch_id)
        stats = {k: v for k, v in self.run.crawler.stats.get_stats().items() if plain(v)}
        stats |= self.run.suspicion.end(self.ledger, self.out, now=self.run.clock())
        self.ledger.finish_job(self.run.job_id, iso(self.run.clock()), reason, stats)
        for batch_id in self.batches:
            self.write_files(batch_id)

    def _last_of_many(self) -> bool:
        """Leave the other workers, if there may be some; whether this one was the last."""
        worker = self.run.worker
        if worker is None:
            self.keep()
            return True
        alone: bool = worker.claims.alone()
        worker.leave()
        return alone

    def _count(self) -> None:
        """The rows of this process; reading goes well on a full disk, too."""
        shard = self.run.arguments.shard if self.run.arguments else None
        mine = partial(in_shard, shard=shard) if shard else None
        for batch_id in self.batches:
            with suppress(LedgerError):
                self.totals[batch_id] = self.ledger.counts(batch_id, of=mine)

    def write_files(self, batch_id: str) -> None:
        """Failures feed, index and report of a batch, each by a new file and rename."""
        write_files(self.ledger, self.out, batch_id, now=self.run.clock())

    def keep_blocked(self, row: Result, body: bytes, content_type: str | None) -> None:
        """Keep the last blocked body of a URL below ``BATCH/blocked``, without waiting."""
        path = page_path(row.batch_id, row.url, content_type).replace("/pages/", "/blocked/", 1)
        self._disk.submit(self._store.write, path, body[:KEPT])

    def feeds(self) -> Iterator[Path]:
        """Where the failures feeds lie."""
        for batch_id in self.batches:
            yield self.out / batch_id / "failures.jsonl"

    def _failed(self, sentence: str) -> None:
        """The writer cannot go on: called from its thread."""
        self.run.stop_from_thread("ledger_failed", sentence)

    def _full(self, sentence: str) -> None:
        """No page can be written any more: what is fetched now is fetched for nothing."""
        self.run.stop_from_thread("disk_full", sentence)


def remembered(proxies: str | tuple[str, ...] | None) -> dict[str, str]:
    """What a re-drive must not do without: a forgotten file of proxies would send it direct.

    A file's path only: entries themselves hold passwords.
    """
    if isinstance(proxies, str) and (path := Path(proxies).expanduser()).is_file():
        return {"RETRYSCRAPE_PROXIES": str(path.absolute())}
    return {}


def manifest_name(arguments: Arguments) -> str:
    """What the ledger calls the manifest."""
    return arguments.manifest or "urls="


def ledger_url(run: Run) -> str:
    """The database URL of the run's ledger."""
    return run.config.ledger or str(Path(run.config.out) / "ledger.db")


def _sentence(error: Exception) -> str:
    text = str(error)
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


def _said(error: LedgerError | OSError) -> str:
    """In words: an OSError begins with a number."""
    if isinstance(error, LedgerError) or not error.strerror:
        return str(error)
    return f"{error.filename}: {error.strerror}" if error.filename else error.strerror


def _exit_row(row: PoolRow) -> ExitRow:
    return ExitRow(**row._asdict())


def pool_rows(run: Run, *, pairs: bool = True) -> list[ExitRow]:
    """The health of exits; without ``pairs`` in general only. Empty without proxies."""
    return [_exit_row(row) for row in run.pool.snapshot(pairs=pairs)] if run.pool else []


def merged_hosts(run: Run) -> list[HostRow]:
    """Pauses and learned rungs, one row a host."""
    rows = {
        row.host: HostRow(
            host=row.host,
            paused_until=row.paused_until,
            pause_reason=row.pause_reason,
            blocks=row.blocks,
        )
        for row in run.hosts.snapshot()
    }
    for learned in run.rungs.learner.snapshot():
        row = rows.get(learned.host) or HostRow(host=learned.host)
        rows[learned.host] = replace(
            row,
            best_rung=learned.best_rung,
            best_until=learned.best_until,
            state=learned.state,
        )
    return list(rows.values())


def first_batch(manifest: str) -> str | None:
    """The batch that a failures feed carries in its first row; None for other manifests."""
    if manifest == "-":
        return None
    with open_manifest(manifest) as stream:
        for item in islice(read_rows(stream, name=manifest), 1):
            return item.batch
    return None


def plain(value: object) -> bool:
    """Whether a stat can be written as JSON."""
    return isinstance(value, str | int | float | bool)
