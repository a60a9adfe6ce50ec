"""What a line of a failures feed says of earlier passes, checked value by value.

A feed may have been edited, or written by another version: what is of the
wrong type is left out, never passed on into a ledger.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any

from retryscrape.manifest.judge import printable
from retryscrape.policy.outcomes import ErrorClass, Kind, Outcome, Status

#: Largest count taken from a feed: what a 64-bit column holds.
_MAX_COUNT = 2**63 - 1


def _member(kind: type[StrEnum]) -> Callable[[Any], StrEnum | None]:
    known = {member.value: member for member in kind}
    return lambda value: known.get(value) if isinstance(value, str) else None


def _count(value: Any) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MAX_COUNT:
        return value
    return None


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


def _flag(value: Any) -> bool | None:
    return bool(value) if isinstance(value, bool | int) else None


def _text(value: Any) -> str | None:
    return printable(value) if isinstance(value, str) else None


_PARTS: Mapping[str, Callable[[Any], Any]] = {
    "status": _member(Status),
    "outcome": _member(Outcome),
    "error_class": _member(ErrorClass),
    "kind": _member(Kind),
    "http_code": _count,
    "vendor": _text,
    "reason": _text,
    "attempts": _count,
    "passes": _count,
    "cost": _number,
    "bytes": _count,
    "rung": _text,
    "escalate": _flag,
    "not_before": _number,
    "last_error_at": _text,
    "final_url": _text,
    "job_id": _text,
}


def read_prior(record: Mapping[str, Any]) -> dict[str, Any]:
    """The usable parts of a feed's record; ``error_class`` is always there, perhaps None."""
    found = {name: check(record[name]) for name, check in _PARTS.items() if name in record}
    return {
        name: value for name, value in found.items() if value is not None or name == "error_class"
    }
