"""The state of a pool in words, for the log and the end of a run.

Sentences only: nothing here decides.
"""

from __future__ import annotations

from collections.abc import Collection

from retryscrape.policy.health import ExitHealth

_STATES = ("work", "cannot be reached", "rejected the credentials (407)", "not tried")


def exhausted(members: Collection[ExitHealth]) -> str | None:
    """The sentence that ends the run when no exit is left, else None."""
    if any(not health.out and not health.dead for health in members):
        return None
    rejected = sum(health.out for health in members)
    if rejected == len(members):
        return "every proxy rejected the credentials (407)"
    parts = [f"{len(members) - rejected} of {len(members)} cannot be reached"]
    if rejected:
        parts.append(f"{rejected} rejected the credentials (407)")
    return f"no usable proxy left: {', '.join(parts)}"


def describe(members: Collection[ExitHealth]) -> str:
    """``12 exits: 8 work, 3 cannot be reached, 1 not tried``."""
    states = [_state(health) for health in members]
    counts = ", ".join(f"{states.count(name)} {name}" for name in _STATES if name in states)
    return f"{len(states)} {'exit' if len(states) == 1 else 'exits'}: {counts}"


def _state(health: ExitHealth) -> str:
    if health.out:
        return _STATES[2]
    if health.failures:
        return _STATES[1]
    return _STATES[0] if health.seen else _STATES[3]
