"""When ``scrapy redrive`` goes on, waits or stops. Pure: a worklist and the time in, a step out.

No SQL (worklist.py counts), no processes (crawl/passes.py runs them). DESIGN.md section 9.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from retryscrape.policy.outcomes import Outcome


class Stop(StrEnum):
    """Why a loop ended: the four rules, what ends it from outside, then what stopped its last
    pass early and would stop the next one too."""

    CLEAN = "clean"
    BUDGET = "budget"
    DEADLINE = "deadline"
    FLOOR = "floor"
    INTERRUPTED = "interrupted"
    FAILED = "failed"
    OVER_BUDGET = "over_budget"
    STOP_RULE = "stop_rule"
    NO_EXIT = "no_exit"
    DISK_FULL = "disk_full"
    LEDGER_FAILED = "ledger_failed"
    API_STOPPED = "api_stopped"


#: Loops that the same command goes on with; a killed one has no reason at all.
RESUMED = frozenset({None, Stop.INTERRUPTED.value})

#: The same words as the finish reasons of a run that stops itself.
EARLY = frozenset(
    {
        Stop.OVER_BUDGET,
        Stop.STOP_RULE,
        Stop.NO_EXIT,
        Stop.DISK_FULL,
        Stop.LEDGER_FAILED,
        Stop.API_STOPPED,
    }
)

#: Outcomes that say nothing of the target: such a row was not given its pass.
NOT_ASKED = frozenset({None, Outcome.NO_RESULT})


class Rules(Struct, frozen=True, kw_only=True):
    """The settings of the loop: counts, and seconds."""

    passes: int = 3
    deadline: float = 2700.0
    floor: int = 10
    base: float = 30.0
    jitter: tuple[float, float] = (5.0, 15.0)
    max_wait: float = 300.0


class Worklist(Struct, frozen=True, kw_only=True):
    """The open rows of a batch, counted by what a loop can do for them.

    ``due`` rows may be asked for in a pass that starts now; ``waiting`` ones at a
    time (epoch seconds, ``first`` to ``last``) before the deadline; ``parked``
    ones only after it; ``spent`` ones have had all their passes.
    """

    due: int = 0
    waiting: int = 0
    first: float | None = None
    last: float | None = None
    parked: int = 0
    spent: int = 0

    @property
    def size(self) -> int:
        """Rows that this loop may still get."""
        return self.due + self.waiting

    @property
    def open(self) -> int:
        """All rows that are not done and not given up."""
        return self.size + self.parked + self.spent


class Step(Struct, frozen=True, kw_only=True):
    """What comes next: ``stop``, or a pass that starts ``at`` (epoch seconds)."""

    stop: Stop | None = None
    at: float = 0.0


def stopped_by(finish_reason: str | None) -> Stop | None:
    """The reason of a pass that stopped itself; None for one that came to its end."""
    return Stop(finish_reason) if finish_reason in EARLY else None


def spent_up(outcome: Outcome | None, passes: int, limit: int) -> bool:
    """Whether a row has had its passes. ``worklist.py`` says the same in SQL."""
    return passes >= limit and outcome not in NOT_ASKED


def pace(passes: int, rules: Rules, draw: float) -> float:
    """Seconds to wait after ``passes`` passes of this loop; ``draw`` is from 0 to 1.

    None before the first, then base x 2^(passes-1) and the jitter (DESIGN.md section 6).
    """
    if passes == 0:
        return 0.0
    low, high = rules.jitter
    return float(rules.base * 2 ** (passes - 1) + low + (high - low) * draw)


def next_step(
    work: Worklist, rules: Rules, *, passes: int, ends_at: float, pause: float, now: float
) -> Step:
    """The stop rule that holds, or when the next pass starts.

    ``passes`` are those that this loop has had, ``ends_at`` is its deadline (epoch
    seconds), ``pause`` what ``pace`` asks for.
    """
    stop = _stop(work, rules, passes, ends_at, now)
    if stop is not None:
        return Step(stop=stop)
    at = now + pause
    if not work.due:
        at = max(at, work.first or 0.0)
    if work.last is not None and passes + 1 == rules.passes:
        at = max(at, work.last)  # no later pass could take those that wait
    return Step(stop=Stop.DEADLINE) if at >= ends_at else Step(at=at)


def _stop(work: Worklist, rules: Rules, passes: int, ends_at: float, now: float) -> Stop | None:
    if not work.open:
        return Stop.CLEAN
    if passes >= rules.passes:
        return Stop.BUDGET
    if now >= ends_at:
        return Stop.DEADLINE
    if not work.size:
        return Stop.DEADLINE if work.parked else Stop.BUDGET
    # Rows that only wait for their time have not been asked: the floor is not for them.
    if passes and work.size < rules.floor and not work.waiting:
        return Stop.FLOOR
    return None
