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

from scrapy import Request
from scrapy.downloadermiddlewares.cookies import CookiesMiddleware

from retryscrape.config import Config, ConfigError
from retryscrape.crawl.cookies import plain_cookie
from retryscrape.crawl.keys import COOKIES, SIDE, host_of
from retryscrape.crawl.parking import Parking
from retryscrape.crawl.rungs import Rungs
from retryscrape.crawl.spending import LOOK_AGAIN, Spending
from retryscrape.crawl.suspicion import Suspicion
from retryscrape.crawl.theirbrowser import TheirBrowser
from retryscrape.ledger.records import AttemptRecord, Result
from retryscrape.policy.attribution import doubtful, in_hindsight, shown_twice, signal_for
from retryscrape.policy.backoff import Backoff, Jitter
from retryscrape.policy.budget import RetryBudget
from retryscrape.policy.decide import Decision, Limits
from retryscrape.policy.exits import Exit, Pool, Signal
from retryscrape.policy.hosts import HostRules, Hosts
from retryscrape.policy.ladder import Learner, parse_rung
from retryscrape.policy.outcomes import Checks, Outcome, Verdict
from retryscrape.policy.shares import Shares
from retryscrape.policy.ticket import Past, Ticket

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    from retryscrape.crawl.api.rung import Api
    from retryscrape.crawl.arguments import Arguments
    from retryscrape.crawl.books import Books
    from retryscrape.crawl.browser.aside import Aside
    from retryscrape.crawl.browser.options import BrowserOptions
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
        self.rungs = Rungs(config.ladder)
        self.ladder = self.rungs.ladder()
        self.learner = Learner(self.ladder, learn=config.learn)
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
        self._browser: Aside | None = None
        #: the scraping API's rung, None where the ladder has none
        self.api: Api | None = None
        self.their_browser = TheirBrowser(crawler.settings)
        #: the browser's name on (exit, host), where its cookies are used by the plain rung
        self.agents: dict[tuple[str | None, str], str] = {}

    @property
    def checks(self) -> Checks:
        """What a good page of this run must show."""
        return self.arguments.checks if self.arguments is not None else NO_CHECKS

    def starting(self, ticket: Ticket, request_url: str) -> Ticket:
        """The ticket with the rung that the URL starts on."""
        rung = ticket.rung if ticket.rung in self.ladder.rungs else ""
        if not rung or not ticket.escalate:
            rung = self.learner.start_rung(ticket.host, self.clock(), self.rng)
        else:
            higher = self.ladder.next(rung)
            rung = higher if higher and self.ladder.usable(higher) else rung
        return ticket.but(rung=rung, start_rung=rung, request_url=request_url)

    # --- the browser -----------------------------------------------------------

    @property
    def browser(self) -> Aside:
        """The browser rung's handler; nothing is started before its first page."""
        if self._browser is None:
            from retryscrape.crawl.browser.aside import Aside

            self._browser = Aside(self.crawler, self._browser_options())
        return self._browser

    def _browser_options(self) -> BrowserOptions:
        from retryscrape.crawl.browser.options import BrowserOptions

        return BrowserOptions.from_settings(
            self.crawler.settings,
            pages=self.config.browser_pages,
            recycle=self.config.browser_recycle,
            enough_text=self.checks.min_text,
            require=self.checks.require,
        )

    def look_for_browser(self) -> None:
        """Take the browser's rungs off the ladder if there is none, with one clear line."""
        ours = "retryscrape.crawl.download.DownloadHandler"
        handlers = self.crawler.settings.getdict("DOWNLOAD_HANDLERS")
        if not {handlers.get("http"), handlers.get("https")} & {ours, None}:
            # the project's own handlers fetch: there is one way to do so, theirs
            self._use_ladder(self.rungs.bases - {"browser", "api"})
        elif any(parse_rung(rung).base == "browser" for rung in self.ladder.rungs):
            # what renders is imported for the first page of it; what is wrong shows now
            from retryscrape.crawl.browser.executable import unavailable

            self._browser_options()
            why = unavailable(self.crawler.settings)
            if why:
                self.without_browser(why)

    def without_browser(self, why: str) -> None:
        """The plain rung goes on alone."""
        if "browser" in self.rungs.bases:
            logger.warning("Rendering is unavailable, the plain rung goes on: %s", why)
            self._use_ladder(self.rungs.bases - {"browser"})

    def without(self, base: str, why: str) -> None:
        """The other rungs go on alone."""
        logger.warning("Rung %s is unavailable: %s", base, why)
        self._use_ladder(self.rungs.bases - {base})

    def _use_ladder(self, bases: frozenset[str]) -> None:
        self.rungs.bases = bases
        self.ladder = self.rungs.ladder()
        self.learner.use(self.ladder)

    def look_for_exits(self) -> None:
        """Take rungs that have no exit off the ladder, each with one clear line; those that
        have some again come back."""
        for sentence in self.rungs.look(self.pool, self.clock()):
            logger.warning("%s", sentence)
        self._use_ladder(self.rungs.bases)

    def usable_rung(self, rung: str) -> str:
        """The rung itself, or the nearest one that can be used: above it first."""
        ladder = self.ladder
        if ladder.usable(rung):
            return rung
        return ladder.next(rung) or ladder.lower(rung) or rung

    def take_cookies(self, request: Request, ticket: Ticket) -> None:
        """What a challenge has set goes into the plain rung's jar of the same exit, and so
        does the name the browser goes by: such cookies are bound to it."""
        jars = self.crawler.get_downloader_middleware(CookiesMiddleware)
        found = request.meta.get(COOKIES)
        if jars is None or not found:
            return
        jar = jars.jars[request.meta.get("cookiejar")]
        for cookie in found:
            jar.set_cookie(plain_cookie(cookie))
        agent = self.browser.user_agent
        if agent:
            self.agents[ticket.exit, ticket.host] = agent

    async def close_browser(self) -> None:
        """End the browser, if there is one."""
        if self._browser is not None:
            await self._browser.close()

    # --- exits -----------------------------------------------------------------

    def unused_exits(self, ticket: Ticket, now: float) -> int | None:
        """How many usable exits the URL has not tried; None without proxies."""
        if self.pool is None:
            return None
        rung = parse_rung(ticket.rung)
        return self.pool.unused(
            ticket.host, ticket.exits_used, now, tier=rung.tier, country=rung.country
        )

    def exit_done(self, ticket: Ticket, verdict: Verdict, now: float, size: int) -> None:
        """Tell the pool what an attempt says of its exit; stop if none is left."""
        if self.pool is None or ticket.exit is None:
            return
        elapsed = now - ticket.started
        signal = signal_for(verdict, ticket)
        size += ticket.bytes
        self._answered(self.pool.done(ticket.exit, ticket.host, now, signal, elapsed, size))
        sentence = self.pool.all_exhausted()
        if sentence:
            self.stop("no_exit", sentence)
        elif signal in _EXIT_FAULTS and len(self.rungs.names) > 1:
            self.look_for_exits()

    def exit_of(self, ticket: Ticket) -> Exit | None:
        """The exit of the attempt under way; None without one."""
        return self.pool.get(ticket.exit) if self.pool is not None and ticket.exit else None

    def side_done(self, request: Request, verdict: Verdict | None) -> None:
        """A request without a ticket (robots.txt) counts for its exit's health."""
        used = request.meta.get(SIDE)
        if self.pool is None or not used:
            return
        signal = Signal.GOOD if verdict is None else signal_for(verdict, _SIDE_TICKET)
        self._answered(self.pool.done(used[-1], host_of(request), self.clock(), signal, None))

    def _answered(self, first: bool) -> None:
        """An exit works: all hosts whose requests waited to hear of one may go on, at once, and
        not only the host that heard it."""
        if first and self.scheduler is not None:
            self.scheduler.wake()

    def exit_is_suspect(self, ticket: Ticket, verdict: Verdict) -> bool:
        """Whether the exit is the likelier culprit, so that no attempt is used up."""
        if self.pool is None or ticket.exit is None:
            return False
        if doubtful(verdict, ticket):
            return self.pool.suspect(ticket.exit, ticket.host) or self.pool.unproven(ticket.exit)
        blocked = verdict.outcome is Outcome.BLOCKED
        return blocked and self.pool.suspect(ticket.exit, ticket.host)

    def in_hindsight(self, ticket: Ticket) -> tuple[Past, ...]:
        """The URL's earlier attempts, as what was learned of their exits since shows them."""
        pool = self.pool
        if pool is None or not ticket.history:
            return ticket.history
        return in_hindsight(ticket.history, lambda one: pool.suspect(one, ticket.host))

    def free_retry(self, ticket: Ticket, verdict: Verdict) -> bool:
        """A fault of unknown origin spends no retry budget until a second exit shows it."""
        return doubtful(verdict, ticket) and not shown_twice(ticket)

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

#: What an exit's own fault looks like to the pool: a rung may have lost its last one.
_EXIT_FAULTS = frozenset({Signal.DEAD, Signal.AUTH})

_SIDE_TICKET = Ticket(url="", host="", exit="side")
