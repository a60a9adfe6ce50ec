"""``BATCH/run.json``: what schedulers read of a run, at its start, once a minute, at its end.

The file, the webhook and the metrics are three ways out for one document, made
here. Its fields are documented in docs/scrapyd.md.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import socket
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import Any

from retryscrape.crawl.metrics import Metrics, open_metrics
from retryscrape.crawl.runtime import Run
from retryscrape.crawl.webhook import deliver, key_of, shown
from retryscrape.ledger.dialect import LedgerError, shown_url
from retryscrape.ledger.lock import BatchBusyError, BatchLock
from retryscrape.ledger.pages import replacing_file
from retryscrape.ledger.records import Counts
from retryscrape.ledger.times import iso
from retryscrape.manifest.names import STDIN, batch_name, check_batch_name, is_uri, local_path
from retryscrape.manifest.names import shown as shown_source
from retryscrape.policy.exitcode import MEANINGS
from retryscrape.policy.outcomes import Status
from retryscrape.policy.redact import mask_text

logger = logging.getLogger("retryscrape")

#: Seconds between two writings: what cron and most schedulers look at.
EVERY = 60.0
#: Counting the rows of a batch may take at most this share of a run's time.
COUNT_SHARE = 0.02

#: Stats that are passed on, by their prefix.
_STATS = {
    "attempts": "retryscrape/attempts/",
    "decisions": "retryscrape/decisions/",
    "urls": "retryscrape/urls/",
}


class RunStatus:
    """The status of one run; ``finish_reason`` is None while it goes on."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.started_at = run.clock()
        self.ended_at: float | None = None
        self.finish_reason: str | None = None
        #: why nothing was requested, and the batch that was meant, for a run that never began
        self.refusal: str | None = None
        self.meant = ""
        self._counts: dict[str, Counts] = {}
        self._count_again = 0.0
        self._metrics: Metrics | None = None
        self._warned = False

    def begin(self) -> None:
        """Write for the first time. Raises UsageProblem if metrics are set and cannot be had."""
        if self.run.config.metrics:
            self._metrics = open_metrics(self.run.config.metrics, self.documents)
        self.write()

    async def keep(self, every: float = EVERY) -> None:
        """Write again and again, until cancelled."""
        while True:
            await asyncio.sleep(every)
            await asyncio.to_thread(self.write)

    def end(self, reason: str) -> None:
        """Write for the last time, and tell the webhook. The books are closed by now."""
        self.finish_reason = reason
        self.ended_at = self.run.clock()
        if self.run.books is not None:
            self._counts |= self.run.books.totals
        self.write()
        self.tell()
        if self._metrics is not None:
            self._metrics.close()

    def refuse(self, sentence: str, given: Mapping[str, Any]) -> None:
        """A run that must not begin: its status says why. ``given`` are its arguments.

        Not where another run has the batch: the file there is that run's.
        """
        self.refusal, self.meant = sentence, meant_batch(given)
        self.run.job_id = str(given.get("_job") or self.run.job_id)
        self.finish_reason, self.ended_at = "usage", self.run.clock()
        if self.meant:
            with suppress(BatchBusyError, OSError), self._lock():
                self.write()
        self.tell()

    def _lock(self) -> AbstractContextManager[object]:
        """The meant batch's lock, unless this run has it (it was refused late)."""
        if self.run.books is not None and self.meant in self.run.books.batches:
            return nullcontext()
        return BatchLock.take(self._out / self.meant, self.meant, job_id=self.run.job_id)

    def write(self) -> None:
        """Write every batch's file by rename; a disk that is full is a warning, said once."""
        for document in self.documents():
            try:
                folder = self._out / document["batch_id"]
                folder.mkdir(parents=True, exist_ok=True)
                with replacing_file(folder / file_name(self.run)) as file:
                    file.write(to_json(document))
            except OSError as error:
                self._warn(f"run.json could not be written: {error.strerror}")
        if self._metrics is not None:
            problem = self._metrics.write()
            if problem:
                self._warn(problem)

    def tell(self) -> None:
        """The webhook: one delivery for a run, about its first batch."""
        config = self.run.config
        if config.webhook is None:
            return
        document = next(iter(self.documents()), None) or self.document("", None)
        sent = deliver(config.webhook, to_json(document), key_of(config))
        if sent.problem:
            logger.warning(
                "The webhook at %s was not told: %s (%d tries)",
                shown(config.webhook),
                sent.problem,
                sent.tries,
            )

    # --- the document ------------------------------------------------------------

    def documents(self) -> list[dict[str, Any]]:
        """One for each batch of the run."""
        books = self.run.books
        batches = list(books.batches) if books is not None else []
        if not batches and self.meant:
            batches = [self.meant]
        self._count(batches)
        return [self.document(batch, self._counts.get(batch)) for batch in batches]

    def document(self, batch_id: str, counts: Counts | None) -> dict[str, Any]:
        """The status as JSON has it."""
        run, code = self.run, self.run.exit_code if self.finish_reason else None
        stopped = self.refusal or run.stop_reason or run.incomplete
        return {
            "state": "ended" if self.finish_reason else "running",
            "batch_id": batch_id,
            "job_id": run.job_id,
            "spider": run.crawler.spidercls.name,
            "manifest": _manifest(run),
            "pid": os.getpid(),
            "node": socket.gethostname(),
            "started_at": iso(self.started_at),
            "updated_at": iso(self.ended_at or run.clock()),
            "ended_at": iso(self.ended_at) if self.ended_at else None,
            "counts": rows(counts),
            "run": self._progress(),
            "suspects": run.suspicion.told,
            "finish_reason": self.finish_reason,
            "stopped_early": mask_text(stopped, run.secrets) if stopped else None,
            "exit_code": code,
            "meaning": MEANINGS.get(code) if code is not None else None,
            "paths": self._paths(batch_id),
        }

    def _progress(self) -> dict[str, Any]:
        run = self.run
        try:
            stats = dict(run.crawler.stats.get_stats())
        except RuntimeError:  # refused before Scrapy made the crawler's parts
            stats = {}
        made: dict[str, Any] = {
            name: {k.removeprefix(prefix): n for k, n in stats.items() if k.startswith(prefix)}
            for name, prefix in _STATS.items()
        }
        waiting, due = run.scheduler.waiting() if run.scheduler is not None else (0, 0.0)
        going = self.finish_reason is None
        return {
            "asked": run.asked,
            **made,
            "waiting": waiting if going else 0,
            "next_due": iso(due) if going and due else None,
        }

    def _count(self, batches: list[str]) -> None:
        """Ask the ledger, unless that would take too large a share of its time."""
        books, now = self.run.books, time.monotonic()
        if books is None or self.finish_reason or now < self._count_again:
            return
        try:
            self._counts = {batch: books.ledger.counts(batch) for batch in batches}
        except LedgerError as error:
            self._warn(str(error))
        took = time.monotonic() - now
        self._count_again = now + took / COUNT_SHARE

    @property
    def _out(self) -> Path:
        return Path(self.run.config.out)

    def _paths(self, batch_id: str) -> dict[str, str]:
        """Where things lie, absolute: whoever reads this has another working folder."""
        out = self._out.absolute()
        folder = out / batch_id
        paths = {"out": out}
        if batch_id:
            paths |= {
                "failures": folder / "failures.jsonl",
                "index": folder / "index.tsv",
                "report": folder / "report.json",
                "pages": folder / "pages",
            }
        ledger = shown_url(self.run.config.ledger or str(out / "ledger.db"))
        return {**{name: str(path) for name, path in paths.items()}, "ledger": ledger}

    def _warn(self, sentence: str) -> None:
        if not self._warned:
            self._warned = True
            logger.warning("%s", sentence)


def meant_batch(given: Mapping[str, Any]) -> str:
    """The batch that arguments name, right or wrong; empty if they name none that could be."""
    manifest = str(given.get("manifest") or "")
    name = str(given.get("batch") or batch_name(manifest)).strip()
    return name if name and check_batch_name(name) is None else ""


def rows(counts: Counts | None) -> dict[str, Any] | None:
    """The rows of a batch as numbers; None while they are not known."""
    if counts is None:
        return None
    by_status = counts.by_status
    return {
        "rows": counts.total,
        **{status.value: by_status[status] for status in Status},
        "open": counts.open,
        "by_outcome": {outcome or "pending": n for outcome, n in counts.by_outcome.items()},
    }


def to_json(document: dict[str, Any]) -> bytes:
    """The bytes of the file, and of the webhook's body."""
    return json.dumps(document, ensure_ascii=False, indent=1).encode() + b"\n"


def file_name(run: Run) -> str:
    """``run.json``; runs that share a batch (shards, workers) have a file each."""
    arguments = run.arguments
    if arguments is not None and arguments.shard is not None:
        return f"run-{arguments.shard[0]}-of-{arguments.shard[1]}.json"
    if arguments is not None and arguments.work is not None:
        return f"run-{re.sub(r'[^A-Za-z0-9_-]+', '_', run.job_id)}.json"
    return "run.json"


def _manifest(run: Run) -> str | None:
    name = run.arguments.manifest if run.arguments is not None else None
    if name is None or name == STDIN:
        return name
    return shown_source(name) if is_uri(name) else os.path.abspath(local_path(name))
