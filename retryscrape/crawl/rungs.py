"""Which rungs of the ladder can be used now: is there a browser, are there such exits.

The ladder itself is ``policy.ladder``; what a rung's loss means for a URL is decided there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from retryscrape.policy.exits import Pool
from retryscrape.policy.ladder import Ladder, Rung, parse_rung


class Rungs:
    """The rungs as configured, the ways of fetching that exist, and the rungs without exits."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        self.bases = frozenset(parse_rung(name).base for name in names)
        self.lost: dict[str, str] = {}

    def ladder(self) -> Ladder:
        """The ladder as it can be used now."""
        usable = (name for name in self.names if parse_rung(name).base in self.bases)
        return Ladder(self.names, frozenset(name for name in usable if name not in self.lost))

    def look(self, pool: Pool | None, now: float) -> Iterator[str]:
        """Look which rungs have exits; a sentence for each that has just lost them."""
        for name in self.names:
            why = lack(parse_rung(name), pool, now)
            if why is None:
                self.lost.pop(name, None)
            elif name not in self.lost:
                self.lost[name] = why
                yield f"Rung {name} is unavailable: {why}"


def lack(rung: Rung, pool: Pool | None, now: float) -> str | None:
    """Why a rung has no exit; None if it has, or needs none of its own."""
    if rung.base == "api":
        return None
    if pool is None:
        needs = rung.tier or rung.country
        return "it needs proxies (RETRYSCRAPE_PROXIES), and there are none" if needs else None
    if not pool.members(rung.tier, rung.country):
        words = [f"tier {rung.tier}"] if rung.tier else []
        words += [f"country {rung.country}"] if rung.country else []
        return f"no proxy has {' and '.join(words)}" if words else None
    if rung.tier or rung.country or pool.reserves:
        return pool.exhausted(now, tier=rung.tier, country=rung.country)
    return None


def reserved_tiers(names: Iterable[str]) -> frozenset[str]:
    """Tiers that a rung names: rungs that name none leave those exits alone, or ``http``
    would spend what ``http:residential`` is kept for."""
    rungs = map(parse_rung, names)
    return frozenset(rung.tier for rung in rungs if rung.tier and rung.base != "api")
