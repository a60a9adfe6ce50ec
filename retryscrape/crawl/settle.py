"""One attempt is over: tell exits and hosts, ask the policy, record, carry out.

Both middlewares and the spider's errback come here, so that every way an attempt
can end is settled by the same few lines. No rule lives here.
"""

from __future__ import annotations

import logging

from msgspec import Struct
from msgspec.structs import replace
from scrapy import Request
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Response

from retryscrape.crawl.faults import NotYet
from retryscrape.crawl.keys import (
    BOUGHT,
    NO_CACHE,
    TICKET,
    Purchase,
    clear_attempt,
    host_of,
    ticket_of,
)
from retryscrape.crawl.runtime import Run
from retryscrape.crawl.spending import OverBudget, OverUrlBudget, too_dear, unpaid
from retryscrape.crawl.wishes import ladder_of, limits_of, refused_retry, retries_of
from retryscrape.ledger.records import AttemptRecord, Result
from retryscrape.ledger.times import iso
from retryscrape.policy import retry_after
from retryscrape.policy.attribution import attribute
from retryscrape.policy.decide import Action, Decision, Scene, decide, done
from retryscrape.policy.outcomes import At, ErrorClass, Outcome, Status, Verdict
from retryscrape.policy.redact import mask_url
from retryscrape.policy.ticket import Past, Ticket

logger = logging.getLogger("retryscrape")


class Settled(Struct, frozen=True):
    """The end of a URL in this pass: nothing more will be asked."""

    ticket: Ticket
    verdict: Verdict
    decision: Decision
    result: Result
    at: str


class GaveUp(IgnoreRequest):
    """Carries a failure that is settled to the spider's errback."""

    def __init__(self, settled: Settled, response: Response | None = None) -> None:
        super().__init__(f"{settled.decision.outcome}: {settled.decision.rule}")
        self.settled = settled
        self.response = response


class Settler:
    """Settles attempts of one run."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.retries = retries_of(run.crawler.settings)

    def settle(
        self, request: Request, verdict: Verdict, *, size: int = 0, final_url: str | None = None
    ) -> Request | Settled:
        """The next request of the URL, or its end."""
        run, ticket = self.run, ticket_of(request)
        assert ticket is not None
        now = run.clock()
        verdict = attribute(verdict, ticket)
        pauses = self._tell(ticket, verdict, now, size)
        left = ticket.started > 0
        bought: Purchase | None = request.meta.get(BOUGHT)
        after = self._aged(ticket, verdict, size, pauses.own, bought) if left else ticket
        if left:
            exit_ = run.blame.exit_of(ticket)
            run.spending.settle(ticket, after.history[-1].cost, exit_, ticket.bytes + size)
        if verdict.outcome is Outcome.OK:
            decision = done(after.rung)
        else:
            decision = decide(self._scene(request, after, verdict, now, pauses))
        if decision.action is Action.RETRY:
            why = refused_retry(request, after, self.retries)
            decision = replace(decision, action=Action.FAIL, rule=why) if why else decision
        if left:
            self._record(ticket, after, verdict, decision, now, size, bought)
            over = run.spending.over()
            if over:
                run.stop("over_budget", over)
            run.parking.watch_share(ticket.host, verdict.outcome, now)
        run.counted(verdict.outcome, decision)
        run.parking.park_if_paused(host_of(request), now)
        if decision.action is Action.RETRY:
            return self._next(request, after, decision)
        result = self._result(after, verdict, decision, now, final_url)
        if decision.counts_block:
            result = run.parking.blocked_for_good(result, now)
            run.parking.park_if_paused(host_of(request), now)
        return Settled(after, verdict, decision, result, iso(now))

    def without_browser(self, request: Request, why: str) -> Request | Settled:
        """The browser cannot be had: what the rung below brought is what there is."""
        ticket = ticket_of(request)
        assert ticket is not None
        self.run.rendering.lost(why)
        self.run.spending.settle(ticket, 0.0, None, 0)
        ticket = ticket.but(reserved=0.0)
        rung = self.run.rungs.ladder.lower(ticket.rung) or self.run.rungs.ladder.rungs[0]
        last = ticket.history[-1] if ticket.history else None
        if last is None:
            decision = Decision(
                action=Action.RETRY, outcome=Outcome.NO_RESULT, rule="no browser", rung=rung
            )
            return self._next(request, ticket, decision)
        request.meta[TICKET] = ticket.but(rung=last.rung, started=0.0, exit=None)
        verdict = Verdict(
            outcome=last.outcome,
            http_code=last.http_code,
            vendor=last.vendor,
            kind=last.kind,
            reason=last.reason,
            html=last.html,
        )
        return self.settle(request, verdict)

    def not_yet(self, request: Request, wait: NotYet) -> Request:
        """No attempt was made: the same request, later, with its money given back."""
        ticket = ticket_of(request)
        assert ticket is not None
        self.run.spending.settle(ticket, 0.0, None, 0)
        decision = Decision(
            action=Action.RETRY,
            outcome=Outcome.NO_RESULT,
            rule=wait.why,
            rung=ticket.rung,
            identity=ticket.identity,
            not_before=wait.until,
        )
        return self._next(request, ticket, decision)

    def over_budget(self, request: Request, error: OverBudget) -> Settled:
        """There is no money for this attempt: it does not leave, and the URL ends here."""
        ticket = ticket_of(request)
        assert ticket is not None
        run, now, why = self.run, self.run.clock(), str(error)
        verdict = Verdict(outcome=Outcome.OVER_BUDGET, reason=why)
        decision = decide(self._scene(request, ticket, verdict, now, Pauses()))
        result = run.parking.parked(ticket, 0.0, why, now)
        if isinstance(error, OverUrlBudget):
            row = too_dear(result, ticket, why)
            return Settled(ticket, verdict, decision, row, iso(now))
        over = run.spending.over()
        if over:
            run.stop("over_budget", over)
        return Settled(ticket, verdict, decision, unpaid(result, why), iso(now))

    # --- the world is told -----------------------------------------------------

    def _tell(self, ticket: Ticket, verdict: Verdict, now: float, size: int) -> Pauses:
        run, host = self.run, ticket.host
        if ticket.started:
            run.blame.done(ticket, verdict, now, size)
        if verdict.outcome is Outcome.OK:
            run.rungs.learner.success(host, ticket.rung, now, started=ticket.start_rung)
        if verdict.http_code and verdict.at is At.TARGET:
            run.hosts.answered(host, now, good=verdict.outcome in _ANSWERS)
        elif verdict.outcome is Outcome.NETWORK_ERROR and verdict.reason in _HOST_FAULTS:
            paused = run.hosts.fault(host, ticket.url, ticket.exit, now, started=ticket.started)
            if paused is not None:
                return Pauses(until=paused.until, host_paused=True)
        return self._asked_to_wait(ticket, verdict, now)

    def _asked_to_wait(self, ticket: Ticket, verdict: Verdict, now: float) -> Pauses:
        """What the answer asked for, and what it does to the host (or the exit on it)."""
        run, host = self.run, ticket.host
        wait = None
        if verdict.retry_after:
            wait = retry_after.parse(verdict.retry_after, date=verdict.date, now=now)
        throttled = verdict.outcome is Outcome.THROTTLED
        if not throttled and not (verdict.outcome is Outcome.BLOCKED and wait):
            pause = run.hosts.pause_of(host, now)
            return Pauses(until=pause.until if pause else 0.0)
        before = run.hosts.pause_of(host, now)
        owed = now + wait if wait else 0.0
        if run.config.throttle_scope == "exit" and ticket.exit and run.pool is not None:
            until = now + min(wait or run.config.throttle_base, run.config.retry_after_cap)
            run.pool.pause(ticket.exit, host, until)
            alone = run.pool.unused(host, ticket.exits_used, now) == 0
            return Pauses(until=until if alone else 0.0, owed=owed if alone else 0.0, own=True)
        until = run.hosts.throttled(host, now, wait, started=ticket.started)
        own = before is None
        if own:
            said = f"Retry-After: {verdict.retry_after[0]}" if wait else "our own backoff"
            logger.info(
                "%s: waiting %.1f s (%s, %s)", host, until - now, verdict.http_code, said[:80]
            )
        return Pauses(until=until, owed=owed, own=own)

    # --- the decision's view ---------------------------------------------------

    def _aged(
        self,
        ticket: Ticket,
        verdict: Verdict,
        size: int,
        own_wait: bool,
        bought: Purchase | None,
    ) -> Ticket:
        lost = verdict.outcome is Outcome.PROXY_ERROR
        counts = not lost and not self.run.blame.suspects(ticket, verdict)
        # a fault that the exit is to blame for costs what its own faults cost: nothing
        free = lost or (not counts and verdict.outcome is not Outcome.BLOCKED)
        if bought is not None:
            cost = bought.cost
        elif free:
            cost = 0.0
        else:
            exit_ = self.run.blame.exit_of(ticket)
            cost = self.run.spending.price(ticket.rung, exit_, ticket.bytes + size)
        past = Past(
            rung=ticket.rung,
            exit=ticket.exit,
            outcome=verdict.outcome,
            http_code=verdict.http_code,
            kind=verdict.kind,
            vendor=verdict.vendor,
            reason=verdict.reason,
            cost=cost,
            waited=max(0.0, ticket.started - ticket.released) if ticket.released else 0.0,
            html=verdict.html,
            own_wait=own_wait,
            counts=counts,
        )
        return ticket.but(
            history=(*self.run.blame.in_hindsight(ticket), past),
            total_bytes=ticket.total_bytes + ticket.bytes + size,
        )

    def _scene(
        self, request: Request, ticket: Ticket, verdict: Verdict, now: float, pauses: Pauses
    ) -> Scene:
        run = self.run
        ladder = ladder_of(run.rungs.ladder, request)
        higher = ladder.next(ticket.rung) if request.method == "GET" else None
        next_rung = higher if higher and ladder.usable(higher) else None
        bought_rung = None if verdict.html or not higher else ladder.next_of(ticket.rung, "api")
        return Scene(
            ticket=ticket,
            verdict=verdict,
            limits=limits_of(run.limits, request),
            now=now,
            rng=run.rng,
            next_rung=next_rung,
            bought_rung=bought_rung,
            render_unavailable=next_rung is None and not ladder.last(ticket.rung),
            exits=None if ticket.rung.startswith("api") else run.blame.unused(ticket, now),
            no_exit=run.pool.all_exhausted() if run.pool is not None else None,
            pause_until=pauses.until,
            owed_until=pauses.owed,
            host_down=run.hosts.gave_up(ticket.host),
            free_retry=pauses.host_paused or run.blame.costs_nothing(ticket, verdict),
            spend=run.retry_budget.try_spend,
            price={
                rung: run.config.price(rung)
                for rung in (ticket.rung, next_rung, bought_rung)
                if rung
            },
            run_over=run.spending.over(),
        )

    # --- what comes out --------------------------------------------------------

    def _next(self, request: Request, ticket: Ticket, decision: Decision) -> Request:
        self.run.rungs.learner.goes_on(ticket.host, ticket.rung, decision.rung)
        retry = request.copy()
        clear_attempt(retry)
        if ticket.batch and retry.url != ticket.request_url:
            # a redirect's hops belong to the attempt: the next one begins at the start
            retry.headers.pop(b"Referer", None)
            retry = retry.replace(url=ticket.request_url)
        retry.dont_filter = True
        retry.priority = request.priority
        # a cache would give the same bad page again
        retry.meta.setdefault("dont_cache", NO_CACHE)
        retry.meta[TICKET] = ticket.but(
            rung=decision.rung,
            not_before=decision.not_before,
            identity=decision.identity,
            fresh_connection=True,
            exit=None,
            started=0.0,
            released=self.run.clock(),
            hops=0,
            bytes=0,
            reserved=0.0,
        )
        return retry

    def _record(
        self,
        ticket: Ticket,
        after: Ticket,
        verdict: Verdict,
        decision: Decision,
        now: float,
        size: int,
        bought: Purchase | None,
    ) -> None:
        batch = ticket.batch or self.run.record
        if not batch:
            return
        past = after.history[-1]
        self.run.attempted(
            AttemptRecord(
                batch_id=batch,
                url=ticket.url,
                n=ticket.prior_attempts + after.attempts,
                started_at=iso(ticket.started),
                elapsed=round(now - ticket.started, 4),
                rung=ticket.rung,
                exit=ticket.exit,
                http_code=verdict.http_code,
                outcome=verdict.outcome,
                vendor=verdict.vendor,
                kind=verdict.kind,
                evidence=verdict.evidence,
                reason=verdict.reason,
                decision=decision.words,
                waited=round(past.waited, 3),
                bytes=ticket.bytes + size,
                cost=past.cost,
                job_id=self.run.job_id,
                mode=bought.mode if bought else None,
                task=bought.task if bought else None,
            )
        )

    def _result(
        self,
        ticket: Ticket,
        verdict: Verdict,
        decision: Decision,
        now: float,
        final_url: str | None,
    ) -> Result:
        good = decision.action is Action.DONE
        permanent = decision.error_class is ErrorClass.PERMANENT
        return Result(
            batch_id=ticket.batch or self.run.record or "",
            url=ticket.url,
            line=ticket.line,
            host=ticket.host,
            status=Status.SUCCESS if good else Status.FAILED,
            outcome=decision.outcome,
            error_class=None if good else decision.error_class,
            http_code=verdict.http_code,
            vendor=verdict.vendor,
            kind=verdict.kind,
            reason=None if good else decision.reason,
            attempts=ticket.prior_attempts + ticket.attempts,
            passes=ticket.prior_passes + 1,
            cost=ticket.prior_cost + ticket.cost,
            bytes=ticket.prior_bytes + ticket.total_bytes,
            rung=decision.rung,
            escalate=decision.escalate and not good and not permanent,
            not_before=decision.not_before or None,
            last_error_at=None if good else iso(now),
            final_url=mask_url(final_url) if final_url else None,
            job_id=self.run.job_id,
            fields=ticket.fields,
        )


class Pauses(Struct, frozen=True):
    """Until when the host may not be asked, what the answer asked for (epoch seconds),
    and whether this URL caused the wait."""

    until: float = 0.0
    owed: float = 0.0
    own: bool = False
    #: the host itself is down: its URLs' retries spend no budget
    host_paused: bool = False


_ANSWERS = frozenset({Outcome.OK, Outcome.GONE})
#: Faults that may mean that the host is down; an error page is an answer.
_HOST_FAULTS = frozenset({"dns", "connect", "reset", "timeout", "tls"})
