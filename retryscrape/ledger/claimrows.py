"""The rows of claimed hosts: one statement for all of them, a short walk along the index each.

Who may ask for which host is claims.py's. The indexes are made when the first worker comes.
"""

# ruff: noqa: S608 (statements are made of names that are written here; values are bound)
from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from retryscrape.ledger.dialect import Dialect
from retryscrape.ledger.forms import clean
from retryscrape.ledger.rows import KNOWN_COLUMNS

#: By table, what only workers need: for the walks here, and for looks at what others know.
INDEXES = {
    "entries": (
        "entries_by_host",
        "CREATE INDEX entries_by_host ON entries (batch_id, host, line, url)"
        " WHERE status <> 'success'",
    ),
    "hosts": (
        "hosts_paused",
        "CREATE INDEX hosts_paused ON hosts (paused_until) WHERE paused_until IS NOT NULL",
    ),
    "exits": ("exits_by_host", "CREATE INDEX exits_by_host ON exits (host)"),
}


class Wanted(Struct, frozen=True, kw_only=True):
    """Which rows a worker asks for. ``now`` is an epoch second, ``max_wait`` seconds."""

    now: float
    max_wait: float
    include_permanent: bool = False


def statement(dialect: Dialect, wanted: Wanted, *, parked: bool) -> str:
    """Each host's next rows that are to be done: never asked, or failed before this draining.

    Its parameters: ``batch``, ``failed``, ``due``, ``limit`` (a host) and those of ``after``.
    """
    failed = "outcome <> 'rejected'" if wanted.include_permanent else "error_class <> 'permanent'"
    due = "" if parked else " AND (not_before IS NULL OR not_before <= :due)"
    which = (
        "WHERE batch_id = :batch AND host = {host} AND status <> 'success'"
        f" AND (line, url) > ({{line}}, {{url}}){due}"
        f" AND (status = 'pending' OR ({failed}"
        " AND (last_error_at IS NULL OR last_error_at < :failed)))"
        " ORDER BY line, url LIMIT :limit"
    )
    return (_SQLITE if dialect.sqlite else _POSTGRES).format(which=which).format(**_names(dialect))


_COLUMNS = ", ".join(KNOWN_COLUMNS)
_POSTGRES = (
    f"SELECT part.* FROM unnest(CAST(:hosts AS text[]), CAST(:lines AS bigint[]),"
    " CAST(:urls AS text[])) AS w(host, line, url)"
    f" CROSS JOIN LATERAL (SELECT {_COLUMNS} FROM entries {{which}}) AS part"
)
# It knows no LATERAL; a join that is written CROSS keeps its order.
_SQLITE = (
    f"SELECT {', '.join(f'found.{name}' for name in KNOWN_COLUMNS)} FROM json_each(:after) AS w"
    " CROSS JOIN entries AS found WHERE found.rowid IN (SELECT rowid FROM entries {which})"
    " ORDER BY found.host, found.line, found.url"
)


def _names(dialect: Dialect) -> dict[str, str]:
    if not dialect.sqlite:
        return {"host": 'w.host COLLATE "C"', "line": "w.line", "url": 'w.url COLLATE "C"'}
    parts = ("host", "line", "url")
    return {name: f"json_extract(w.value, '$[{n}]')" for n, name in enumerate(parts)}


def after(dialect: Dialect, cursors: Mapping[str, tuple[int, str]]) -> dict[str, Any]:
    """Where each host is read on, as parameters."""
    places = [(clean(host), line, clean(url)) for host, (line, url) in cursors.items()]
    if dialect.sqlite:
        return {"after": json.dumps(places)}
    hosts, lines, urls = ([place[n] for place in places] for n in range(3))
    return {"hosts": hosts, "lines": lines, "urls": urls}


def these(dialect: Dialect, rows: str) -> str:
    """The condition that a row is one of those that a query names by ``dialect.row_id``.
    Straight to their places, whatever the database believes of the table."""
    if dialect.sqlite:
        return f"rowid IN ({rows})"
    return f"ctid = ANY(ARRAY({rows}))"


def one_of(dialect: Dialect, name: str) -> str:
    """The condition that a column is in the list parameter ``name``: one parameter, however
    many values it has."""
    if dialect.sqlite:
        return f"IN (SELECT value FROM json_each(:{name}))"
    return f"= ANY(CAST(:{name} AS text[]))"


def as_list(dialect: Dialect, values: Iterable[str]) -> Any:
    """Such a parameter's value."""
    return json.dumps(list(values)) if dialect.sqlite else list(values)
