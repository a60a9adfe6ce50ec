"""Whose fault it was: the exit's, the target's, or not to be known.

By the tables of probes.md (C): what is told by the proxy itself is the proxy's;
through a proxy a reset, a timeout, a 502, a 504 or a 503 without Retry-After is of
unknown origin. A tunnel that is refused with a 5xx may be either, and is decided by
comparing: a second exit that says the same makes it the target's.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from retryscrape.policy.exits import Signal
from retryscrape.policy.outcomes import At, Outcome, Verdict
from retryscrape.policy.ticket import Past, Ticket

#: The proxy rejects its credentials.
AUTH_VERDICT = Verdict(
    outcome=Outcome.PROXY_ERROR, http_code=407, reason="proxy: 407", at=At.PROXY, proxy_status=407
)
_TUNNEL = "proxy: tunnel"
_DOUBTFUL_CODES = frozenset({502, 503, 504})
_DOUBTFUL_REASONS = frozenset({"reset", "timeout", "render_timeout"})
_HONEST = frozenset(
    {Outcome.OK, Outcome.GONE, Outcome.REFUSED, Outcome.EMPTY, Outcome.INVALID, Outcome.THROTTLED}
)


def attribute(verdict: Verdict, ticket: Ticket) -> Verdict:
    """The verdict with the blame where it belongs; unchanged without an exit."""
    if ticket.exit is None:
        return verdict
    if verdict.http_code == 407 and verdict.outcome is Outcome.REFUSED:
        return replace(
            verdict, outcome=Outcome.PROXY_ERROR, reason="proxy: 407", at=At.PROXY, proxy_status=407
        )
    if verdict.outcome is not Outcome.PROXY_ERROR or not _server_error(verdict.proxy_status):
        return verdict
    others = {p.exit for p in ticket.history if (p.reason or "").startswith(_TUNNEL)}
    if others - {ticket.exit}:
        return replace(
            verdict, outcome=Outcome.NETWORK_ERROR, reason="connect", at=At.TARGET, http_code=None
        )
    return replace(verdict, reason=f"{_TUNNEL} {verdict.proxy_status}", at=At.UNKNOWN)


def doubtful(verdict: Verdict, ticket: Ticket) -> bool:
    """Whether the fault may be the exit's or the target's (only through a proxy)."""
    if ticket.exit is None:
        return False
    if verdict.outcome is Outcome.TARGET_ERROR:
        return verdict.http_code in _DOUBTFUL_CODES
    return verdict.outcome is Outcome.NETWORK_ERROR and (
        verdict.at is At.UNKNOWN or verdict.reason in _DOUBTFUL_REASONS
    )


def in_hindsight(history: tuple[Past, ...], suspect: Callable[[str], bool]) -> tuple[Past, ...]:
    """The attempts as they look now: a block counts no more once its exit (``suspect``) is
    the likelier culprit, which often shows only after the answers of others."""
    return tuple(
        past._replace(counts=False)
        if past.counts and past.outcome is Outcome.BLOCKED and past.exit and suspect(past.exit)
        else past
        for past in history
    )


def shown_twice(ticket: Ticket) -> bool:
    """Whether this URL has met a fault through an exit other than the present one."""
    return any(
        past.outcome in (Outcome.NETWORK_ERROR, Outcome.TARGET_ERROR) and past.exit != ticket.exit
        for past in ticket.history
    )


def signal_for(verdict: Verdict, ticket: Ticket) -> Signal:
    """What the attempt says of the exit it left through."""
    if verdict.proxy_status == 407:
        return Signal.AUTH
    if verdict.outcome is Outcome.PROXY_ERROR:
        if verdict.proxy_status is None:
            return Signal.DEAD
        return Signal.UNSURE if _server_error(verdict.proxy_status) else Signal.BLOCK
    if verdict.outcome is Outcome.BLOCKED:
        return Signal.BLOCK
    if verdict.outcome in _HONEST:
        return Signal.GOOD
    if verdict.outcome is Outcome.NO_RESULT:
        return Signal.NEUTRAL
    if doubtful(verdict, ticket):
        return Signal.UNSURE
    return Signal.GOOD if verdict.http_code else Signal.NEUTRAL


def side_verdict(status: int) -> Verdict | None:
    """What the status of robots.txt and the like says of the exit; None: it works.

    No page is looked at there, so that a proxy's own error page must not prove the proxy.
    """
    if status == 407:
        return AUTH_VERDICT
    if _server_error(status):
        return Verdict(outcome=Outcome.TARGET_ERROR, http_code=status)
    known = status < 400 or status in (404, 410)
    return None if known else Verdict(outcome=Outcome.NO_RESULT, http_code=status)


def _server_error(status: int | None) -> bool:
    return status is not None and 500 <= status <= 599
