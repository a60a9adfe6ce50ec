"""What happens next: one verdict and one ticket in, one decision out.

One function an outcome, in a table. Everything that depends on the world
(pauses, exits, budgets, the time) comes in as a value of :class:`Scene`; nothing
here changes anything. DESIGN.md section 5 is the source of every rule.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import lru_cache

from msgspec import Struct, field
from msgspec.structs import replace

from retryscrape.policy.backoff import Backoff
from retryscrape.policy.budget import fits
from retryscrape.policy.outcomes import ERROR_CLASS, ErrorClass, Kind, Outcome, Verdict
from retryscrape.policy.ticket import Ticket

#: Attempts that may be lost to exits, per URL and pass (DESIGN.md section 5).
LOST_TO_EXITS = 10
#: Waits that a URL may cause in a run before it is parked.
OWN_WAITS = 2
#: 429s in all before it is parked: those in flight when another URL's pause began
#: cause no wait of their own, and must not go on for ever.
THROTTLED = 5
#: A name that does not resolve is asked for once more, not until the attempts are used up.
DNS_TRIES = 2
#: A body that cannot be decoded is asked for once more, without compression.
DECODE_TRIES = 2
#: A scraping API's own failures, per URL and pass: each of them may cost money.
API_TRIES = 3


class Action(StrEnum):
    """What the shell is to do."""

    DONE = "done"
    RETRY = "retry"
    FAIL = "fail"
    PARK = "park"


class Limits(Struct, frozen=True, kw_only=True):
    """The settings that decisions depend on."""

    attempts: int = 3
    url_budget: float = 12.0
    max_wait: float = 300.0
    backoff: Backoff = field(default_factory=Backoff)


class Scene(Struct, frozen=True, kw_only=True):
    """All that a decision may look at.

    ``ticket.history`` ends with the attempt that ``verdict`` is about.
    ``exits`` is how many usable exits the URL has not tried, None without
    proxies. ``bought_rung`` is the next rung that is a scraping API, which can help where a
    browser cannot. ``pause_until`` and ``owed_until`` are epoch seconds: when the host
    may be asked again, and what the answer asked for. ``spend`` takes one retry
    from the budget and says whether it was there. ``price`` maps the rungs that
    may come next to price units; ``run_over`` is the sentence if the run may spend no more.
    """

    ticket: Ticket
    verdict: Verdict
    limits: Limits
    now: float
    rng: random.Random
    next_rung: str | None = None
    bought_rung: str | None = None
    render_unavailable: bool = False
    exits: int | None = None
    no_exit: str | None = None
    pause_until: float = 0.0
    owed_until: float = 0.0
    host_down: bool = False
    free_retry: bool = False
    spend: Callable[[], bool] = lambda: True
    price: Mapping[str, float] | None = None
    run_over: str | None = None

    @property
    def last(self) -> bool:
        """Whether no higher rung can be tried."""
        return self.next_rung is None


class Decision(Struct, frozen=True, kw_only=True):
    """``rule`` says in words why; ``not_before`` is an epoch second or 0."""

    action: Action
    outcome: Outcome
    rule: str
    rung: str
    error_class: ErrorClass | None = None
    reason: str | None = None
    not_before: float = 0.0
    identity: bool = False
    counts_block: bool = False
    escalate: bool = False

    @property
    def words(self) -> str:
        """The decision as one short text for the ledger and ``explain``."""
        where = f" on {self.rung}" if self.action is Action.RETRY else ""
        return f"{self.action}{where}: {self.rule}"


def decide(scene: Scene) -> Decision:
    """Say what happens to the URL after this attempt."""
    return _RULES[scene.verdict.outcome](scene)


@lru_cache(maxsize=64)
def done(rung: str) -> Decision:
    """A good page ends its URL: nothing else has a say, and so it needs no scene."""
    rule = "the page passed every check"
    return Decision(
        action=Action.DONE,
        outcome=Outcome.OK,
        rule=rule,
        rung=rung,
        error_class=ERROR_CLASS[Outcome.OK],
    )


def _done(scene: Scene) -> Decision:
    return done(scene.ticket.rung)


def _final(scene: Scene) -> Decision:
    return _end(scene, Action.FAIL, f"{scene.verdict.outcome} is final")


def _throttled(scene: Scene) -> Decision:
    ticket = scene.ticket
    wait = max(scene.pause_until, scene.owed_until)
    if wait - scene.now > scene.limits.max_wait:
        return _park(scene, wait, "the wait is longer than MAX_WAIT")
    if sum(past.own_wait for past in ticket.history) > OWN_WAITS:
        return _park(scene, wait, f"{OWN_WAITS} waits of its own did not help")
    if ticket.count(Outcome.THROTTLED) >= THROTTLED:
        return _park(scene, wait, f"throttled {THROTTLED} times")
    return _again(scene, ticket.rung, "the host asked for a wait", not_before=wait)


def _blocked(scene: Scene) -> Decision:
    ticket, verdict = scene.ticket, scene.verdict
    wait = max(scene.pause_until, scene.owed_until)
    if wait - scene.now > scene.limits.max_wait:
        return _park(scene, wait, "the wait is longer than MAX_WAIT")
    others = bool(scene.exits) and ticket.on_rung(ticket.rung) < scene.limits.attempts
    if not verdict.html:
        if others and ticket.count(Outcome.BLOCKED) < LOST_TO_EXITS:
            return _again(scene, ticket.rung, "not HTML: another exit", not_before=wait)
        if scene.bought_rung:
            return _again(scene, scene.bought_rung, "not HTML: the scraping API", not_before=wait)
        return _blocked_for_good(scene, "not HTML: a browser would not help")
    other_exit_first = verdict.kind not in (Kind.CHALLENGE, Kind.CONSENT) and (
        ticket.count(Outcome.BLOCKED, ticket.rung) == 1
    )
    if others and (other_exit_first or scene.last or not ticket.history[-1].counts):
        why = "a denial of this address" if other_exit_first else "attempts are left"
        return _again(scene, ticket.rung, f"{why}: another exit", not_before=wait)
    if scene.next_rung:
        why = "a challenge" if verdict.kind is Kind.CHALLENGE else "blocked here"
        return _again(scene, scene.next_rung, f"{why}: next rung", not_before=wait)
    return _blocked_for_good(scene, "the last rung is used up")


def _blocked_for_good(scene: Scene, rule: str) -> Decision:
    """Blocked is permanent only when a second pass changed something and met the same."""
    unavailable = scene.render_unavailable and scene.verdict.html
    twice = scene.ticket.prior_outcome is Outcome.BLOCKED and scene.ticket.escalate
    permanent = twice and _changed(scene.ticket) and not unavailable
    return _end(
        scene,
        Action.FAIL,
        "blocked in two passes, the second of which changed something" if permanent else rule,
        error_class=ErrorClass.PERMANENT if permanent else ErrorClass.RETRYABLE,
        render_unavailable=unavailable,
        counts_block=scene.last and not unavailable,
        escalate=not permanent,
    )


def _changed(ticket: Ticket) -> bool:
    """Whether this pass did anything else than the one before: an exit that is new to the URL,
    or a rung on which a URL that failed is fetched otherwise. The plain rung is always the same."""
    return any(
        not past.rung.startswith("http") or (past.exit and past.exit not in ticket.avoid)
        for past in ticket.history
    )


def _lacking(scene: Scene) -> Decision:
    """Empty or invalid: the next rung once, then it stands."""
    outcome, ticket = scene.verdict.outcome, scene.ticket
    seen = ticket.count(Outcome.EMPTY) + ticket.count(Outcome.INVALID)
    if not scene.verdict.html:
        again = ticket.prior_outcome is outcome
        klass = ErrorClass.PERMANENT if again else ErrorClass.RETRYABLE
        return _end(scene, Action.FAIL, "not HTML: a browser would not help", error_class=klass)
    if scene.next_rung and seen == 1:
        return _again(scene, scene.next_rung, f"{outcome}: next rung once")
    if scene.render_unavailable:
        return _end(
            scene, Action.FAIL, "no rung is left here", render_unavailable=True, escalate=True
        )
    rule = "the next rung brought no more" if seen > 1 else "there is no other rung"
    return _end(scene, Action.FAIL, rule, error_class=ErrorClass.PERMANENT)


def _fault(scene: Scene) -> Decision:
    """Target and network errors: same rung, another exit, while attempts and budget last."""
    ticket, verdict = scene.ticket, scene.verdict
    klass = ErrorClass.BACKOFF_REQUIRED if verdict.http_code == 503 else ErrorClass.RETRYABLE
    faults = [p for p in ticket.history if p.outcome in _FAULTS]
    if ticket.on_rung(ticket.rung) >= scene.limits.attempts:
        return _end(scene, Action.FAIL, "the attempts are used up", error_class=klass)
    if len(faults) >= LOST_TO_EXITS:
        return _end(scene, Action.FAIL, "too many faults", error_class=klass)
    for reason, tries in (("dns", DNS_TRIES), ("decode", DECODE_TRIES)):
        if sum(_word(p.reason) == reason for p in faults) >= tries:
            return _end(scene, Action.FAIL, f"{reason} {tries} times", error_class=klass)
    if scene.host_down:
        return _end(scene, Action.FAIL, "the host is down for this pass", error_class=klass)
    if not scene.free_retry and not scene.spend():
        return _end(scene, Action.FAIL, "the retry budget is empty", error_class=klass)
    # an attempt that never left has no history
    waited = ticket.history[-1].waited if ticket.history else 0.0
    delay = scene.limits.backoff.delay(max(0, len(faults) - 1), scene.rng, waited)
    return _again(
        scene,
        ticket.rung,
        "another exit after a backoff" if scene.exits else "again after a backoff",
        not_before=max(scene.now + delay, scene.pause_until),
        identity=_word(verdict.reason) == "decode",
    )


def _api(scene: Scene) -> Decision:
    """A scraping API's own failure: again after a backoff, unless it takes no orders now.

    No retry budget, no pause of the host: the target has seen nothing of it.
    """
    ticket = scene.ticket
    tries = min(scene.limits.attempts, API_TRIES)
    failed = ticket.count(Outcome.API_ERROR)
    if _word(scene.verdict.reason) == "refused":
        return _end(scene, Action.FAIL, "the scraping API takes no orders now")
    if ticket.on_rung(ticket.rung) >= tries or failed >= API_TRIES:
        return _end(scene, Action.FAIL, "the attempts are used up")
    delay = scene.limits.backoff.delay(max(0, failed - 1), scene.rng)
    return _again(scene, ticket.rung, "the API failed: again", not_before=scene.now + delay)


def _proxy(scene: Scene) -> Decision:
    """An exit's own fault: another exit at once; it costs nothing and uses no attempt."""
    if scene.no_exit:
        return _end(scene, Action.FAIL, "no exit is left")
    lost = scene.ticket.count(Outcome.PROXY_ERROR)
    if lost >= LOST_TO_EXITS:
        return _end(scene, Action.FAIL, f"{LOST_TO_EXITS} attempts lost to exits")
    if scene.exits:
        return _again(scene, scene.ticket.rung, "another exit at once")
    delay = scene.limits.backoff.delay(max(0, lost - 1), scene.rng)
    return _again(scene, scene.ticket.rung, "every exit tried, again", not_before=scene.now + delay)


def _again(
    scene: Scene, rung: str, rule: str, *, not_before: float = 0.0, identity: bool = False
) -> Decision:
    """A retry, if it can be paid for."""
    price = (scene.price or {}).get(rung, 0.0)
    broke = None
    if not fits(scene.ticket.cost, price, scene.limits.url_budget):
        broke = "the next attempt would exceed URL_BUDGET"
    elif scene.run_over:
        broke = scene.run_over
    if broke:
        klass = ERROR_CLASS[scene.verdict.outcome]
        blocked = scene.verdict.outcome is Outcome.BLOCKED and scene.last
        counts = blocked and not scene.render_unavailable
        ended = _end(scene, Action.FAIL, broke, error_class=klass, counts_block=counts)
        if scene.run_over and broke == scene.run_over:
            # nobody's fault: no news of the site, and a re-drive simply goes on
            return replace(
                ended,
                outcome=Outcome.OVER_BUDGET,
                error_class=ErrorClass.RETRYABLE,
                reason=broke,
                counts_block=False,
            )
        return replace(ended, outcome=Outcome.OVER_BUDGET)
    return Decision(
        action=Action.RETRY,
        outcome=scene.verdict.outcome,
        rule=rule,
        rung=rung,
        not_before=not_before if not_before > scene.now else 0.0,
        identity=identity or scene.ticket.identity,
    )


def _park(scene: Scene, until: float, rule: str) -> Decision:
    ended = _end(scene, Action.PARK, rule, escalate=True)
    return replace(ended, not_before=until)


def _end(
    scene: Scene,
    action: Action,
    rule: str,
    *,
    error_class: ErrorClass | None = None,
    render_unavailable: bool = False,
    counts_block: bool = False,
    escalate: bool = False,
) -> Decision:
    verdict = scene.verdict
    reason = verdict.reason
    if render_unavailable:
        reason = "render unavailable"
    return Decision(
        action=action,
        outcome=verdict.outcome,
        rule=rule,
        rung=scene.ticket.rung,
        error_class=error_class or ERROR_CLASS[verdict.outcome],
        reason=reason,
        counts_block=counts_block,
        # DESIGN.md section 9: after these codes a re-drive must change something
        escalate=escalate or verdict.http_code in (403, 429, 503),
    )


def _word(reason: str | None) -> str:
    """The machine word that a network error's reason begins with."""
    return (reason or "").partition(":")[0]


_FAULTS = frozenset({Outcome.TARGET_ERROR, Outcome.NETWORK_ERROR})

_RULES: Mapping[Outcome, Callable[[Scene], Decision]] = {
    Outcome.OK: _done,
    Outcome.GONE: _final,
    Outcome.REFUSED: _final,
    Outcome.UNEXPECTED: _final,
    Outcome.REJECTED: _final,
    Outcome.OVER_BUDGET: _final,
    Outcome.NO_RESULT: _final,
    Outcome.API_ERROR: _api,
    Outcome.THROTTLED: _throttled,
    Outcome.BLOCKED: _blocked,
    Outcome.EMPTY: _lacking,
    Outcome.INVALID: _lacking,
    Outcome.TARGET_ERROR: _fault,
    Outcome.NETWORK_ERROR: _fault,
    Outcome.PROXY_ERROR: _proxy,
}
