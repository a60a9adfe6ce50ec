"""Which rungs of the ladder can be used now: is there a browser, are there such exits.

The ladder itself is ``policy.ladder``; what a rung's loss means for a URL is decided there.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from random import Random

from retryscrape.policy.exits import Pool
from retryscrape.policy.ladder import Ladder, Learner, Rung, parse_rung
from retryscrape.policy.ticket import Ticket

logger = logging.getLogger("retryscrape")


class Rungs:
    """The rungs as configured, the ways of fetching that exist, and the rungs without exits.

    ``ladder`` is what can be used now, ``learner`` which of it a host needs.
    """

    def __init__(self, names: tuple[str, ...], *, learn: float = 86400.0) -> None:
        self.names = names
        self.bases = frozenset(parse_rung(name).base for name in names)
        self.lost: dict[str, str] = {}
        self.ladder = self._usable()
        self.learner = Learner(self.ladder, learn=learn)

    def only(self, bases: frozenset[str]) -> None:
        """Take all other ways of fetching off the ladder."""
        self.bases = bases
        self.ladder = self._usable()
        self.learner.use(self.ladder)

    def without(self, base: str, why: str) -> None:
        """The other rungs go on alone."""
        logger.warning("Rung %s is unavailable: %s", base, why)
        self.only(self.bases - {base})

    def look(self, pool: Pool | None, now: float) -> None:
        """Take rungs that have no exit off the ladder, each with one clear line; those that
        have some again come back."""
        for name in self.names:
            why = lack(parse_rung(name), pool, now)
            if why is None:
                self.lost.pop(name, None)
            elif name not in self.lost:
                self.lost[name] = why
                logger.warning("Rung %s is unavailable: %s", name, why)
        self.only(self.bases)

    def nearest(self, rung: str) -> str:
        """The rung itself, or the nearest one that can be used: above it first."""
        ladder = self.ladder
        if ladder.usable(rung):
            return rung
        return ladder.next(rung) or ladder.lower(rung) or rung

    def start(self, ticket: Ticket, url: str, now: float, rng: Random) -> Ticket:
        """The ticket with the rung that its URL starts on, and the address it asks for."""
        rung = ticket.rung if ticket.rung in self.ladder.rungs else ""
        if not rung or not ticket.escalate:
            rung = self.learner.start_rung(ticket.host, now, rng)
        else:
            higher = self.ladder.next(rung)
            rung = higher if higher and self.ladder.usable(higher) else rung
        return ticket.but(rung=rung, start_rung=rung, request_url=url)

    def _usable(self) -> Ladder:
        usable = (name for name in self.names if parse_rung(name).base in self.bases)
        return Ladder(self.names, frozenset(name for name in usable if name not in self.lost))


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
