"""The ways of fetching, cheapest first, and which of them a host is known to need.

No attempts and no prices here: how often a rung is tried is decide's matter.
"""

from __future__ import annotations

import json
import random
from collections import deque
from collections.abc import Iterable
from typing import NamedTuple, Protocol

from msgspec import Struct, field

#: A host's start rung moves up when NEEDED of its last WINDOW successes needed more.
WINDOW, NEEDED = 5, 3
#: And only if half of so many URLs, in the order in which they were asked for, gave way to a
#: higher rung: slow pages come in last, and one in twenty may be the last five of a crawl.
STARTS = 10
#: One start in PROBE_EVERY goes a rung lower, so that a site that relaxed gets cheap again.
PROBE_EVERY = 20
#: This many probes in a row that got their page from the lower rung move a host down.
CHEAPER = 2

#: How a scraping API fetches a page for us: ``mode_used`` is one of these, too.
MODES = ("request", "browser")


class Rung(NamedTuple):
    """``browser:residential:GB`` taken apart: a way of fetching, a tier and a country of exits."""

    name: str
    base: str
    tier: str | None = None
    country: str | None = None


def parse_rung(name: str) -> Rung:
    """Raises ValueError with a sentence if the name has no base or too many parts."""
    base, *rest = (part.strip() for part in name.split(":"))
    if not base or len(rest) > 2:
        raise ValueError(f"{name!r} is no rung: give 'base', 'base:tier' or 'base:tier:country'")
    tier, country = ([part or None for part in rest] + [None, None])[:2]
    return Rung(name, base, tier, country.upper() if country else None)


class Ladder(Struct, frozen=True):
    """``rungs`` as configured; ``available`` names the rungs or bases that can be used now."""

    rungs: tuple[str, ...]
    available: frozenset[str]

    def __post_init__(self) -> None:
        if not self.rungs:
            raise ValueError("the ladder has no rung")
        if len(set(self.rungs)) < len(self.rungs):
            raise ValueError("the ladder names a rung twice")
        for name in self.rungs:
            parse_rung(name)

    def index(self, rung: str) -> int:
        """Where a rung is; one that is no longer configured counts as the lowest."""
        return self.rungs.index(rung) if rung in self.rungs else 0

    def usable(self, rung: str) -> bool:
        """Whether this rung can be used now."""
        return rung in self.available or parse_rung(rung).base in self.available

    def next(self, rung: str) -> str | None:
        """The next usable rung above, or None."""
        above = self.rungs[self.index(rung) + 1 :]
        return next((name for name in above if self.usable(name)), None)

    def next_of(self, rung: str, base: str) -> str | None:
        """The next usable rung above of one way of fetching, or None."""
        above = self.rungs[self.index(rung) + 1 :]
        ours = (name for name in above if parse_rung(name).base == base)
        return next((name for name in ours if self.usable(name)), None)

    def lower(self, rung: str) -> str | None:
        """The next usable rung below, or None."""
        below = self.rungs[: self.index(rung)]
        return next((name for name in reversed(below) if self.usable(name)), None)

    def last(self, rung: str) -> bool:
        """Whether this is the top of the ladder as configured, usable or not."""
        return self.index(rung) == len(self.rungs) - 1

    def is_last_available(self, rung: str) -> bool:
        """Whether no usable rung lies above."""
        return self.next(rung) is None


class RungRow(NamedTuple):
    """What is remembered of a host's rung; ``state`` is JSON text."""

    host: str
    best_rung: str | None
    best_until: float | None
    state: str


class RungRowLike(Protocol):
    """Any row with these columns (the ledger's hosts table)."""

    @property
    def host(self) -> str: ...
    @property
    def best_rung(self) -> str | None: ...
    @property
    def best_until(self) -> float | None: ...
    @property
    def state(self) -> str | None: ...


class _Learned(Struct):
    #: ladder index to start at, and the epoch second at which that is forgotten
    best: int = 0
    until: float = 0.0
    #: rungs of the last successes: what each really needed
    recent: deque[int] = field(default_factory=lambda: deque(maxlen=WINDOW))
    cheaper: int = 0
    #: whether the URLs asked for last had to go on from where they began
    gave_way: deque[bool] = field(default_factory=lambda: deque(maxlen=STARTS))

    @property
    def common(self) -> bool:
        """Whether it is the rule here that a URL needs more than the rung it began on."""
        needed = sum(self.gave_way)
        return needed >= NEEDED and 2 * needed >= len(self.gave_way)


class Learner:
    """Remembers per host which rung works. ``learn`` is for how long, in seconds.

    Hosts that never needed more than the lowest rung take no memory.
    """

    def __init__(self, ladder: Ladder, *, learn: float = 86400.0, most_hosts: int = 100_000):
        self._ladder = ladder
        self._learn = learn
        self._most = most_hosts
        self._hosts: dict[str, _Learned] = {}

    def use(self, ladder: Ladder) -> None:
        """Go on with a ladder of the same rungs, of which others can be used."""
        self._ladder = ladder

    def start_rung(self, host: str, now: float, rng: random.Random) -> str:
        """The rung for a first attempt: the remembered one, or now and then one lower."""
        best = self._best(host, now)
        rung = self._first_usable(best)
        lower = self._ladder.lower(rung) if best else None
        if lower is None:
            return rung
        # A probe that got its page is confirmed soon, not twenty URLs later.
        chance = 0.5 if self._hosts[host].cheaper else 1 / PROBE_EVERY
        return lower if rng.random() < chance else rung

    def goes_on(self, host: str, rung: str, to: str) -> None:
        """A URL that was asked for on ``rung`` is asked for again on ``to``."""
        if self._ladder.index(to) > self._ladder.index(rung):
            self._remember(host).gave_way.append(True)

    def success(self, host: str, rung: str, now: float, *, started: str | None = None) -> None:
        """A page came from ``rung``; ``started`` is where this URL began in this pass.

        A page that began on the remembered rung says that the rung works, not
        that it is needed; one that began lower and ended here says that it is.
        """
        level = self._ladder.index(rung)
        best = self._best(host, now)
        known = self._hosts.get(host)
        if known is None:
            if level == 0:
                return
            known = self._remember(host)
        known.recent.append(level)
        if started is None or self._ladder.index(started) == level:
            known.gave_way.append(False)
        if level < best:
            self._came_cheaper(host, known, level, now)
            return
        if started is not None and self._ladder.index(started) < best:
            known.cheaper = 0
            known.until = now + self._learn
        self._move_up(host, known, best, now)

    def snapshot(self) -> list[RungRow]:
        """Rows for the ledger's hosts table."""
        return [
            RungRow(
                host,
                self._ladder.rungs[known.best] if known.best else None,
                known.until if known.best else None,
                json.dumps(
                    {
                        "recent": list(known.recent),
                        "cheaper": known.cheaper,
                        "gave_way": [int(more) for more in known.gave_way],
                    }
                ),
            )
            for host, known in self._hosts.items()
        ]

    def restore(self, rows: Iterable[RungRowLike]) -> None:
        """Take up what an earlier run, or another worker, has learned."""
        for row in rows:
            state = json.loads(row.state or "{}")
            best = self._ladder.index(row.best_rung) if row.best_rung else 0
            levels = [level for level in state.get("recent", ()) if level < len(self._ladder.rungs)]
            gave_way = [bool(more) for more in state.get("gave_way", ())]
            if not best and not any(levels) and not any(gave_way):
                continue
            known = self._remember(row.host)
            known.best, known.until = best, row.best_until or 0.0
            known.recent = deque(levels, maxlen=WINDOW)
            known.gave_way = deque(gave_way, maxlen=STARTS)
            known.cheaper = int(state.get("cheaper", 0))

    def _best(self, host: str, now: float) -> int:
        known = self._hosts.get(host)
        if known is None:
            return 0
        if known.best and known.until <= now:
            del self._hosts[host]
            return 0
        return known.best

    def _first_usable(self, best: int) -> str:
        rung = self._ladder.rungs[best]
        if self._ladder.usable(rung):
            return rung
        return self._ladder.next(rung) or self._ladder.lower(rung) or rung

    def _came_cheaper(self, host: str, known: _Learned, level: int, now: float) -> None:
        known.cheaper += 1
        if known.cheaper < CHEAPER:
            return
        if level == 0:
            del self._hosts[host]
            return
        known.best, known.until, known.cheaper = level, now + self._learn, 0
        known.recent.clear()

    def _move_up(self, host: str, known: _Learned, best: int, now: float) -> None:
        """The highest rung that NEEDED of the last successes had to use, if it is higher."""
        levels = sorted(known.recent, reverse=True)
        needed = levels[NEEDED - 1] if len(levels) >= NEEDED else 0
        if needed > best and known.common:
            known.best, known.until, known.cheaper = needed, now + self._learn, 0
        elif not known.best and not any(levels) and not any(known.gave_way):
            del self._hosts[host]

    def _remember(self, host: str) -> _Learned:
        while len(self._hosts) >= self._most:
            del self._hosts[next(iter(self._hosts))]
        return self._hosts.setdefault(host, _Learned())
