"""Carries out the choice of exits on requests: proxy, credentials, cookies, timeout.

The choice itself is ``policy.exits``. One function sets up an attempt, so that
nothing of the last one can reach the next.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable

from scrapy import Request

from retryscrape.crawl.faults import At, FetchError
from retryscrape.crawl.keys import (
    NO_FOLLOW,
    OWN_JAR,
    OWN_PROXY,
    SESSION,
    SIDE,
    TICKET,
    clear_attempt,
    host_of,
    ticket_of,
)
from retryscrape.crawl.runtime import Run
from retryscrape.crawl.spending import LOOK_AGAIN
from retryscrape.crawl.wishes import limits_of
from retryscrape.policy.exits import Exit, Pool, Signal
from retryscrape.policy.ladder import parse_rung
from retryscrape.policy.ticket import Ticket

#: Shortest wait before asking again for an exit when none is free for a host.
EXIT_WAIT = 0.1
#: And the longest: exits that cool down come back, or the run ends with a sentence.
NO_EXIT_WAIT = 10.0


class ExitChooser:
    """Sets requests up for one run's pool of exits."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.timeout = run.crawler.settings.getfloat("DOWNLOAD_TIMEOUT")

    def begin(self, request: Request, ticket: Ticket) -> Request | None:
        """A new attempt: another exit if there is one. A request to be scheduled again
        if no exit is free now. Raises OverBudget if the URL or the run cannot pay."""
        now = self.run.clock()
        clear_attempt(request)
        exit_ = None
        usable = self.run.rungs.nearest(ticket.rung)
        if usable != ticket.rung:
            ticket = ticket.but(rung=usable)
        bought = ticket.rung.startswith("api")
        if self.run.pool is not None and OWN_PROXY not in request.meta and not bought:
            rung = parse_rung(ticket.rung)
            exit_ = self.run.pool.choose(
                ticket.host,
                now,
                used=self._used(self.run.pool, ticket, now),
                tier=rung.tier,
                country=rung.country,
            )
            if exit_ is None:
                return self._later(request, ticket, now)
        price = self.run.spending.price(ticket.rung, exit_)
        limits = limits_of(self.run.limits, request)
        self.run.spending.check_url(ticket, price, limits.url_budget)
        if not self.run.spending.reserve(price):
            return self._again(request, ticket, now + LOOK_AGAIN)
        if ticket.attempts == 0 and ticket.prior_passes == 0:
            self.run.retry_budget.first()
        ticket = ticket.but(exit=exit_.id if exit_ else None, started=now, reserved=price)
        request.meta[TICKET] = ticket
        if bought or ticket.rung.startswith("browser"):
            # they follow redirects themselves: what they end on is the answer
            request.meta.setdefault("dont_redirect", NO_FOLLOW)
        else:
            agent = self.run.rendering.agents.get((ticket.exit, ticket.host))
            if agent:
                request.headers[b"User-Agent"] = agent
        self._leave_by(request, exit_, ticket.host, now)
        if ticket.identity:
            request.headers[b"Accept-Encoding"] = b"identity"
        return None

    @staticmethod
    def _used(pool: Pool, ticket: Ticket, now: float) -> frozenset[str]:
        """Exits that the URL has left through: in all passes while there is another one,
        else in this pass."""
        if ticket.avoid:
            ever = ticket.exits_used | ticket.avoid
            if pool.unused(ticket.host, ever, now):
                return ever
        return ticket.exits_used

    def hop(self, request: Request, ticket: Ticket) -> None:
        """A redirect's next hop belongs to the attempt under way: the same exit."""
        request.meta[TICKET] = ticket.but(hops=ticket.hops + 1)
        exit_ = self.run.pool.get(ticket.exit) if self.run.pool and ticket.exit else None
        if exit_ is not None:
            self._set_proxy(request, exit_)

    def side(self, request: Request) -> bool:
        """robots.txt and the like: an exit that this request has not used yet. False if none
        is free now. Raises FetchError if there will be none."""
        if self.run.pool is None:
            return True
        used: Iterable[str] = request.meta.get(SIDE, ())
        now, host = self.run.clock(), host_of(request)
        exit_ = self.run.pool.choose(host, now, used=tuple(used))
        if exit_ is None:
            why = self.run.pool.all_exhausted() or self.run.stop_reason
            if why is None and self.run.signalled is None:
                return False
            request.meta.pop(SIDE, None)  # it never left: no exit is to hear of it
            raise FetchError("unavailable", At.PROXY, detail=why or "the run stops")
        request.meta[SIDE] = (*used, exit_.id)
        self._leave_by(request, exit_, host, now)
        return True

    def overruled(self, request: Request) -> None:
        """All middlewares have had their say. Where one of the project's own has set another
        proxy, it wins, and what comes says nothing of our exit; none at all it cannot choose."""
        ticket, pool = ticket_of(request), self.run.pool
        used = (
            ticket.exit if ticket is not None else next(iter(request.meta.get(SIDE, ())[-1:]), "")
        )
        exit_ = pool.get(used) if pool is not None and used else None
        theirs = request.meta.get("proxy")
        if pool is None or exit_ is None or theirs == exit_.proxy_url:
            return
        if self.run.their_browser.renders(request) or not theirs:
            self._set_proxy(request, exit_)
            return
        if request.headers.get(b"Proxy-Authorization") == exit_.authorization():
            request.headers.pop(b"Proxy-Authorization", None)
        pool.done(exit_.id, host_of(request), self.run.clock(), Signal.NEUTRAL)
        if ticket is not None:
            request.meta[TICKET] = ticket.but(exit=None)
        else:
            del request.meta[SIDE]

    def _later(self, request: Request, ticket: Ticket, now: float) -> Request:
        assert self.run.pool is not None
        sentence = self.run.pool.all_exhausted()
        if sentence is None and not self.run.rungs.ladder.usable(ticket.rung):
            sentence = self.run.rungs.lost.get(ticket.rung)
        if sentence:
            raise FetchError("no exit is left", At.PROXY, detail=sentence)
        rung = parse_rung(ticket.rung)
        free = self.run.pool.due(ticket.host, now, tier=rung.tier, country=rung.country)
        due = max(now + EXIT_WAIT, min(free, now + NO_EXIT_WAIT))
        return self._again(request, ticket, due)

    @staticmethod
    def _again(request: Request, ticket: Ticket, due: float) -> Request:
        again = request.copy()
        again.dont_filter = True
        again.meta[TICKET] = ticket.but(not_before=due)
        return again

    def _leave_by(self, request: Request, exit_: Exit | None, host: str, now: float) -> None:
        if exit_ is None:
            return
        assert self.run.pool is not None
        self._set_proxy(request, exit_)
        self.run.pool.sent(exit_.id, host, now)
        # cookies belong to an exit; a user's own jar is kept apart within it
        own = request.meta.setdefault(OWN_JAR, request.meta.get("cookiejar"))
        request.meta["cookiejar"] = exit_.id if own is None else f"{exit_.id} {own}"
        if self.timeout:
            learned = self.run.pool.timeout(exit_.id, host, self.timeout)
            request.meta["download_timeout"] = learned

    def _session(self, request: Request, exit_: Exit) -> str:
        """A fresh token for ``{session}``: one an attempt, or one a URL (``sticky=url``)."""
        ticket = request.meta.get(TICKET)
        if exit_.sticky == "url" and ticket is not None:
            request.meta[SESSION] = hashlib.sha256(
                ticket.url.encode("utf-8", "replace")
            ).hexdigest()[:12]
        token: str = request.meta.setdefault(SESSION, secrets.token_hex(6))
        return token

    def _set_proxy(self, request: Request, exit_: Exit) -> None:
        """Server and credentials apart: HttpProxyMiddleware would decode them as latin-1,
        and ``user@host`` crashes it on every request (field_cases C5)."""
        request.meta["proxy"] = exit_.proxy_url
        if self.run.their_browser.renders(request):
            # a header with the proxy's password would reach the target
            self.run.their_browser.leave_by(request, exit_)
            return
        if exit_.session:
            exit_ = exit_.with_session(self._session(request, exit_))
        authorization = exit_.authorization()
        request.headers.pop(b"Proxy-Authorization", None)
        if authorization:
            request.headers[b"Proxy-Authorization"] = authorization
