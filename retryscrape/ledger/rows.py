"""Records to database rows and back. No SQL here: only order and types of columns."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, TypeVar

from msgspec.structs import replace

from retryscrape.ledger.records import AttemptRecord, Known, NewRow, Result
from retryscrape.ledger.schema import attempts, entries
from retryscrape.policy.outcomes import ErrorClass, Kind, Outcome, Status

ENTRY_COLUMNS: tuple[str, ...] = tuple(entries.c.keys())
ATTEMPT_COLUMNS: tuple[str, ...] = tuple(attempts.c.keys())
KNOWN_COLUMNS: tuple[str, ...] = tuple(Known.__struct_fields__)

#: A rejected line's key is its raw text, at most this long (DESIGN.md section 4).
REJECTED_KEY = 2000

_entry_values = attrgetter(*ENTRY_COLUMNS)
_attempt_values = attrgetter(*ATTEMPT_COLUMNS)
_FIELDS = ENTRY_COLUMNS.index("fields")
_LINE = ENTRY_COLUMNS.index("line")
_ESCALATE = ENTRY_COLUMNS.index("escalate")
# The drivers would store the members themselves by name, or slowly.
_ENTRY_ENUMS = tuple(
    ENTRY_COLUMNS.index(name) for name in ("status", "outcome", "error_class", "kind")
)
_ENTRY_TEXTS = tuple(
    ENTRY_COLUMNS.index(name)
    for name in ("batch_id", "url", "host", "reason", "final_url", "content_type", "same_as")
)
_ATTEMPT_ENUMS = tuple(ATTEMPT_COLUMNS.index(name) for name in ("outcome", "kind"))
_ATTEMPT_TEXTS = tuple(
    ATTEMPT_COLUMNS.index(name) for name in ("batch_id", "url", "evidence", "reason", "decision")
)

_OUTCOMES = {str(member.value): member for member in Outcome}
_CLASSES = {str(member.value): member for member in ErrorClass}
_KINDS = {str(member.value): member for member in Kind}
_STATUSES = {str(member.value): member for member in Status}


def clean(text: str) -> str:
    """``text`` as every database can hold it: no NUL (PostgreSQL), no lone surrogates (UTF-8)."""
    if text.isprintable():  # one quick look; false for both, and for a few harmless ones
        return text
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


def _plain(row: list[Any], enums: Iterable[int], texts: Iterable[int]) -> None:
    """Enum members as their values, texts cleaned; a page has twenty of them, so no calls."""
    for index in enums:
        if row[index] is not None:
            row[index] = row[index]._value_
    for index in texts:
        value = row[index]
        if value is not None and not value.isprintable():
            row[index] = clean(value)


def entry_row(result: Result) -> tuple[Any, ...]:
    """``result`` in the order of ENTRY_COLUMNS."""
    row = list(_entry_values(result))
    _plain(row, _ENTRY_ENUMS, _ENTRY_TEXTS)
    row[_LINE] = row[_LINE] or 0
    row[_ESCALATE] = int(row[_ESCALATE])
    row[_FIELDS] = fields_text(row[_FIELDS])
    return tuple(row)


def attempt_row(record: AttemptRecord) -> tuple[Any, ...]:
    """``record`` in the order of ATTEMPT_COLUMNS."""
    row = list(_attempt_values(record))
    _plain(row, _ATTEMPT_ENUMS, _ATTEMPT_TEXTS)
    return tuple(row)


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


def fields_text(fields: Mapping[str, Any] | None) -> str | None:
    """The other columns of a manifest's line as JSON text."""
    if not fields:
        return None
    # ASCII escapes keep NULs and surrogates out of the database and lose nothing.
    return json.dumps(dict(fields), default=str)


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
