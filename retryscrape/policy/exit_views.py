"""How the pool looks at its exits: by tier and country, and by host.

Grouping and what follows from a group (who fails everywhere, what is slow here);
the choice is exits.py's, the evidence on one exit health.py's.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct, field

from retryscrape.policy.drawset import DrawSet
from retryscrape.policy.health import ExitHealth, PairHealth

#: No learned deadline is shorter than this, in seconds: a page may be built afresh.
SHORTEST_TIMEOUT = 5.0
#: Blocks in a row after which a host blocks everybody, whoever got through before.
WALL = 10
#: Answers before a deadline is learned: of an exit here, and of all exits here.
ENOUGH, ENOUGH_OF_ALL = 5, 10


class Lane:
    """The exits that fit a tier and a country, sorted by what is known of them."""

    __slots__ = ("_country", "_reserved", "_tier", "all_fit", "cooling", "fresh", "proven")

    def __init__(
        self, tier: str | None, country: str | None, reserved: frozenset[str] = frozenset()
    ) -> None:
        self._tier = tier
        self._country = country
        #: tiers that are left to requests that name them
        self._reserved = reserved if tier is None else frozenset()
        self.all_fit = tier is None and country is None and not self._reserved
        self.proven = DrawSet()
        self.fresh = DrawSet()
        self.cooling = DrawSet()

    def fits(self, health: ExitHealth) -> bool:
        """Whether an exit has the tier and the country."""
        exit_ = health.exit
        if exit_.tier in self._reserved:
            return False
        return self._tier in (None, exit_.tier) and self._country in (None, exit_.country)

    def place(self, health: ExitHealth) -> None:
        """Sort an exit in, or out, as it is now."""
        if not self.fits(health):
            return
        right = None
        if not health.out:
            known = self.proven if health.proven else self.fresh
            right = self.cooling if health.failures else known
        for group in (self.proven, self.fresh, self.cooling):
            if group is not right:
                group.discard(health.exit.id)
        if right is not None:
            right.add(health.exit.id)

    def members(self) -> Iterator[str]:
        """All that are not out."""
        for group in (self.proven, self.fresh, self.cooling):
            yield from group


class HostView(Struct):
    """One host, seen over all exits."""

    pairs: dict[str, PairHealth] = field(default_factory=dict)
    #: exits that the host has let through and that do not rest
    welcome: DrawSet = field(default_factory=DrawSet)
    #: exits with a fault since the last good answer of this host
    faults: set[str] = field(default_factory=set)
    in_flight: int = 0
    passes: int = 0
    refusals: int = 0
    #: blocks since the host last let anything through
    blocks_in_row: int = 0
    paused_until: float = 0.0
    #: seconds of a quick answer here, and how many answers it is learned from
    quick: float | None = None
    slowest: float = 0.0
    answers: int = 0

    @property
    def welcome_share(self) -> float:
        """Expected share of unknown exits that the host lets through."""
        return (self.passes + 4.0) / (self.passes + self.refusals + 5.0)

    def fails_everywhere(self, exit_id: str) -> bool:
        """Whether at least two other exits failed here since the host last answered."""
        return len(self.faults - {exit_id}) >= 2

    def lets_pass(self) -> bool:
        """Whether others get through, so that a fault may be an exit's alone."""
        return self.passes > 0 and self.blocks_in_row < WALL

    def pauses(self, now: float) -> bool:
        """Whether some exit may be paused here."""
        return self.paused_until > now

    def passed(self, elapsed: float | None) -> None:
        """A good answer came, ``elapsed`` seconds after it was asked for."""
        self.passes += 1
        self.blocks_in_row = 0
        self.faults.clear()
        if elapsed is None:
            return
        self.answers += 1
        self.slowest = max(elapsed, self.slowest * 0.98)
        if self.quick is None:
            self.quick = elapsed
        # Down fast, up slowly: a low quantile, so that slow exits do not set the measure.
        self.quick += (0.2 if elapsed < self.quick else 0.02) * (elapsed - self.quick)

    def refused(self) -> None:
        """A block came."""
        self.refusals += 1
        self.blocks_in_row += 1
        self.faults.clear()

    def speed(self, pair: PairHealth) -> float:
        """1 for an exit of ordinary speed here, less for a slow one."""
        if self.quick is None or pair.elapsed is None:
            return 1.0
        ordinary = 2.0 * self.quick
        return 1.0 if pair.elapsed <= ordinary else ordinary / pair.elapsed

    def welcomes(self, exit_id: str, pair: PairHealth, now: float) -> None:
        """Sort an exit in or out after something happened to it."""
        if pair.ok and pair.rest_until <= now:
            self.welcome.add(exit_id)
        else:
            self.welcome.discard(exit_id)


def learned_timeout(view: HostView, pair: PairHealth | None, cap: float) -> float:
    """A deadline from what is usual here, doubled for each time it was missed in a row."""
    if pair is not None and pair.answers >= ENOUGH and pair.elapsed is not None:
        usual = pair.elapsed + 4.0 * pair.deviation
    elif view.answers >= ENOUGH_OF_ALL:
        usual = 2.0 * view.slowest
    else:
        return cap
    strain = max(pair.strain if pair else 0, len(view.faults))
    return min(cap, max(SHORTEST_TIMEOUT, 3.0 * usual) * 2.0 ** min(strain, 16))
