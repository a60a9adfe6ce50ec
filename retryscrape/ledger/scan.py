"""All rows of a batch in the order in which their table holds them, for what reads every one.

SQLite would walk the key's index and look each row up elsewhere in the file, which takes three
to five times as long. PostgreSQL chooses well by itself.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Table, and_, literal_column, select, text

from retryscrape.ledger.dialect import Dialect


class Span(NamedTuple):
    """Rows after one place up to another; their order is that of ``key``."""

    after: Any
    until: Any


def key(dialect: Dialect) -> str:
    """The column by whose order rows are read in pieces."""
    return "rowid" if dialect.sqlite else "url"


def batch_is(dialect: Dialect) -> str:
    """The condition for a batch's rows, as text: the plus keeps SQLite off the index."""
    return f"{'+' if dialect.sqlite else ''}batch_id = {dialect.placeholder}"


def bounds(connection: Connection, table: Table, batch_id: str) -> Span | None:
    """SQLite: where a batch's rows lie in their table; None if it has none."""
    query = text(f"SELECT min(rowid) - 1, max(rowid) FROM {table.name} WHERE batch_id = :batch")  # noqa: S608
    first, last = connection.execute(query, {"batch": batch_id}).one()
    return None if last is None else Span(first, last)


def whole(
    connection: Connection, dialect: Dialect, table: Table, batch_id: str
) -> ColumnElement[bool]:
    """The condition for all of a batch's rows in a query that reads them all."""
    span = bounds(connection, table, batch_id) if dialect.sqlite else None
    if span is None:
        return table.c.batch_id == batch_id
    rowid: ColumnElement[int] = literal_column("rowid")
    return and_(literal_column("+batch_id") == batch_id, rowid > span.after, rowid <= span.until)


def parts(
    connection: Connection, dialect: Dialect, table: Table, batch_id: str, rows: int, number: int
) -> list[Span]:
    """A batch of so many rows in this number of parts of about the same size."""
    if dialect.sqlite:
        span = bounds(connection, table, batch_id)
        if span is None:
            return []
        first, rest = span.after, span.until - span.after
        ends = [first + rest * part // number for part in range(number + 1)]
    else:
        query = select(table.c.url).where(table.c.batch_id == batch_id).order_by(table.c.url)
        inner = [
            connection.execute(query.offset(rows * part // number).limit(1)).scalar()
            for part in range(1, number)
        ]
        ends = ["", *inner, None]
    return [Span(*ends) for ends in pairwise(ends)]
