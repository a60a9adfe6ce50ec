"""How long our own waits are: backoff between retries, throttle pauses, re-drive pacing.

Arithmetic only: who waits, and what a server asked for, is decided elsewhere.
"""

from __future__ import annotations

import random
from enum import StrEnum

from msgspec import Struct

# 2.0 ** 1024 overflows; every cap in use is reached long before 2 ** 64.
_HIGHEST_POWER = 64


class Jitter(StrEnum):
    """The two kinds of backoff of RETRYSCRAPE_BACKOFF."""

    FULL = "full"
    DECORRELATED = "decorrelated"


def doubled(base: float, n: int, cap: float) -> float:
    """``base * 2**n`` seconds, at most ``cap``; safe for every ``n``."""
    return min(cap, base * 2.0 ** max(0, min(n, _HIGHEST_POWER)))


class Backoff(Struct, frozen=True, kw_only=True):
    """The wait before a retry. ``base`` and ``cap`` in seconds."""

    kind: Jitter = Jitter.FULL
    base: float = 1.0
    cap: float = 60.0

    def delay(self, n: int, rng: random.Random, previous: float = 0.0) -> float:
        """Seconds before retry ``n`` (0 for the first); ``previous`` is the wait before it."""
        if self.kind is Jitter.DECORRELATED:
            return decorrelated(previous, base=self.base, cap=self.cap, rng=rng)
        return full_jitter(n, base=self.base, cap=self.cap, rng=rng)


def full_jitter(n: int, *, base: float, cap: float, rng: random.Random) -> float:
    """Uniform over 0 to ``min(cap, base * 2**n)`` seconds: spreads a crowd the widest."""
    return rng.uniform(0.0, doubled(base, n, cap))


def decorrelated(previous: float, *, base: float, cap: float, rng: random.Random) -> float:
    """Uniform over ``base`` to three times the wait before, at most ``cap`` seconds."""
    low = min(base, cap)
    high = min(cap, max(base, previous * 3.0))
    return rng.uniform(low, high)


def throttle_pause(n: int, *, base: float, cap: float, rng: random.Random) -> float:
    """The pause after the ``n``-th 429 in a row (0 for the first) that named no wait.

    Never shorter than ``base * 2**n``, at most a quarter longer: asking early is
    what got us throttled, so the jitter only goes up. At most ``cap`` seconds.
    """
    return min(cap, doubled(base, n, cap) * rng.uniform(1.0, 1.25))


def redrive_delay(
    passes: int, *, base: float, jitter: tuple[float, float], rng: random.Random
) -> float:
    """Seconds before the next pass when ``passes`` (1 or more) are done."""
    return doubled(base, passes - 1, cap=86400.0) + rng.uniform(*jitter)
