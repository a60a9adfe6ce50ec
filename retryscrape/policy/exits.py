"""Chooses the exit that a request leaves through.

Sampling from a belief per (exit, host) with a global part; what the beliefs are is
health.py's matter, how they are stored exit_rows.py's. No clock, no randomness of its own.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass

from retryscrape.policy import exit_words
from retryscrape.policy.drawset import DrawSet
from retryscrape.policy.exit_rows import ExitRow, ExitRowLike, row_of, take_up
from retryscrape.policy.exit_signals import learn
from retryscrape.policy.exit_views import HostView, Lane, learned_timeout
from retryscrape.policy.health import UNKNOWN, ExitHealth, PairHealth, Signal
from retryscrape.policy.proxies import Exit

__all__ = ["Exit", "Pool", "PoolRules", "Signal"]

#: Known exits that are compared for one choice, and draws made to find them.
COMPARED, DRAWS = 4, 8
#: The least share of choices that try an exit the host has not seen.
CURIOSITY = 0.03
#: Of those, the share that goes to exits nobody has seen yet.
FRESH_SHARE = 0.25
#: The share of choices that look whether a dead exit is back.
PROBE_SHARE = 0.01
#: An answer's price without an exit's own: what an exit's cost is compared with.
BASE_PRICE = 2.0
_BUSY_WAIT = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolRules:
    """``concurrency`` is an exit's share at once, kept while others are free;
    ``interval`` the least seconds between two requests of an exit to a host."""

    concurrency: int = 8
    interval: float = 0.0
    most_hosts: int = 10_000


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

    def update(self, exits: Iterable[Exit]) -> None:
        """Exchange the list; exits that stay, or come back, keep their history."""
        old = self._gone | self._health
        self._health = {}
        for exit_ in exits:
            health = old.pop(exit_.id, None) or ExitHealth(exit_)
            health.exit = exit_
            self._health[exit_.id] = health
        self._gone = old
        self._lanes.clear()
        for view in self._views.values():
            for exit_id in [one for one in view.welcome if one not in self._health]:
                view.welcome.discard(exit_id)

    def get(self, exit_id: str) -> Exit | None:
        """The exit of that name, or None."""
        health = self._health.get(exit_id)
        return health.exit if health else None

    def __len__(self) -> int:
        return len(self._health)

    def _lane(self, tier: str | None, country: str | None) -> Lane:
        lane = self._lanes.get((tier, country))
        if lane is None:
            lane = self._lanes[tier, country] = Lane(tier, country)
            for health in self._health.values():
                lane.place(health)
        return lane

    def _place(self, health: ExitHealth) -> None:
        for lane in self._lanes.values():
            lane.place(health)

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
        lane = self._lane(tier, country)
        view = self.view(host)

        def free(exit_id: str) -> bool:
            return exit_id not in used and self._free(exit_id, view, now)

        chosen = self._probe(lane, free, now) if not used else None
        if chosen is None:
            chosen = self._sampled(lane, view, free, now, bool(used))
        if chosen is None:
            chosen = self._last_resort(lane, view, now, used)
        return self._health[chosen].exit if chosen else None

    def _sampled(
        self, lane: Lane, view: HostView, free: Callable[[str], bool], now: float, again: bool
    ) -> str | None:
        """The best of a few known exits, or now and then one that the host has not seen.

        A URL that has failed before gets a known exit: unknown ones are tried
        early, but never all on one URL.
        """
        known = self._draw(view.welcome, free, COMPARED, lane)
        curious = max(CURIOSITY, 1.0 / (1.0 + len(view.welcome)))
        if not known or (not again and self._rng.random() < curious):
            new = self._unseen(lane, view, free, now)
            if new is not None:
                return new
        return max(known, key=lambda one: self._score(one, view, now), default=None)

    def _unseen(
        self, lane: Lane, view: HostView, free: Callable[[str], bool], now: float
    ) -> str | None:
        """An exit that works elsewhere, or one that nobody has tried."""

        def new(exit_id: str) -> bool:
            pair = view.pairs.get(exit_id)
            fresh = pair is None or (pair.rest_until <= now and exit_id not in view.welcome)
            return fresh and free(exit_id)

        sources = (lane.proven, lane.fresh)
        if lane.fresh and (not lane.proven or self._rng.random() < FRESH_SHARE):
            sources = (lane.fresh, lane.proven)
        for source in sources:
            found = self._draw(source, new, 2, lane)
            if found:
                return max(found, key=lambda one: self._score(one, view, now))
        if len(view.pairs) < len(lane.proven) + len(lane.fresh):
            everyone = (one for source in sources for one in source if new(one))
            return next(everyone, None)
        return None

    def _probe(self, lane: Lane, free: Callable[[str], bool], now: float) -> str | None:
        """Rarely: a dead exit whose time is up, one request at a time."""
        if not lane.cooling or self._rng.random() >= PROBE_SHARE:
            return None
        found = self._draw(lane.cooling, lambda one: self._due(one, now) and free(one), 1, lane)
        return found[0] if found else None

    def _last_resort(
        self, lane: Lane, view: HostView, now: float, used: Collection[str]
    ) -> str | None:
        """Whatever may be used at all: unused before used, rested before resting."""

        def rank(exit_id: str) -> tuple[bool, bool, bool, float]:
            pair = view.pairs.get(exit_id)
            resting = pair is not None and pair.rest_until > now
            busy = not self._free(exit_id, view, now)
            return exit_id in used, busy, resting, -self._score(exit_id, view, now)

        usable = self._usable(lane, view, now)
        return min(usable, key=rank, default=None)

    def _draw(
        self, source: DrawSet, wanted: Callable[[str], bool], most: int, lane: Lane
    ) -> list[str]:
        """Up to ``most`` different members that are wanted; small sets are looked through."""
        if len(source) <= DRAWS:
            found = [one for one in source if wanted(one) and lane.fits(self._health[one])]
            return found if len(found) <= most else self._rng.sample(found, most)
        found = []
        for _ in range(DRAWS):
            one = source.draw(self._rng)
            if one not in found and wanted(one) and lane.fits(self._health[one]):
                found.append(one)
                if len(found) == most:
                    break
        return found

    def _score(self, exit_id: str, view: HostView, now: float) -> float:
        """Pages per price that the exit is good for here, drawn from the belief."""
        health = self._health[exit_id]
        pair = view.pairs.get(exit_id)
        prior = health.mean
        if pair is None:
            share = health.belief.sample(UNKNOWN, self._rng) * view.welcome_share
        else:
            pair.belief.fade(now)
            share = pair.belief.sample(prior, self._rng) * view.speed(pair)
        busy = max(0.5, 1.0 - 0.05 * health.in_flight)
        return share * busy * BASE_PRICE / (BASE_PRICE + health.exit.cost)

    # --- what may be used ------------------------------------------------------

    def _due(self, exit_id: str, now: float) -> bool:
        """Whether a cooled exit may be probed: one request at a time."""
        health = self._health[exit_id]
        return health.until <= now and health.in_flight == 0

    def _free(self, exit_id: str, view: HostView, now: float) -> bool:
        """Whether the exit is within its share, its interval and not paused on the host."""
        health = self._health[exit_id]
        if health.out or health.in_flight >= self._rules.concurrency:
            return False
        if health.failures and not self._due(exit_id, now):
            return False
        pair = view.pairs.get(exit_id)
        if pair is None:
            return True
        return pair.paused_until <= now and pair.sent + self._rules.interval <= now

    def _usable(self, lane: Lane, view: HostView, now: float) -> Iterator[str]:
        """Exits that are not out, cooling down, or paused on the host."""
        for source in (lane.proven, lane.fresh):
            for exit_id in source:
                pair = view.pairs.get(exit_id)
                if pair is None or pair.paused_until <= now:
                    yield exit_id
        yield from (one for one in lane.cooling if self._due(one, now))

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
        lane = self._lane(tier, country)
        view = self.view(host)
        if not view.pauses(now) and not lane.cooling:
            members = len(lane.proven) + len(lane.fresh)
            return members - sum(one in lane.proven or one in lane.fresh for one in set(used))
        return sum(one not in used for one in self._usable(lane, view, now))

    def due(
        self, host: str, now: float, *, tier: str | None = None, country: str | None = None
    ) -> float:
        """0 if some exit may be used now, else the epoch second at which one may;
        infinity if there is none at all (see ``exhausted``)."""
        lane = self._lane(tier, country)
        view = self.view(host)
        resting = view.pauses(now) or self._rules.interval > 0
        if (lane.proven or lane.fresh) and not resting:
            return 0.0
        moments = [self._next(one, view, now) for one in lane.members()]
        soonest = min(moments, default=math.inf)
        return 0.0 if soonest <= now else soonest

    def _next(self, exit_id: str, view: HostView, now: float) -> float:
        health = self._health[exit_id]
        pair = view.pairs.get(exit_id)
        wait = max(pair.paused_until, pair.sent + self._rules.interval) if pair else 0.0
        if health.failures:
            wait = max(wait, health.until)
            if health.in_flight:
                wait = max(wait, now + _BUSY_WAIT)
        return wait

    # --- what happened ---------------------------------------------------------

    def sent(self, exit_id: str, host: str, now: float) -> None:
        """A request to ``host`` left through the exit."""
        health = self._health.get(exit_id) or self._gone.get(exit_id)
        if health is None:
            return
        health.in_flight += 1
        view = self.view(host)
        view.in_flight += 1
        view.pairs.setdefault(exit_id, PairHealth()).sent = now

    def done(
        self,
        exit_id: str,
        host: str,
        now: float,
        signal: Signal,
        elapsed: float | None = None,
        bytes: int = 0,
    ) -> None:
        """That request is over: ``elapsed`` in seconds, ``bytes`` that the exit carried."""
        health = self._health.get(exit_id) or self._gone.get(exit_id)
        if health is None:
            return
        view = self.view(host)
        health.in_flight = max(0, health.in_flight - 1)
        view.in_flight = max(0, view.in_flight - 1)
        pair = view.pairs.setdefault(exit_id, PairHealth())
        cost = health.exit.cost + health.exit.cost_gb * bytes / 1e9
        for one in (health, pair):
            one.bytes += bytes
            one.cost += cost
        learn(
            signal,
            health=health,
            pair=pair,
            view=view,
            host=host,
            now=now,
            elapsed=elapsed,
            rng=self._rng,
        )
        if exit_id in self._health:
            view.welcomes(exit_id, pair, now)
            self._place(health)

    def pause(self, exit_id: str, host: str, until: float) -> None:
        """No request to ``host`` through this exit before ``until`` (THROTTLE_SCOPE exit)."""
        view = self.view(host)
        pair = view.pairs.setdefault(exit_id, PairHealth())
        pair.paused_until = max(pair.paused_until, until)
        view.paused_until = max(view.paused_until, until)

    # --- questions -------------------------------------------------------------

    def suspect(self, exit_id: str, host: str) -> bool:
        """Whether a block or doubtful fault is rather the exit's: this host has never let
        anything through it, while others get through."""
        view = self.view(host)
        pair = view.pairs.get(exit_id)
        return view.passes > 0 and (pair is None or pair.ok == 0)

    def timeout(self, exit_id: str, host: str, cap: float) -> float:
        """Seconds after which to give up on this exit here, at most ``cap``."""
        view = self.view(host)
        return learned_timeout(view, view.pairs.get(exit_id), cap)

    def exhausted(self, now: float) -> str | None:
        """The sentence that ends the run when no exit is left, else None."""
        return exit_words.exhausted(self._health.values())

    def describe(self, now: float) -> str:
        """One line for people: ``12 exits: 8 work, 3 cannot be reached, 1 not tried``."""
        return exit_words.describe(self._health.values())

    def snapshot(self) -> list[ExitRow]:
        """Rows for the ledger's exits table."""
        everyone = self._gone | self._health
        rows = [
            row_of(exit_id, "", health)
            for exit_id, health in everyone.items()
            if health.seen or health.out
        ]
        for host, view in self._views.items():
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
