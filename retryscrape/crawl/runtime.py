"""What the components of one crawler share: settings, exits, hosts, budgets, ledger.

``Run.of(crawler)`` makes it once. Components hold no state of their own; what a
rule needs to know is here, and the rule itself is the policy's.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import random
import secrets
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar
from weakref import WeakKeyDictionary

from retryscrape.config import Config, ConfigError
from retryscrape.crawl.blame import Blame
from retryscrape.crawl.parking import Parking
from retryscrape.crawl.rendering import Rendering
from retryscrape.crawl.rungs import Rungs
from retryscrape.crawl.spending import LOOK_AGAIN, Spending
from retryscrape.crawl.suspicion import Suspicion
from retryscrape.crawl.theirbrowser import TheirBrowser
from retryscrape.ledger.records import AttemptRecord, Result
from retryscrape.policy.backoff import Backoff, Jitter
from retryscrape.policy.budget import RetryBudget
from retryscrape.policy.decide import Decision, Limits
from retryscrape.policy.exits import Pool
from retryscrape.policy.hosts import HostRules, Hosts
from retryscrape.policy.outcomes import Checks, Outcome
from retryscrape.policy.shares import Shares

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    from retryscrape.crawl.api.rung import Api
    from retryscrape.crawl.arguments import Arguments
    from retryscrape.crawl.books import Books
    from retryscrape.crawl.scheduler import WaitingScheduler
    from retryscrape.crawl.worker import Worker

logger = logging.getLogger("retryscrape")


class UsageProblem(Exception):
    """The run must not start: exit code 2. The message is one sentence."""


def new_job_id() -> str:
    """A time-ordered id, for runs that Scrapyd did not name."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    return f"{stamp}-{os.getpid()}-{secrets.token_hex(2)}"


class Run:
    """One crawler's shared state."""

    _runs: ClassVar[WeakKeyDictionary[Crawler, Run]] = WeakKeyDictionary()

    @classmethod
    def of(cls, crawler: Crawler) -> Run:
        """The run of a crawler, made at the first call."""
        run = cls._runs.get(crawler)
        if run is None:
            run = cls._runs[crawler] = cls(crawler)
        return run

    def __init__(self, crawler: Crawler, clock: Callable[[], float] = time.time) -> None:
        self.crawler = crawler
        self.clock = clock
        self.rng = random.Random()
        #: why nothing may be requested, or None
        self.problem: str | None = None
        try:
            self.config = Config.from_settings(crawler.settings)
        except ConfigError as error:
            self.problem = str(error)
            self.config = Config.from_settings({})
        config = self.config
        self.limits = Limits(
            attempts=config.attempts,
            url_budget=config.url_budget,
            max_wait=config.max_wait,
            backoff=Backoff(
                kind=Jitter(config.backoff), base=config.backoff_base, cap=config.backoff_cap
            ),
        )
        self.hosts = Hosts(
            HostRules(
                throttle_base=config.throttle_base,
                retry_after_cap=config.retry_after_cap,
                host_blocks=config.host_blocks,
                host_pause=config.host_pause,
            ),
            self.rng,
        )
        self.retry_budget = (
            RetryBudget(*config.retry_budget) if config.retry_budget else RetryBudget(off=True)
        )
        self.spending = Spending(config)
        self.shares = Shares(config.stop)
        self.rungs = Rungs(config.ladder, learn=config.learn)
        self.suspicion = Suspicion(config.suspect)
        self.pool: Pool | None = None
        self.arguments: Arguments | None = None
        self.job_id = new_job_id()
        self.scheduler: WaitingScheduler | None = None
        #: the batch that an ordinary spider names for its requests, or None
        self.record: str | None = None
        #: the ledger's side of the run, None for spiders without a batch
        self.books: Books | None = None
        #: this process among the workers of a batch, None if it has the batch for itself
        self.worker: Worker | None = None
        #: why the run stops early, or None
        self.stop_reason: str | None = None
        #: the signal that stops it, or None
        self.signalled: int | None = None
        self.exit_code: int | None = None
        #: what no output may contain (shared with the log filter)
        self.secrets: set[str] = set()
        #: downloads under way, to be cancelled when a stop has lasted too long
        self.downloads: set[asyncio.Future[Any]] = set()
        #: URLs whose items failed in a user's pipeline, with the reason
        self.item_errors: dict[str, str] = {}
        self.loop: asyncio.AbstractEventLoop | None = None
        self.asked = 0
        #: why the manifest was not read to its end, or None
        self.incomplete: str | None = None
        self.parking = Parking(self)
        self.blame = Blame(self)
        self.rendering = Rendering(self)
        #: the scraping API's rung, None where the ladder has none
        self.api: Api | None = None
        self.their_browser = TheirBrowser(crawler.settings)

    @property
    def checks(self) -> Checks:
        """What a good page of this run must show."""
        return self.arguments.checks if self.arguments is not None else NO_CHECKS

    # --- hosts -----------------------------------------------------------------

    def due(self, host: str, now: float, *, exits: bool = True) -> float:
        """When a request of this host may leave: 0 now, an epoch second, infinity while
        a probe is under way. Without ``exits`` for one that takes none."""
        if self.spending.full() or (self.worker is not None and not self.worker.sure):
            return now + LOOK_AGAIN
        due = self.hosts.due(host, now)
        if exits and self.pool is not None and due <= now:
            due = self.pool.due(host, now)
            # none at all: the attempt itself finds out, and ends with a sentence
            due = 0.0 if due == math.inf else due
        return due

    # --- ledger ----------------------------------------------------------------

    def lags(self) -> bool:
        """Whether the ledger's writer is behind: pages that are not committed are asked for
        again after a kill, and are in memory until then (5,000 small ones they were)."""
        return self.books is not None and self.books.writer.unsettled >= MOST_UNSETTLED

    def attempted(self, record: AttemptRecord) -> None:
        """Put an attempt on record; nobody waits for it."""
        if self.books is not None:
            self.books.writer.attempt(record)

    def note(self, result: Result) -> None:
        """Write a row that no item stands for (parked, or changed afterwards)."""
        if self.books is not None and result.batch_id and self.holds(result.host):
            self.books.writer.submit(result)

    def holds(self, host: str) -> bool:
        """Whether rows of the host are this run's to do (not so when another worker's lease
        is on them)."""
        return self.worker is None or self.worker.holds(host)

    def counted(self, outcome: Outcome, decision: Decision) -> None:
        """Count an attempt's outcome and what was decided."""
        stats = self.crawler.stats
        stats.inc_value(f"retryscrape/attempts/{outcome}")
        stats.inc_value(f"retryscrape/decisions/{decision.action}")

    def keep_blocked(
        self, row: Result, body: bytes, content_type: str | None, outcome: Outcome
    ) -> None:
        """Keep the last blocked (or invalid) body of a URL, so that a person can look at one
        and ``scrapy replay`` can judge it again, and what vendors blocked."""
        if self.books is None:
            return
        if outcome is Outcome.BLOCKED:
            self.books.blockers[row.vendor or "no vendor named"] += 1
        if self.config.keep_blocked:
            self.books.keep_blocked(row, body, content_type)

    # --- stopping --------------------------------------------------------------

    def stop(self, reason: str, sentence: str) -> None:
        """Close the spider; what is open stays open in the ledger.

        CloseSpider raised in a downloader middleware does not close (probes.md).
        """
        if self.stop_reason is not None:
            return
        self.stop_reason = sentence
        logger.warning("The run stops: %s", sentence)
        engine: Any = self.crawler.engine
        asyncio.ensure_future(engine.close_spider_async(reason=reason))  # noqa: RUF006

    def stop_from_thread(self, reason: str, sentence: str) -> None:
        """The same, from the writer's thread."""
        if self.loop is not None:
            self.loop.call_soon_threadsafe(self.stop, reason, sentence)

    def cancel(self) -> None:
        """Cancel the downloads under way; their rows stay open."""
        for download in list(self.downloads):
            download.cancel()

    def flush(self) -> None:
        """After a hard stop: commit what the writer still holds."""
        if self.books is not None:
            self.books.writer.close()


#: Results and attempts that may wait to be committed: two full commits, and some more.
MOST_UNSETTLED = 250

#: Requests without a row are judged by block evidence and status alone.
NO_CHECKS = Checks(min_text=0)
