"""One choice of an exit: which of those that may be used now is worth most.

Reads beliefs and changes none; members and signals are exits.py's matter. On every
request's path: a handful of exits is drawn and compared, never the whole pool.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterator, Mapping

from msgspec import Struct

from retryscrape.policy.drawset import DrawSet
from retryscrape.policy.exit_views import HostView, Lane
from retryscrape.policy.health import UNKNOWN, ExitHealth

#: Known exits that are compared for one choice, and draws made to find them.
COMPARED, DRAWS = 4, 8
#: The least share of choices that try an exit the host has not seen.
CURIOSITY = 0.03
#: Of those, the share that goes to exits nobody has seen yet.
FRESH_SHARE = 0.25
#: The share of choices that look whether a dead exit is back.
PROBE_SHARE = 0.01
#: Of those, the share that goes to exits which never worked.
HOPE = 0.3
#: Seconds for which nothing more leaves through an exit that has not shown yet whether it
#: works: its first request is out, or came to a fault that may be the target's. Where all are
#: so, and some first answer is still out, the others wait for it.
FIRST_ANSWER = 1.0
#: Seconds for which an exit that came to nothing but such faults is not tried on other hosts.
DOUBTED = 10.0
#: An attempt's price without an exit's own: what an exit's cost is compared with.
BASE_PRICE = 2.0


class PoolRules(Struct, frozen=True, kw_only=True):
    """``concurrency`` is an exit's share at once, kept while others are free;
    ``interval`` the least seconds between two requests of an exit to a host.
    Exits of a ``reserved`` tier are for requests that name it, while there are others."""

    concurrency: int = 8
    interval: float = 0.0
    most_hosts: int = 10_000
    reserved: frozenset[str] = frozenset()


class Choice:
    """For one request: ``health`` of all exits by id, the exits that fit (``lane``), what
    is known of the host (``view``), and the exits that the URL has ``used``."""

    __slots__ = ("health", "lane", "now", "pairs", "rng", "rules", "used", "view")

    def __init__(
        self,
        health: Mapping[str, ExitHealth],
        lane: Lane,
        view: HostView,
        *,
        now: float,
        used: Collection[str],
        rules: PoolRules,
        rng: random.Random,
    ) -> None:
        self.health = health
        self.lane = lane
        self.view = view
        self.pairs = view.pairs
        self.now = now
        self.used = used
        self.rules = rules
        self.rng = rng

    def best(self) -> str | None:
        """The id of the exit to take, or None if none may be used now."""
        return self._probe() or self._sampled() or self._resting() or self._last_resort()

    # --- in the order of preference --------------------------------------------

    def _probe(self) -> str | None:
        """Rarely, and for a first attempt only: a dead exit whose time is up."""
        cooling = self.lane.cooling
        if not cooling or self.used or self.rng.random() >= PROBE_SHARE:
            return None
        found = self._draw(cooling, self.free, 1)
        if not found or (not self.health[found[0]].ok and self.rng.random() >= HOPE):
            return None
        return found[0]

    def _sampled(self) -> str | None:
        """The best of a few known exits, or now and then one that the host has not seen.

        A URL that has failed before gets a known exit: unknown ones are tried
        early, but never all on one URL.
        """
        welcome = self.view.welcome
        known = self._draw(welcome, self.free if self.lane.all_fit else self._fits, COMPARED)
        if not known:
            return self._unseen()
        if not self.used and self.rng.random() < max(CURIOSITY, 1.0 / (1.0 + len(welcome))):
            unseen = self._unseen()
            if unseen is not None:
                return unseen
        return max(known, key=self._score)

    def _unseen(self) -> str | None:
        """An exit that works elsewhere, or one that nobody has tried."""
        lane = self.lane
        sources = (lane.proven, lane.fresh)
        curious = not self.used and self.rng.random() < FRESH_SHARE
        if lane.fresh and (not lane.proven or curious):
            sources = (lane.fresh, lane.proven)
        for source in sources:
            found = self._draw(source, self._untried, COMPARED if source is lane.fresh else 2)
            if found:
                return max(found, key=self._score)
        if len(self.pairs) < len(lane.proven) + len(lane.fresh):
            return next((one for source in sources for one in source if self._untried(one)), None)
        return None

    def _untried(self, exit_id: str) -> bool:
        """New to the host, and not being tried elsewhere: it may be one that hangs."""
        health = self.health[exit_id]
        doubted = health.doubts and self.now - health.sent < DOUBTED
        if not health.proven and (health.in_flight or doubted):
            return False
        return self._new(exit_id)

    def _resting(self) -> str | None:
        """The host has refused all there are: whichever does best in spite of that."""
        found = self._draw(self.lane.proven, self.free, DRAWS)
        return max(found, key=self._score, default=None)

    def _last_resort(self) -> str | None:
        """Whatever may be used at all: beyond its share, or used by this URL already."""

        def rank(exit_id: str) -> tuple[bool, bool, bool, float]:
            pair = self.pairs.get(exit_id)
            resting = pair is not None and pair.rest_until > self.now
            busy = self.health[exit_id].in_flight >= self.rules.concurrency
            return exit_id in self.used, busy, resting, -self._score(exit_id)

        if self.waits():
            return None
        found = [one for one in self.usable() if self._rested(one)]
        shown = [one for one in found if not self._open(one)]
        return min(shown or found, key=rank, default=None)

    def waits(self) -> bool:
        """Whether all that may be used were tried just now and have not shown that they work,
        but one may yet: its first answer is worth more than another try."""
        if self.lane.proven:
            return False
        asked = False
        for one in filter(self._rested, self.usable()):
            if not self._open(one):
                return False
            asked = asked or self.health[one].in_flight > 0
        return asked

    def _open(self, exit_id: str) -> bool:
        """Whether it was asked just now and has not shown yet that it works."""
        health = self.health[exit_id]
        if health.proven or health.failures or self.now - health.sent >= FIRST_ANSWER:
            return False
        return bool(health.in_flight or health.doubts)

    # --- what may be used ------------------------------------------------------

    def usable(self) -> Iterator[str]:
        """Exits that are not out, cooling down, or paused on the host."""
        for source in (self.lane.proven, self.lane.fresh, self.lane.cooling):
            yield from (one for one in source if self._allowed(one))

    def free(self, exit_id: str) -> bool:
        """Usable, within its share, and not used by this URL."""
        return (
            exit_id not in self.used
            and self.health[exit_id].in_flight < self.rules.concurrency
            and self._allowed(exit_id)
            and self._rested(exit_id)
        )

    def _allowed(self, exit_id: str) -> bool:
        health = self.health[exit_id]
        if health.out or health.cooling(self.now):
            return False
        pair = self.pairs.get(exit_id)
        return pair is None or pair.paused_until <= self.now

    def _rested(self, exit_id: str) -> bool:
        """Whether the least interval since its last request to the host is over."""
        interval = self.rules.interval
        if not interval:
            return True
        pair = self.pairs.get(exit_id)
        return pair is None or pair.sent + interval <= self.now

    def _fits(self, exit_id: str) -> bool:
        return self.lane.fits(self.health[exit_id]) and self.free(exit_id)

    def _new(self, exit_id: str) -> bool:
        """The host has not seen it, or its rest here is over."""
        pair = self.pairs.get(exit_id)
        unseen = pair is None or (pair.rest_until <= self.now and exit_id not in self.view.welcome)
        return unseen and self.free(exit_id)

    # --- drawing and comparing -------------------------------------------------

    def _draw(self, source: DrawSet, wanted: Callable[[str], bool], most: int) -> list[str]:
        """Up to ``most`` different members that are wanted; small sets are looked through."""
        if len(source) <= DRAWS:
            found = [one for one in source if wanted(one)]
            return found if len(found) <= most else self.rng.sample(found, most)
        found = []
        for _ in range(DRAWS):
            one = source.draw(self.rng)
            if one not in found and wanted(one):
                found.append(one)
                if len(found) == most:
                    break
        return found

    def _score(self, exit_id: str) -> float:
        """Pages per price that the exit is good for here, drawn from the belief."""
        health = self.health[exit_id]
        pair = self.pairs.get(exit_id)
        if pair is None:
            share = health.belief.sample(UNKNOWN, self.rng) * self.view.welcome_share
        else:
            pair.belief.fade(self.now)
            share = pair.belief.sample(health.mean, self.rng) * self.view.speed(pair)
        if health.proven:
            busy = max(0.5, 1.0 - 0.05 * health.in_flight)
        else:  # one request finds out as much as ten; those that fail are back first
            busy = 1.0 / (1.0 + health.in_flight + health.doubts)
        return share * busy * BASE_PRICE / (BASE_PRICE + health.exit.cost)
