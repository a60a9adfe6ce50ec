"""What an attempt says of its exit: told to the pool, and asked of it.

Whose fault a fault is is the policy's to say (attribution.py, exits.py).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from scrapy import Request

from retryscrape.crawl.keys import SIDE, host_of
from retryscrape.policy.attribution import doubtful, in_hindsight, shown_twice, signal_for
from retryscrape.policy.exits import Exit, Signal
from retryscrape.policy.ladder import parse_rung
from retryscrape.policy.outcomes import Outcome, Verdict
from retryscrape.policy.ticket import Past, Ticket

if TYPE_CHECKING:
    from retryscrape.crawl.runtime import Run

logger = logging.getLogger("retryscrape")

#: What an exit's own fault looks like to the pool: a rung may have lost its last one.
_EXIT_FAULTS = frozenset({Signal.DEAD, Signal.AUTH})

#: Exits whose rejected credentials are said one by one; the summary counts them all.
_SAID = 5

_SIDE_TICKET = Ticket(url="", host="", exit="side")


class Blame:
    """One run's exits, as its attempts know them; without proxies there is nobody to blame."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._out: set[str] = set()

    def unused(self, ticket: Ticket, now: float) -> int | None:
        """How many usable exits the URL has not tried; None without proxies."""
        pool = self._run.pool
        if pool is None:
            return None
        rung = parse_rung(ticket.rung)
        return pool.unused(
            ticket.host, ticket.exits_used, now, tier=rung.tier, country=rung.country
        )

    def done(self, ticket: Ticket, verdict: Verdict, now: float, size: int) -> None:
        """Tell the pool what an attempt says of its exit; stop if none is left."""
        run, pool = self._run, self._run.pool
        if pool is None or ticket.exit is None:
            return
        elapsed = now - ticket.started
        signal = signal_for(verdict, ticket)
        size += ticket.bytes
        self._answered(pool.done(ticket.exit, ticket.host, now, signal, elapsed, size))
        self._say_if_out(ticket.exit, signal)
        sentence = pool.all_exhausted()
        if sentence:
            run.stop("no_exit", sentence)
        elif signal in _EXIT_FAULTS and len(run.rungs.names) > 1:
            run.rungs.look(pool, now)

    def exit_of(self, ticket: Ticket) -> Exit | None:
        """The exit of the attempt under way; None without one."""
        pool = self._run.pool
        return pool.get(ticket.exit) if pool is not None and ticket.exit else None

    def side_done(self, request: Request, verdict: Verdict | None) -> None:
        """A request without a ticket (robots.txt) counts for its exit's health."""
        pool, used = self._run.pool, request.meta.get(SIDE)
        if pool is None or not used:
            return
        signal = Signal.GOOD if verdict is None else signal_for(verdict, _SIDE_TICKET)
        self._answered(pool.done(used[-1], host_of(request), self._run.clock(), signal, None))
        self._say_if_out(used[-1], signal)

    def _say_if_out(self, exit_id: str, signal: Signal) -> None:
        """One line for an exit that is out: what to do about it is in the proxies file."""
        if signal is not Signal.AUTH or exit_id in self._out:
            return
        if self._run.pool is None or not self._run.pool.rejected(exit_id):
            return
        self._out.add(exit_id)
        if len(self._out) <= _SAID:
            logger.warning(
                "Proxy %s rejects its user name and password (407): not used in this run", exit_id
            )

    def _answered(self, first: bool) -> None:
        """An exit works: all hosts whose requests waited to hear of one may go on, at once, and
        not only the host that heard it."""
        if first and self._run.scheduler is not None:
            self._run.scheduler.wake()

    def suspects(self, ticket: Ticket, verdict: Verdict) -> bool:
        """Whether the exit is the likelier culprit, so that no attempt is used up."""
        pool = self._run.pool
        if pool is None or ticket.exit is None:
            return False
        if doubtful(verdict, ticket):
            return pool.suspect(ticket.exit, ticket.host) or pool.unproven(ticket.exit)
        blocked = verdict.outcome is Outcome.BLOCKED
        return blocked and pool.suspect(ticket.exit, ticket.host)

    def in_hindsight(self, ticket: Ticket) -> tuple[Past, ...]:
        """The URL's earlier attempts, as what was learned of their exits since shows them."""
        pool = self._run.pool
        if pool is None or not ticket.history:
            return ticket.history
        return in_hindsight(ticket.history, lambda one: pool.suspect(one, ticket.host))

    def costs_nothing(self, ticket: Ticket, verdict: Verdict) -> bool:
        """A fault of unknown origin spends no retry budget until a second exit shows it."""
        return doubtful(verdict, ticket) and not shown_twice(ticket)
