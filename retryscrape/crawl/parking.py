"""Hosts that are left alone for long, and the rows of their URLs meanwhile.

When a host is paused is the policy's (hosts.py, shares.py); here its requests are taken out
of the scheduler and their rows left to a re-drive.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING

from msgspec.structs import replace
from scrapy import Request

from retryscrape.crawl.keys import host_of, ticket_of
from retryscrape.crawl.spending import unpaid
from retryscrape.crawl.wishes import limits_of
from retryscrape.ledger.records import Result
from retryscrape.ledger.times import iso
from retryscrape.policy.hosts import Pause
from retryscrape.policy.outcomes import ErrorClass, Outcome, Status
from retryscrape.policy.ticket import Ticket

if TYPE_CHECKING:
    from retryscrape.crawl.runtime import Run

logger = logging.getLogger("retryscrape")


class Parking:
    """One run's parked URLs, and those whose blocks may lead to a pause."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self._blocked: dict[str, deque[Result]] = {}

    def blocked_for_good(self, result: Result, now: float) -> Result:
        """A URL ended blocked on the last rung; three in a row pause their host, and stay
        retryable with the pause's end as ``not_before``."""
        host = result.host
        if self.run.hosts.blocks(host) == 0:
            self._blocked.pop(host, None)
        recent = self._blocked.setdefault(host, deque(maxlen=self.run.config.host_blocks))
        pause = self.run.hosts.blocked(host, now)
        if pause is None:
            recent.append(result)
            return result
        logger.info(
            "%s: paused for %.0f s, %d URLs in a row were blocked",
            host,
            pause.until - now,
            self.run.config.host_blocks,
        )

        def kept(row: Result) -> Result:
            return replace(
                row,
                error_class=ErrorClass.RETRYABLE,
                not_before=pause.until,
                escalate=True,
                last_error_at=iso(now),
            )

        for earlier in self._blocked.pop(host, ()):
            self.run.note(kept(earlier))
        return kept(result)

    def park_if_paused(self, host: str, now: float) -> None:
        """Park all of a host's requests if its pause is too long to wait for."""
        pause = self.long_pause(host, now, self.run.config.max_wait)
        if pause is None or self.run.scheduler is None:
            return
        requests = self.run.scheduler.drain(host)
        for request in requests:
            ticket = ticket_of(request)
            if ticket is not None and ticket.batch:
                self.run.note(self.parked(ticket, pause.until, pause.reason, now))
            else:
                self.run.scheduler.turn_away(request)
        if requests:
            logger.info("%s: %d URLs parked (%s)", host, len(requests), pause.reason)

    def long_pause(self, host: str, now: float, most: float) -> Pause | None:
        """The host's pause, if it lasts for longer than ``most`` seconds."""
        pause = self.run.hosts.pause_of(host, now)
        return pause if pause is not None and pause.until - now > most else None

    def put_off(self, host: str, ticket: Ticket) -> bool:
        """Leave a URL to a re-drive if its host is paused for too long. Also one that comes
        after the others were parked: a retry that was decided just before, a redirect."""
        now = self.run.clock()
        pause = self.long_pause(host, now, self.run.config.max_wait)
        if pause is None:
            return False
        self.run.note(self.parked(ticket, pause.until, pause.reason, now))
        return True

    def watch_share(self, host: str, outcome: Outcome, now: float) -> None:
        """Percent stops: an attempt counts for the run and for its host."""
        stop, pause = self.run.shares.add(host, outcome)
        if stop:
            self.run.stop("stop_rule", stop)
        elif pause:
            until = self.run.hosts.keep_away(host, now + self.run.config.host_pause, pause).until
            logger.info("%s: paused for %.0f s, %s", host, until - now, pause)

    def too_long(self, request: Request) -> str | None:
        """Why a request without a row is not waited for; None if it is, or need not wait."""
        now, most = self.run.clock(), limits_of(self.run.limits, request).max_wait
        pause = self.long_pause(host_of(request), now, most)
        if pause is None:
            return None
        return f"its host is paused for {pause.until - now:.0f} s ({pause.reason})"

    def parked(self, ticket: Ticket, until: float, reason: str, now: float) -> Result:
        """The row of a URL that is left to a re-drive: pending if it was not asked at all."""
        last = ticket.history[-1] if ticket.history else None
        return Result(
            batch_id=ticket.batch,
            url=ticket.url,
            line=ticket.line,
            host=ticket.host,
            status=Status.FAILED if last else Status.PENDING,
            outcome=last.outcome if last else None,
            error_class=ErrorClass.RETRYABLE if last else None,
            http_code=last.http_code if last else None,
            vendor=last.vendor if last else None,
            kind=last.kind if last else None,
            reason=(last.reason if last else None) or f"parked: {reason}",
            attempts=ticket.prior_attempts + ticket.attempts,
            passes=ticket.prior_passes + (1 if last else 0),
            cost=ticket.prior_cost + ticket.cost,
            bytes=ticket.prior_bytes + ticket.total_bytes,
            rung=ticket.rung if last else None,
            escalate=ticket.escalate,
            not_before=until,
            last_error_at=iso(now) if last else None,
            job_id=self.run.job_id,
            fields=ticket.fields,
        )

    def left_unpaid(self, ticket: Ticket) -> None:
        """The row of a request that waited when the run's budget was spent."""
        self.run.note(
            unpaid(self.parked(ticket, 0.0, "", self.run.clock()), self.run.stop_reason or "")
        )
