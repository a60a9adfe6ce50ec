"""The merge rule: two pieces of evidence about one row become one.

Pure, and the only place that says which evidence wins. The function is
commutative, associative and idempotent, so that writing twice, late or out of
order gives the same ledger.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from operator import attrgetter
from typing import Any

from msgspec.structs import replace

from retryscrape.ledger.records import Result
from retryscrape.policy.outcomes import Status

_COMMON = ("line", "host", "fields", "same_as", "attempts", "passes", "cost", "bytes")
_common = attrgetter(*_COMMON)
# A parked row (pending) says less than a failure, a failure less than a page.
_RANK = {Status.PENDING: 0, Status.FAILED: 1, Status.SUCCESS: 2}


def merge(old: Result | None, new: Result) -> Result:
    """What the ledger holds after both: success wins, then the latest failure.

    Totals are the greater ones, and what belongs to the line of the manifest
    (line, host, fields, same_as) is kept from whichever side has it.
    """
    if old is None:
        return _settled(new)
    first, second = _settled(old), _settled(new)
    winner = first if _prefers(first, second) else second
    common = (
        _least(first.line, second.line),
        _least(first.host or None, second.host or None) or "",
        _fields(first.fields, second.fields),
        _least(first.same_as, second.same_as),
        max(first.attempts, second.attempts),
        max(first.passes, second.passes),
        max(first.cost, second.cost),
        max(first.bytes, second.bytes),
    )
    # Nearly always the winner has all of it: a copy costs more than the rest of the merge.
    if common == _common(winner):
        return winner
    return replace(winner, **dict(zip(_COMMON, common, strict=True)))


def _prefers(first: Result, second: Result) -> bool:
    ranks = _RANK[first.status], _RANK[second.status]
    if ranks[0] != ranks[1]:
        return ranks[0] > ranks[1]
    return _evidence(first) >= _evidence(second)


def _settled(result: Result) -> Result:
    """A success carries no trace of earlier failures: the history is in ``attempts``."""
    if result.status is not Status.SUCCESS:
        return result
    past = (result.error_class, result.reason, result.not_before, result.last_error_at)
    if past == (None,) * len(past):
        return result
    return replace(result, error_class=None, reason=None, not_before=None, last_error_at=None)


def _evidence(result: Result) -> tuple[Any, ...]:
    """A total order over everything that the winner decides, latest failure last.

    Without the "Z" two ISO times compare as texts even if only one has a
    fraction. Of two parked states the one with the later time wins. What is
    equal in time is ordered by content: any order will do if it is one.
    """
    return (
        (result.last_error_at or "").rstrip("Z"),
        result.not_before or 0.0,
        *(_orderable(getattr(result, name)) for name in _WINNER_TAKES),
    )


_WINNER_TAKES = (
    "outcome",
    "error_class",
    "http_code",
    "vendor",
    "kind",
    "reason",
    "rung",
    "escalate",
    "not_before",
    "last_error_at",
    "final_url",
    "page_path",
    "page_sha256",
    "page_bytes",
    "content_type",
    "job_id",
)


def _orderable(value: Any) -> tuple[bool, Any]:
    return (value is not None, "" if value is None else value)


def _least(first: Any, second: Any) -> Any:
    if first is None or second is None:
        return second if first is None else first
    return min(first, second)


def _fields(
    first: Mapping[str, Any] | None, second: Mapping[str, Any] | None
) -> Mapping[str, Any] | None:
    if first is second or first == second or second is None:
        return first
    if first is None:
        return second
    return min(first, second, key=_canonical)


def _canonical(fields: Mapping[str, Any]) -> str:
    return json.dumps(fields, sort_keys=True, default=str)
