"""What each signal changes: the table between an attempt's end and the beliefs.

Beliefs themselves are health.py's; who gives which signal is attribution.py's.
"""

from __future__ import annotations

import random

from retryscrape.policy.exit_views import HostView
from retryscrape.policy.health import SURPRISE, ExitHealth, PairHealth, Signal


def learn(
    signal: Signal,
    *,
    health: ExitHealth,
    pair: PairHealth,
    view: HostView,
    host: str,
    now: float,
    elapsed: float | None,
    unproven: bool,
    rng: random.Random,
) -> None:
    """Change what is believed of an exit, of it on this host, and of the host. ``unproven``:
    nothing ever came through it, while others work."""
    exit_id = health.exit.id
    if signal is Signal.DEAD and health.ok and view.fails_everywhere(exit_id):
        # Every exit fails on this host, and this one works elsewhere: the host's fault.
        signal = Signal.UNSURE
    if signal is Signal.GOOD:
        health.ok += 1
        health.alive(now, elapsed)
        pair.answered(now, elapsed)
        view.passed(elapsed)
    elif signal is Signal.BLOCK:
        health.alive(now, None)
        # A first block on a pair that never worked settles it; one that worked gets another.
        pair.refused(now, 1.0 if pair.ok else 2.0, SURPRISE, health.mean)
        view.refused()
    elif signal is Signal.UNSURE:
        if _doubt(health, pair, view, host, now, elapsed, unproven):
            health.failed(now, rng)
    elif signal is Signal.DEAD:
        health.fail += 1
        pair.fail += 1
        view.faults.add(exit_id)
        health.failed(now, rng)
    elif signal is Signal.AUTH:
        health.fail += 1
        health.out = True


def _doubt(
    health: ExitHealth,
    pair: PairHealth,
    view: HostView,
    host: str,
    now: float,
    elapsed: float | None,
    unproven: bool,
) -> bool:
    """Of unknown origin: decided by comparing. A host that fails through every exit is
    at fault. An exit is that fails on several hosts, or that never worked while this host
    lets others through (then True)."""
    health.fail += 1
    shared = view.fails_everywhere(health.exit.id)
    pair.refused(now, 0.1 if shared else 0.5, 1.0 if shared else 0.8, health.mean)
    pair.slow(elapsed)
    view.faults.add(health.exit.id)
    if shared:
        return health.hopeless(host)
    return health.doubted(host, now) or (unproven and view.lets_pass())
