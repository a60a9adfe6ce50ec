"""Rows of the database as records, and the first state of a line. No SQL here.

The way there is forms.py's.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from msgspec.structs import replace

from retryscrape.ledger.forms import ATTEMPT_COLUMNS, ENTRY_COLUMNS
from retryscrape.ledger.records import AttemptRecord, Known, NewRow, Result
from retryscrape.policy.outcomes import ErrorClass, Kind, Outcome, Status

KNOWN_COLUMNS: tuple[str, ...] = tuple(Known.__struct_fields__)

#: A rejected line's key is its raw text, at most this long (DESIGN.md section 4).
REJECTED_KEY = 2000

_OUTCOMES = {str(member.value): member for member in Outcome}
_CLASSES = {str(member.value): member for member in ErrorClass}
_KINDS = {str(member.value): member for member in Kind}
_STATUSES = {str(member.value): member for member in Status}


_Record = TypeVar("_Record")
_Member = TypeVar("_Member")


def _reader(
    record: type[_Record], columns: Sequence[str], converters: Mapping[str, Callable[[Any], Any]]
) -> Callable[[Sequence[Any]], _Record]:
    """A function that makes a ``record`` of a row with these columns."""
    converted = [(columns.index(name), convert) for name, convert in converters.items()]

    def read(row: Sequence[Any]) -> _Record:
        values = list(row)
        for index, convert in converted:
            values[index] = convert(values[index])
        return record(**dict(zip(columns, values, strict=True)))

    return read


def parse_fields(text: str | None) -> Mapping[str, Any] | None:
    """The reverse of ``fields_text``; what is no JSON object is nothing."""
    if not text:
        return None
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


_ENTRY_TYPES: Mapping[str, Callable[[Any], Any]] = {
    "status": _STATUSES.__getitem__,
    "outcome": _OUTCOMES.get,
    "error_class": _CLASSES.get,
    "kind": _KINDS.get,
    "line": lambda line: line or None,
    "escalate": bool,
    "fields": parse_fields,
}
_ATTEMPT_TYPES: Mapping[str, Callable[[Any], Any]] = {
    "outcome": _OUTCOMES.__getitem__,
    "kind": _KINDS.get,
}

#: A row in the order of ENTRY_COLUMNS, KNOWN_COLUMNS, ATTEMPT_COLUMNS as a record.
to_result = _reader(Result, ENTRY_COLUMNS, _ENTRY_TYPES)
to_known = _reader(Known, KNOWN_COLUMNS, _ENTRY_TYPES)
to_attempt = _reader(AttemptRecord, ATTEMPT_COLUMNS, _ATTEMPT_TYPES)


def new_entry(batch_id: str, row: NewRow, key: str, *, job_id: str | None, at: str) -> Result:
    """The first state of a line: rejected, what a failures feed says of it, or pending."""
    first = Result(
        batch_id=batch_id,
        url=key,
        line=row.line,
        host=row.host,
        status=Status.PENDING,
        outcome=None,
        job_id=job_id,
        fields=row.fields,
        same_as=row.same_as,
    )
    if row.prior is not None:
        return _with_prior(first, row.prior)
    if row.rejected is None:
        return first
    return replace(
        first,
        status=Status.FAILED,
        outcome=Outcome.REJECTED,
        error_class=ErrorClass.PERMANENT,
        reason=row.rejected,
        last_error_at=at,
        job_id=job_id,
    )


# A failures feed is a file that people edit and move about: each value is taken
# if it is of its kind, and otherwise left out.
_PRIOR_TEXTS = ("vendor", "reason", "rung", "last_error_at", "final_url", "job_id")
_PRIOR_COUNTS = ("attempts", "passes")


def _with_prior(first: Result, prior: Mapping[str, Any]) -> Result:
    outcome = _member(_OUTCOMES, prior.get("outcome"))
    failed = prior.get("status") == Status.FAILED.value and outcome is not None
    values: dict[str, Any] = {
        name: value for name in _PRIOR_TEXTS if isinstance(value := prior.get(name), str)
    }
    values |= {
        name: int(value)
        for name in _PRIOR_COUNTS
        if (value := _number(prior.get(name))) is not None
    }
    values["cost"] = _number(prior.get("cost")) or 0.0
    values["not_before"] = _number(prior.get("not_before"))
    values["escalate"] = prior.get("escalate") in (True, 1)
    code = _number(prior.get("http_code"))
    values["http_code"] = int(code) if code is not None and code < 1000 else None
    if failed:
        values["status"] = Status.FAILED
        values["outcome"] = outcome
        values["error_class"] = _member(_CLASSES, prior.get("error_class")) or ErrorClass.RETRYABLE
    return replace(first, **values)


def _member(members: Mapping[str, _Member], value: Any) -> _Member | None:
    return members.get(value) if isinstance(value, str) else None


def _number(value: Any) -> float | None:
    """A finite number from zero to what every integer column holds."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value < 2**53 else None
