"""What is believed of an exit, everywhere and on one host, and how signals change it.

Evidence only; which exit is taken is exits.py's matter, whose fault an answer was is
decided by whoever gives the signal.
"""

from __future__ import annotations

import math
import random
from enum import StrEnum

from msgspec import Struct, field

from retryscrape.policy.proxy_entry import Exit

#: Old evidence counts half after this many seconds: an exit that recovered is found again.
HALF_LIFE = 1800.0
#: More evidence than this changes no choice, but would make a ban slow to notice.
MOST_EVIDENCE = 20.0
#: What is left of an exit's merits when it is blocked or dead: the latest evidence wins.
SURPRISE = 0.3
#: Weight of what the exit is elsewhere, in the belief on a host that has not seen it.
PRIOR = 1.5
#: What is expected of an exit that nobody has tried: unknown ones are worth a try.
UNKNOWN = 0.9
#: Below this expected share of successes an exit rests on the host.
REST_BELOW = 0.5
#: Seconds that an exit rests on a host which does not let it through, by turn.
RESTS = (60.0, 300.0, 1200.0, 3600.0)
#: Seconds until a dead exit is probed, by failures in a row: one that never worked ...
COOLING_NEW = (2.0, 4.0, 20.0, 90.0, 300.0, 600.0)
#: ... and one that did.
COOLING_PROVEN = (2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 300.0)
#: A probe that has not come back after this many seconds never will.
PROBE_LOST = 600.0
#: Failures in a row, each of its own time, after which an exit counts as gone for good.
DEAD_AFTER = 3
#: Faults of unknown origin in a row, over at least two hosts, that amount to one failure.
DOUBTS = 4
#: Hosts on which an exit that never worked must fail before it is given up with all others.
HOPELESS = 3


class Signal(StrEnum):
    """What an attempt says of the exit it left through."""

    #: ok, gone, or any honest answer of the target
    GOOD = "good"
    #: blocked: against it on this host only; it is alive
    BLOCK = "block"
    #: the proxy cannot be reached, or makes no tunnel: against it everywhere
    DEAD = "dead"
    #: 407, as an answer or for a tunnel: out for the run (DESIGN.md section 7)
    AUTH = "auth"
    #: the exit or the target, nobody knows: mildly against it
    UNSURE = "unsure"
    #: says nothing
    NEUTRAL = "neutral"


class Belief(Struct):
    """Successes and failures, fading. ``at`` is the epoch second they were last faded."""

    good: float = 0.0
    bad: float = 0.0
    at: float = 0.0

    def fade(self, now: float) -> None:
        """Let old evidence lose weight."""
        if now - self.at > 1.0:
            left = 0.5 ** ((now - self.at) / HALF_LIFE) if self.at else 1.0
            self.good *= left
            self.bad *= left
            self.at = now

    def better(self, now: float) -> None:
        """A success; earlier failures weigh less, so that a recovery shows soon."""
        self.fade(now)
        self.good = min(MOST_EVIDENCE, self.good + 1.0)
        self.bad *= 0.7

    def worse(self, now: float, weight: float, kept: float) -> None:
        """A failure of ``weight``; ``kept`` is the share of merits that is left."""
        self.fade(now)
        self.good *= kept
        self.bad = min(MOST_EVIDENCE, self.bad + weight)

    def mean(self, prior: float) -> float:
        """Expected share of successes, with ``prior`` (0 to 1) for what is not known."""
        return (self.good + PRIOR * prior) / (self.good + self.bad + PRIOR)

    def sample(self, prior: float, rng: random.Random) -> float:
        """A share of successes drawn from the belief (Thompson sampling).

        Drawn from a normal with the beta distribution's mean and variance: a fifth
        of the time of ``betavariate``, and this is on every request's path.
        """
        weight = self.good + self.bad + PRIOR
        mean = (self.good + PRIOR * prior) / weight
        spread = math.sqrt(mean * (1.0 - mean) / (weight + 1.0))
        drawn = mean + rng.gauss(0.0, 1.0) * spread
        return min(1.0, max(0.0, drawn))


class ExitHealth(Struct):
    """An exit everywhere. ``ok``, ``fail`` and ``bytes`` are plain counts for reports."""

    exit: Exit
    belief: Belief = field(default_factory=Belief)
    ok: int = 0
    fail: int = 0
    bytes: int = 0
    cost: float = 0.0
    elapsed: float | None = None
    in_flight: int = 0
    sent: float = 0.0
    out: bool = False
    #: failures in a row, and until when no request leaves through it
    failures: int = 0
    until: float = 0.0
    #: requests under way at the last failure: what they come to is the same event
    same_event: int = 0
    #: hosts and number of the faults of unknown origin since the last answer
    doubtful_hosts: set[str] = field(default_factory=set)
    doubts: int = 0
    seen: bool = False

    @property
    def proven(self) -> bool:
        """Whether it ever brought an answer of a target."""
        return self.ok > 0 or self.belief.good > 0.0

    @property
    def mean(self) -> float:
        """Expected share of attempts that reach the target."""
        return self.belief.mean(UNKNOWN)

    def cooling(self, now: float) -> bool:
        """Whether nothing may leave: it failed, and its time is not up or its probe is out."""
        if not self.failures:
            return False
        return self.until > now or (self.in_flight > 0 and now - self.sent < PROBE_LOST)

    def alive(self, now: float, elapsed: float | None) -> None:
        """It brought an answer of the target; ``elapsed`` seconds if that was a good one."""
        self.belief.better(now)
        if elapsed is not None:
            before = elapsed if self.elapsed is None else self.elapsed
            self.elapsed = before + 0.2 * (elapsed - before)
        self.seen = True
        self.failures = self.same_event = self.doubts = 0
        self.until = 0.0
        self.doubtful_hosts.clear()

    def failed(self, now: float, rng: random.Random) -> None:
        """It could not be reached: it cools down, longer each time."""
        self.belief.worse(now, 1.0, SURPRISE)
        self.seen = True
        if self.same_event:
            self.same_event -= 1
            return
        self.failures += 1
        self.same_event = self.in_flight
        table = COOLING_PROVEN if self.ok else COOLING_NEW
        self.until = now + table[min(self.failures, len(table)) - 1] * rng.uniform(0.9, 1.1)

    def doubted(self, host: str, now: float) -> bool:
        """A fault that may be the target's. True if they amount to a failure of the exit."""
        self.seen = True
        self.doubts += 1
        self.doubtful_hosts.add(host)
        if len(self.doubtful_hosts) < 2:
            return False
        self.belief.worse(now, 0.25, 1.0)
        return self.doubts >= DOUBTS

    def hopeless(self, host: str) -> bool:
        """A fault of a host that fails through every exit. True if nothing ever came through
        this one, whatever the host: where nothing works at all, the run must not go on."""
        self.seen = True
        self.doubts += 1
        self.doubtful_hosts.add(host)
        few = self.doubts < DOUBTS or len(self.doubtful_hosts) < HOPELESS
        return not (self.proven or few)

    @property
    def dead(self) -> bool:
        """Whether it has failed often enough, with nothing in between, to be given up."""
        return self.failures >= DEAD_AFTER


class PairHealth(Struct):
    """An exit on one host."""

    belief: Belief = field(default_factory=Belief)
    ok: int = 0
    fail: int = 0
    bytes: int = 0
    cost: float = 0.0
    #: seconds of a good answer, and their mean deviation (as TCP measures round trips)
    elapsed: float | None = None
    deviation: float = 0.0
    answers: int = 0
    #: how often in a row it was too slow: each doubles the deadline
    strain: int = 0
    sent: float = 0.0
    paused_until: float = 0.0
    rests: int = 0
    rest_until: float = 0.0

    def answered(self, now: float, elapsed: float | None) -> None:
        """The host let a page through."""
        self.belief.better(now)
        self.ok += 1
        self.strain = self.rests = 0
        self.rest_until = 0.0
        if elapsed is not None:
            self._timed(elapsed)
            self.answers += 1

    def refused(self, now: float, weight: float, kept: float, prior: float) -> None:
        """The host did not; below an even chance the exit rests here, longer each time."""
        self.belief.worse(now, weight, kept)
        self.fail += 1
        if self.belief.mean(prior) < REST_BELOW:
            self.rest_until = now + RESTS[min(self.rests, len(RESTS) - 1)]
            self.rests += 1

    def slow(self, elapsed: float | None) -> None:
        """No answer within ``elapsed`` seconds: at least that slow."""
        self.strain = min(self.strain + 1, 8)
        if elapsed is not None and (self.elapsed is None or elapsed > self.elapsed):
            self._timed(elapsed)

    def _timed(self, elapsed: float) -> None:
        if self.elapsed is None:
            self.elapsed, self.deviation = elapsed, elapsed / 2
            return
        self.deviation += 0.25 * (abs(elapsed - self.elapsed) - self.deviation)
        self.elapsed += 0.2 * (elapsed - self.elapsed)
