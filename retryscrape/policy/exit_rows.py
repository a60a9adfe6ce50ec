"""What is believed of exits as plain rows, so that health survives the run.

Conversion only: the ledger stores the rows, exits.py chooses by the beliefs.
"""

from __future__ import annotations

import json
import math
from typing import Any, NamedTuple, Protocol

from retryscrape.policy.health import Belief, ExitHealth, PairHealth


class ExitRow(NamedTuple):
    """An exit on a host (``""``: everywhere). ``elapsed`` in seconds, ``state`` JSON text."""

    exit: str
    host: str
    ok: float
    fail: float
    bytes: int
    cost: float
    elapsed: float | None
    updated_at: float | None
    state: str


class ExitRowLike(Protocol):
    """Any row with these columns (the ledger's exits table)."""

    @property
    def exit(self) -> str: ...
    @property
    def host(self) -> str: ...
    @property
    def ok(self) -> float: ...
    @property
    def fail(self) -> float: ...
    @property
    def bytes(self) -> int: ...
    @property
    def cost(self) -> float: ...
    @property
    def elapsed(self) -> float | None: ...
    @property
    def state(self) -> str | None: ...


def row_of(exit_id: str, host: str, health: ExitHealth | PairHealth) -> ExitRow:
    """One row for the ledger."""
    belief = health.belief
    state: dict[str, Any] = {
        "good": round(belief.good, 3),
        "bad": round(belief.bad, 3),
        "at": belief.at,
    }
    if isinstance(health, ExitHealth):
        state["failures"] = health.failures
    else:
        state |= {
            "deviation": health.deviation,
            "answers": health.answers,
            "rests": health.rests,
            "rest_until": health.rest_until,
        }
    return ExitRow(
        exit_id,
        host,
        health.ok,
        health.fail,
        health.bytes,
        health.cost,
        health.elapsed,
        belief.at or None,
        json.dumps(state),
    )


def take_up(row: ExitRowLike, health: ExitHealth | PairHealth) -> None:
    """Put a stored row's evidence into ``health``. A damaged state counts as none."""
    state = _state(row.state)
    health.ok, health.fail = int(row.ok), int(row.fail)
    health.bytes, health.cost, health.elapsed = row.bytes, row.cost, row.elapsed
    health.belief = Belief(*(_number(state, name) for name in ("good", "bad", "at")))
    if isinstance(health, PairHealth):
        health.deviation = _number(state, "deviation")
        health.answers = int(_number(state, "answers"))
        health.rests = int(_number(state, "rests"))
        health.rest_until = _number(state, "rest_until")
        return
    health.seen = bool(health.ok or health.fail)
    # One that was dead is asked once more before it is believed: hours may have passed,
    # and failures of another run must not end this one. Rejected credentials likewise.
    health.failures = 1 if _number(state, "failures") else 0


def _state(text: str | None) -> dict[str, Any]:
    try:
        state = json.loads(text or "{}")
    except ValueError:
        return {}
    return state if isinstance(state, dict) else {}


def _number(state: dict[str, Any], name: str) -> float:
    value = state.get(name)
    if not isinstance(value, int | float) or not math.isfinite(value):
        return 0.0
    return max(0.0, float(value))
