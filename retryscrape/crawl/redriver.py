"""The loop of ``scrapy redrive``: reconcile, then passes until a stop rule holds.

The rules are ledger/redrive.py's, what is left worklist.py's, processes
passes.py's. The loop's state is in the ledger, so that a killed one goes on.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from msgspec.structs import replace

from retryscrape.config import Config
from retryscrape.crawl.lifeline import PATIENCE
from retryscrape.crawl.passes import Interrupted, Pass, Runner, pass_settings
from retryscrape.crawl.runtime import new_job_id
from retryscrape.ledger.clock import AHEAD, mend_times
from retryscrape.ledger.feed import unread, write_failures
from retryscrape.ledger.files import write_files
from retryscrape.ledger.lock import BatchBusyError, BatchLock
from retryscrape.ledger.records import JobRow, RedriveRow
from retryscrape.ledger.redrive import (
    RESUMED,
    Rules,
    Step,
    Stop,
    Worklist,
    next_step,
    pace,
    stopped_by,
)
from retryscrape.ledger.store import Ledger
from retryscrape.ledger.times import iso
from retryscrape.ledger.worklist import worklist
from retryscrape.policy.exitcode import Ending, exit_code


def rules_of(config: Config) -> Rules:
    """The loop's rules, from the settings."""
    return Rules(
        passes=config.passes,
        deadline=config.deadline,
        floor=config.floor,
        base=config.redrive_base,
        jitter=config.redrive_jitter,
        max_wait=config.max_wait,
    )


@dataclass(slots=True, kw_only=True)
class Redriver:
    """One loop over a batch.

    ``spider``, ``arguments`` and ``settings`` (NAME=VALUE) are given to every pass,
    ``concurrency`` is the project's own per host. ``reconcile`` is called before
    the first pass and after a pass that died; ``say`` takes lines for the user.
    """

    ledger: Ledger
    batch_id: str
    config: Config
    spider: str
    arguments: Mapping[str, str]
    settings: Sequence[str]
    concurrency: int
    reconcile: Callable[[], None]
    say: Callable[[str], None]
    runner: Runner = field(default_factory=Runner)
    #: whether a pass was begun: something may have been requested
    asked: bool = field(default=False, init=False)
    _row: RedriveRow = field(init=False)
    _began: float = field(default_factory=time.monotonic)

    @property
    def _out(self) -> Path:
        return Path(self.config.out)

    @property
    def _feed(self) -> Path:
        return self._out / self.batch_id / "failures.jsonl"

    def run(self) -> int:
        """Run the loop; the exit code. Raises LedgerError, OSError, BatchBusyError."""
        rules = rules_of(self.config)
        longest = max(self.config.retry_after_cap, self.config.host_pause)
        if rows := mend_times(self.ledger, self.batch_id, now=time.time(), longest=longest):
            self.say(f"{rows} rows {AHEAD}")
        self._row = self._begin()
        self._began = time.monotonic()
        code = 0
        with self.runner.handling():
            try:
                self._outlast()
                self.reconcile()
                self._row = replace(self._row, before=self._row.before or self._work(rules).size)
                stop, code = self._loop(rules)
            except Interrupted:
                stop = Stop.INTERRUPTED
        work = self._work(rules)
        self._keep(reason=stop.value, finished_at=iso(time.time()), left_over=work.open)
        write_files(self.ledger, self._out, self.batch_id, now=time.time())
        self.say(_last_line(self._row, work, self._feed))
        return code or self._exit_code()

    # --- the loop --------------------------------------------------------------

    def _loop(self, rules: Rules) -> tuple[Stop, int]:
        while True:
            work, step = self._next(rules)
            if step.stop is not None:
                return step.stop, 0
            self._announce(work, step)
            self.runner.wait_until(step.at)
            code, job = self._pass(rules)
            if self.runner.signalled is not None:
                return Stop.INTERRUPTED, 0
            if job is None:
                self.say(f"the pass could not start (exit code {code}): see above")
                return Stop.FAILED, code if code > 0 else 1
            if code < 0 or job.finished_at is None:
                self.say(f"the pass died ({_death(code)}); the loop goes on")
                self.reconcile()
                continue
            early = stopped_by(job.finish_reason)
            if early is not None:
                return early, 0

    def _next(self, rules: Rules) -> tuple[Worklist, Step]:
        now = time.time()
        work = self._work(rules)
        step = next_step(
            work,
            rules,
            passes=self._row.passes,
            ends_at=self._ends_at(rules, now),
            pause=pace(self._row.passes, rules, random.random()),
            now=now,
        )
        return work, step

    def _pass(self, rules: Rules) -> tuple[int, JobRow | None]:
        """Run one pass; its exit code, and what the ledger says of it (None: it never began)."""
        write_failures(self.ledger, self.batch_id, self._feed)
        job_id = new_job_id()
        left = self._ends_at(rules, time.time()) - time.time()
        self._keep(passes=self._row.passes + 1, job_id=job_id, reason=None, finished_at=None)
        pass_ = Pass(
            spider=self.spider,
            arguments={
                **self.arguments,
                "manifest": str(self._feed),
                "batch": self.batch_id,
                "_job": job_id,
                "_passes": str(rules.passes),
            },
            settings=pass_settings(
                self.settings,
                per_host=self.config.redrive_per_host,
                concurrency=self.concurrency,
                max_wait=min(rules.max_wait, max(0.0, left)),
                seconds=left,
            ),
        )
        self.asked = True
        code = self.runner.run(pass_, seconds=left)
        self._keep()
        jobs = {job.job_id: job for job in self.ledger.jobs_of(self.batch_id)}
        return code, jobs.get(job_id)

    # --- its state -------------------------------------------------------------

    def _begin(self) -> RedriveRow:
        """A new loop, or the last one if it did not come to its end."""
        loops = self.ledger.redrives_of(self.batch_id)
        if loops and loops[-1].reason in RESUMED:
            self.say(f"going on with the re-drive of {loops[-1].started_at}")
            return loops[-1]
        number = loops[-1].n + 1 if loops else 1
        return RedriveRow(batch_id=self.batch_id, n=number, started_at=iso(time.time()))

    def _outlast(self) -> None:
        """The last pass of a loop that was killed ends itself (lifeline.py): wait for that.
        Raises BatchBusyError if it does not, or if another run has the batch."""
        ends = time.time() + PATIENCE
        while self._row.job_id:
            try:
                BatchLock.take(self._out / self.batch_id, self.batch_id, job_id="redrive").release()
                return
            except BatchBusyError as busy:
                if busy.job_id != self._row.job_id or time.time() >= ends:
                    raise
            self.runner.wait_until(time.time() + 0.5)

    def _keep(self, **changes: object) -> None:
        """Put the loop's state down, with the seconds that it has taken so far."""
        now = time.monotonic()
        spent = self._row.spent + now - self._began
        self._began = now
        self._row = replace(self._row, spent=spent, **changes)
        self.ledger.save_redrive(self._row)

    def _ends_at(self, rules: Rules, now: float) -> float:
        spent = self._row.spent + time.monotonic() - self._began
        return now + rules.deadline - spent

    def _work(self, rules: Rules) -> Worklist:
        now = time.time()
        return worklist(
            self.ledger, self.batch_id, rules, now=now, ends_at=self._ends_at(rules, now)
        )

    # --- what is said ----------------------------------------------------------

    def _announce(self, work: Worklist, step: Step) -> None:
        wait = step.at - time.time()
        later = f", in {wait:.0f} s" if wait >= 1 else ""
        parked = f"; {work.parked} parked beyond the deadline" if work.parked else ""
        self.say(
            f"pass {self._row.passes + 1} of at most {self.config.passes}{later}:"
            f" {_rows(work.size)} to re-drive{parked}"
        )

    def _exit_code(self) -> int:
        signalled = self.runner.signalled
        return exit_code(
            Ending(
                groups=list(self.ledger.counts(self.batch_id).groups.items()),
                early=signalled is not None,
                unread=any(unread(self.ledger, self.batch_id, self._feed)),
                interrupted=signalled == signal.SIGINT,
                fail_on=self.config.fail_on,
            )
        )


_WHY = {
    Stop.CLEAN: "nothing is left to re-drive",
    Stop.BUDGET: "every pass that RETRYSCRAPE_PASSES allows is used",
    Stop.DEADLINE: "what is left cannot be asked before RETRYSCRAPE_DEADLINE",
    Stop.FLOOR: "fewer rows are left than RETRYSCRAPE_FLOOR",
    Stop.INTERRUPTED: "it was interrupted; the same command goes on",
    Stop.FAILED: "a pass could not start",
    Stop.OVER_BUDGET: "RETRYSCRAPE_RUN_BUDGET is spent, and the next pass would spend it again",
    Stop.STOP_RULE: "RETRYSCRAPE_STOP ended the pass: it was only burning money",
    Stop.NO_EXIT: "no usable proxy was left in the pass",
    Stop.DISK_FULL: "the disk is full",
    Stop.LEDGER_FAILED: "the ledger cannot be written",
    Stop.API_STOPPED: "the scraping API said stop",
}


def _last_line(row: RedriveRow, work: Worklist, feed: Path) -> str:
    stop = Stop(row.reason or Stop.FAILED)
    passes = "1 pass" if row.passes == 1 else f"{row.passes} passes"
    left = f"{_rows(work.open)} left, in {feed}" if work.open else f"failures feed: {feed}"
    return f"batch {row.batch_id}: stopped after {passes} ({stop}: {_WHY[stop]}); {left}"


def _rows(number: int) -> str:
    return "1 row" if number == 1 else f"{number} rows"


def _death(code: int) -> str:
    if code < 0:
        try:
            return signal.Signals(-code).name
        except ValueError:
            return f"signal {-code}"
    return f"exit code {code}"
