"""The pool of exits: who may be used, what happened to them, what that means.

Sampling from a belief per (exit, host) with a global part. The choice itself is in
exit_choice.py, the beliefs in health.py, their storage in exit_rows.py. No clock, no
randomness of its own.
"""

from __future__ import annotations

import math
import random
from collections.abc import Collection, Iterable

from retryscrape.policy import exit_words
from retryscrape.policy.exit_choice import Choice, PoolRules
from retryscrape.policy.exit_rows import ExitRow, ExitRowLike, row_of, take_up
from retryscrape.policy.exit_signals import learn
from retryscrape.policy.exit_views import HostView, Lane, learned_timeout
from retryscrape.policy.health import ExitHealth, PairHealth, Signal
from retryscrape.policy.proxies import Exit

__all__ = ["Exit", "Pool", "PoolRules", "Signal"]

#: How soon to ask again for a dead exit whose probe is under way, and while the first answers
#: are, in seconds.
_PROBE_WAIT = 0.1


class Pool:
    """The exits of a run and what is believed of them. Times are epoch seconds."""

    def __init__(
        self, exits: Iterable[Exit], *, rng: random.Random, rules: PoolRules | None = None
    ) -> None:
        self._rng = rng
        self._rules = rules or PoolRules()
        self._health: dict[str, ExitHealth] = {}
        self._gone: dict[str, ExitHealth] = {}
        self._lanes: dict[tuple[str | None, str | None], Lane] = {}
        self._views: dict[str, HostView] = {}
        self.update(exits)

    # --- the members -----------------------------------------------------------

    def update(self, exits: Iterable[Exit]) -> frozenset[str]:
        """Exchange the list; exits that stay, or come back, keep their history. Gives the
        names of those that were never there."""
        old = self._gone | self._health
        self._health = {}
        fresh = set()
        for exit_ in exits:
            health = old.pop(exit_.id, None)
            if health is None:
                health = ExitHealth(exit_)
                fresh.add(exit_.id)
            health.exit = exit_
            self._health[exit_.id] = health
        self._gone = old
        self._lanes.clear()
        reserved = self._rules.reserved
        #: whether some exits are kept for those who name their tier
        tiers = {health.exit.tier for health in self._health.values()}
        self.reserves = bool(reserved & tiers) and not tiers <= reserved
        for view in self._views.values():
            for exit_id in [one for one in view.welcome if one not in self._health]:
                view.welcome.discard(exit_id)
        return frozenset(fresh)

    def ids(self) -> frozenset[str]:
        """The names of the exits in the list."""
        return frozenset(self._health)

    def get(self, exit_id: str) -> Exit | None:
        """The exit of that name, or None. One that was taken out of the list counts: what is
        under way through it ends through it."""
        health = self._health.get(exit_id) or self._gone.get(exit_id)
        return health.exit if health else None

    def __len__(self) -> int:
        return len(self._health)

    def members(self, tier: str | None, country: str | None) -> list[ExitHealth]:
        """The exits that a request of this tier and country may leave through, dead or alive."""
        lane = self._lane(tier, country)
        return [health for health in self._health.values() if lane.fits(health)]

    def _lane(self, tier: str | None, country: str | None) -> Lane:
        lane = self._lanes.get((tier, country))
        if lane is None:
            reserved = self._rules.reserved if self.reserves else frozenset[str]()
            lane = self._lanes[tier, country] = Lane(tier, country, reserved)
            for health in self._health.values():
                lane.place(health)
        return lane

    def _place(self, health: ExitHealth) -> bool:
        """Sort an exit in; whether it is the first of its kind that works."""
        first = False
        for lane in self._lanes.values():
            before = len(lane.proven)
            lane.place(health)
            first = first or len(lane.proven) > before == 0
        return first

    def view(self, host: str) -> HostView:
        """What is known of a host; hosts that nothing is under way to are forgotten first."""
        view = self._views.get(host)
        if view is None:
            if len(self._views) >= self._rules.most_hosts:
                idle = next((h for h, v in self._views.items() if not v.in_flight), None)
                if idle is not None:
                    del self._views[idle]
            view = self._views[host] = HostView()
        return view

    # --- the choice ------------------------------------------------------------

    def choose(
        self,
        host: str,
        now: float,
        *,
        used: Collection[str] = (),
        tier: str | None = None,
        country: str | None = None,
    ) -> Exit | None:
        """The exit for the next request to ``host``; None if none may be used now.

        Exits in ``used`` (those the URL has left through) are taken only if there
        is no other. ``due`` says when there is one again, ``exhausted`` whether
        there ever will be.
        """
        chosen = self._choice(host, now, used, tier, country).best()
        return self._health[chosen].exit if chosen else None

    def _choice(
        self, host: str, now: float, used: Collection[str], tier: str | None, country: str | None
    ) -> Choice:
        return Choice(
            self._health,
            self._lane(tier, country),
            self.view(host),
            now=now,
            used=used,
            rules=self._rules,
            rng=self._rng,
        )

    def unused(
        self,
        host: str,
        used: Collection[str],
        now: float,
        *,
        tier: str | None = None,
        country: str | None = None,
    ) -> int:
        """How many usable exits a URL that has left through ``used`` has not tried."""
        choice = self._choice(host, now, (), tier, country)
        lane = choice.lane
        if choice.view.pauses(now) or lane.cooling:
            return sum(one not in used for one in choice.usable())
        members = len(lane.proven) + len(lane.fresh)
        return members - sum(one in lane.proven or one in lane.fresh for one in set(used))

    def due(
        self, host: str, now: float, *, tier: str | None = None, country: str | None = None
    ) -> float:
        """0 if some exit may be used now, else the epoch second at which one may;
        infinity if there is none at all (see ``exhausted``)."""
        lane = self._lane(tier, country)
        view = self.view(host)
        resting = view.pauses(now) or self._rules.interval > 0
        if not lane.proven and self._choice(host, now, (), tier, country).waits():
            return now + _PROBE_WAIT
        if (lane.proven or lane.fresh) and not resting:
            return 0.0
        moments = [self._next(one, view, now) for one in lane.members()]
        soonest = min(moments, default=math.inf)
        return 0.0 if soonest <= now else soonest

    def _next(self, exit_id: str, view: HostView, now: float) -> float:
        health = self._health[exit_id]
        pair = view.pairs.get(exit_id)
        wait = max(pair.paused_until, pair.sent + self._rules.interval) if pair else 0.0
        if health.cooling(now):
            wait = max(wait, health.until, now + _PROBE_WAIT if health.in_flight else 0.0)
        return wait

    # --- what happened ---------------------------------------------------------

    def sent(self, exit_id: str, host: str, now: float) -> None:
        """A request to ``host`` left through the exit."""
        health = self._health.get(exit_id) or self._gone.get(exit_id)
        if health is None:
            return
        health.in_flight += 1
        health.sent = now
        view = self.view(host)
        view.in_flight += 1
        view.pairs.setdefault(exit_id, PairHealth()).sent = now

    def left(self, exit_id: str, host: str, now: float) -> None:
        """The attempt leaves only now: the interval to the next one begins here."""
        if not self._rules.interval:
            return  # nobody asks, and this is on every page's way
        pair = self.view(host).pairs.get(exit_id)
        if pair is not None:
            pair.sent = max(pair.sent, now)

    def done(
        self,
        exit_id: str,
        host: str,
        now: float,
        signal: Signal,
        elapsed: float | None = None,
        bytes: int = 0,
    ) -> bool:
        """That request is over: ``elapsed`` in seconds, ``bytes`` that the exit carried. Gives
        whether it was the first answer that others wait for (see ``due``)."""
        health = self._health.get(exit_id) or self._gone.get(exit_id)
        if health is None:
            return False
        view = self.view(host)
        health.in_flight = max(0, health.in_flight - 1)
        view.in_flight = max(0, view.in_flight - 1)
        pair = view.pairs.setdefault(exit_id, PairHealth())
        cost = health.exit.cost + health.exit.cost_gb * bytes / 1e9
        for one in (health, pair):
            one.bytes += bytes
            one.cost += cost
        # a host's first good answer shows whose its faults before it were
        shown = [one for one in view.faults if signal is Signal.GOOD and not view.passes]
        learn(
            signal,
            health=health,
            pair=pair,
            view=view,
            host=host,
            now=now,
            elapsed=elapsed,
            unproven=signal is Signal.UNSURE and self.unproven(exit_id),
            rng=self._rng,
        )
        first = False
        if exit_id in self._health:
            view.welcomes(exit_id, pair, now)
            first = self._place(health)
        for culprit in map(self._health.get, shown):
            if culprit is not None and not culprit.proven and not culprit.failures:
                culprit.failed(now, self._rng)
                self._place(culprit)
        return first

    def pause(self, exit_id: str, host: str, until: float) -> None:
        """No request to ``host`` through this exit before ``until`` (THROTTLE_SCOPE exit)."""
        view = self.view(host)
        pair = view.pairs.setdefault(exit_id, PairHealth())
        pair.paused_until = max(pair.paused_until, until)
        view.paused_until = max(view.paused_until, until)

    # --- questions -------------------------------------------------------------

    def suspect(self, exit_id: str, host: str) -> bool:
        """Whether a block or doubtful fault is rather the exit's: this host has never let
        anything through it, or does so no more, while others get through."""
        view = self.view(host)
        pair = view.pairs.get(exit_id)
        return view.lets_pass() and (pair is None or pair.ok == 0 or pair.rests > 0)

    def rejected(self, exit_id: str) -> bool:
        """Whether it is out for this run: it rejects its credentials."""
        health = self._health.get(exit_id)
        return health is not None and health.out

    def unproven(self, exit_id: str) -> bool:
        """Whether nothing ever came through this exit, on any host, while others work."""
        health = self._health.get(exit_id)
        if health is None or health.ok:
            return False
        return any(other.ok for other in self._health.values())

    def timeout(self, exit_id: str, host: str, cap: float) -> float:
        """Seconds after which to give up on this exit here, at most ``cap``."""
        view = self.view(host)
        return learned_timeout(view, view.pairs.get(exit_id), cap)

    def exhausted(
        self, now: float, *, tier: str | None = None, country: str | None = None
    ) -> str | None:
        """Why no exit is left (of that tier and country, if one is given), else None."""
        if tier is None and country is None and not self.reserves:
            return exit_words.exhausted(self._health.values())
        return exit_words.exhausted(self.members(tier, country))

    def all_exhausted(self) -> str | None:
        """The sentence that ends the run when no exit of any tier is left, else None."""
        return exit_words.exhausted(self._health.values())

    def describe(self, now: float) -> str:
        """One line for people: ``12 exits: 8 work, 3 cannot be reached, 1 not tried``."""
        return exit_words.describe(self._health.values())

    def snapshot(self, *, pairs: bool = True) -> list[ExitRow]:
        """Rows for the ledger's exits table; without ``pairs`` those of exits in general."""
        everyone = self._gone | self._health
        rows = [
            row_of(exit_id, "", health)
            for exit_id, health in everyone.items()
            if health.seen or health.out
        ]
        for host, view in self._views.items() if pairs else ():
            rows += [row_of(exit_id, host, pair) for exit_id, pair in view.pairs.items()]
        return rows

    def restore(self, rows: Iterable[ExitRowLike]) -> None:
        """Take up what earlier runs learned of the exits that are in the list."""
        for row in rows:
            health = self._health.get(row.exit)
            if health is None:
                continue
            if not row.host:
                take_up(row, health)
                self._place(health)
                continue
            view = self.view(row.host)
            pair = view.pairs.setdefault(row.exit, PairHealth())
            take_up(row, pair)
            view.passes += bool(pair.ok)
            if pair.ok and not pair.rest_until:
                view.welcome.add(row.exit)
