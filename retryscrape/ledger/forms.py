"""Records as rows of the database: the columns that a statement names, and their values.

No SQL here. Most rows leave most columns at their defaults, and a statement that does not name
those takes half of the time (a line of a manifest: a third).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, Generic, TypeVar

from msgspec import NODEFAULT, Struct
from msgspec.structs import fields

from retryscrape.ledger.records import AttemptRecord, Result
from retryscrape.ledger.schema import attempts, entries

Record = TypeVar("Record", bound=Struct)

ENTRY_COLUMNS: tuple[str, ...] = tuple(entries.c.keys())
ATTEMPT_COLUMNS: tuple[str, ...] = tuple(attempts.c.keys())

# The drivers would store the members themselves by name, or slowly.
_ENUMS = frozenset({"status", "outcome", "error_class", "kind"})
# Texts that come from outside.
_TEXTS = frozenset({"batch_id", "url", "host", "reason", "final_url", "content_type", "same_as"})
_TEXTS |= {"evidence", "decision"}


def clean(text: str) -> str:
    """``text`` as every database can hold it: no NUL (PostgreSQL), no lone surrogates (UTF-8)."""
    if text.isprintable():  # one quick look; false for both, and for a few harmless ones
        return text
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


def fields_text(values: Mapping[str, Any] | None) -> str | None:
    """The other columns of a manifest's line as JSON text."""
    if not values:
        return None
    # ASCII escapes keep NULs and surrogates out of the database and lose nothing.
    return json.dumps(dict(values), default=str)


_CONVERTED: Mapping[str, Callable[[Any], Any]] = {
    "line": lambda line: line or 0,
    "escalate": int,
    "fields": fields_text,
}


class Form(Generic[Record]):
    """Some columns of a table, and how a record's values stand in them."""

    def __init__(
        self, record: type[Record], every: Sequence[str], columns: Sequence[str] | None = None
    ) -> None:
        self.columns = tuple(columns or every)
        self._values = attrgetter(*self.columns)
        places = [*enumerate(self.columns)]
        self._enums = tuple(place for place, name in places if name in _ENUMS)
        self._texts = tuple(place for place, name in places if name in _TEXTS)
        self._converted = tuple(
            (place, _CONVERTED[name]) for place, name in places if name in _CONVERTED
        )
        default = {
            field.name: None if field.default is NODEFAULT else field.default
            for field in fields(record)
        }
        rest = [name for name in every if name not in self.columns]
        self._rest = attrgetter(*rest, *rest[:1]) if rest else None  # of one it gives no tuple
        self._nothing = tuple(default[name] for name in [*rest, *rest[:1]])

    def fits(self, record: Record) -> bool:
        """Whether the record has no more than the defaults in the columns that are left out."""
        return self._rest is None or self._rest(record) == self._nothing

    def row(self, record: Record) -> tuple[Any, ...]:
        """The record's values in the order of the columns; a page has twenty of them, so no
        calls."""
        row = list(self._values(record))
        for place in self._enums:
            if row[place] is not None:
                row[place] = row[place]._value_
        for place in self._texts:
            value = row[place]
            if value is not None and not value.isprintable():
                row[place] = clean(value)
        for place, convert in self._converted:
            row[place] = convert(row[place])
        return tuple(row)


#: Any row, and any attempt.
ENTRY = Form(Result, ENTRY_COLUMNS)
ATTEMPT = Form(AttemptRecord, ATTEMPT_COLUMNS)
#: A line that was read.
LINE = Form(
    Result,
    ENTRY_COLUMNS,
    ("batch_id", "url", "line", "host", "status", "job_id", "fields", "same_as"),
)
#: A page, to be put over a line of which nothing was heard: that has the line's columns.
PAGE = Form(
    Result,
    [name for name in ENTRY_COLUMNS if name not in ("line", "host", "fields", "same_as")],
    (
        *("batch_id", "url", "status", "outcome", "http_code", "attempts", "passes", "cost"),
        *("bytes", "rung", "final_url", "page_path", "page_sha256", "page_bytes"),
        *("content_type", "job_id"),
    ),
)
#: An attempt that was no fault.
GOOD_ATTEMPT = Form(
    AttemptRecord,
    ATTEMPT_COLUMNS,
    [n for n in ATTEMPT_COLUMNS if n not in ("vendor", "kind", "reason", "mode", "task")],
)


def sort_out(
    records: Iterable[Record], forms: Sequence[Form[Record]]
) -> list[tuple[Form[Record], list[Record]]]:
    """The records by the first form that each fits; the last one must fit all."""
    found: list[tuple[Form[Record], list[Record]]] = [(form, []) for form in forms]
    for record in records:
        next(some for form, some in found if form.fits(record)).append(record)
    return [(form, some) for form, some in found if some]
