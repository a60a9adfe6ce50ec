"""How older ledgers are brought up to the tables of schema.py, and which are refused."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import Connection, Table, func, inspect, select

from retryscrape.ledger.dialect import Dialect, LedgerError
from retryscrape.ledger.schema import (
    WHERE,
    attempts,
    claims,
    entries,
    events,
    jobs,
    metadata,
    redrives,
    schema_version,
    tasks,
    workers,
)


def _set_conditions(dialect: str) -> None:
    """Tell SQLAlchemy of the indexes' conditions, for this dialect."""
    for index in (index for table in metadata.tables.values() for index in table.indexes):
        if WHERE in index.info:
            index.dialect_kwargs[f"{dialect}_where"] = index.info[WHERE]


def _create_tables(connection: Connection) -> None:
    metadata.create_all(connection, checkfirst=False)


def _remember_arguments_and_loops(connection: Connection) -> None:
    redrives.create(connection, checkfirst=True)
    _add_columns(connection, jobs, "spider", "arguments", "settings")


def _make_room_for_workers(connection: Connection) -> None:
    workers.create(connection, checkfirst=True)
    claims.create(connection, checkfirst=True)


def _make_room_for_tasks(connection: Connection) -> None:
    tasks.create(connection, checkfirst=True)
    events.create(connection, checkfirst=True)
    _add_columns(connection, attempts, "mode", "task")


def _count_by_fewer_indexes(connection: Connection) -> None:
    for name in ("entries_counts", "entries_open"):
        connection.exec_driver_sql(f"DROP INDEX IF EXISTS {name}")
    (index,) = (index for index in entries.indexes if index.name == "entries_unresolved")
    index.create(connection, checkfirst=True)


def _add_columns(connection: Connection, table: Table, *names: str) -> None:
    """Text columns that an older ledger lacks (a new one was made with them)."""
    there = {column["name"] for column in inspect(connection).get_columns(table.name)}
    for name in names:
        if name not in there:
            connection.exec_driver_sql(f"ALTER TABLE {table.name} ADD COLUMN {name} TEXT")


#: In order; a ledger's version is how many of them it has seen. Append only.
MIGRATIONS: tuple[tuple[str, Callable[[Connection], None]], ...] = (
    ("create the tables", _create_tables),
    ("remember arguments and re-drives", _remember_arguments_and_loops),
    ("claims of workers", _make_room_for_workers),
    ("tasks of scraping APIs", _make_room_for_tasks),
    ("count by fewer indexes", _count_by_fewer_indexes),
)


def migrate(connection: Connection, dialect: Dialect, *, create: bool = True) -> None:
    """Bring the ledger up to this version, inside the caller's transaction.

    Each change and the record of it are committed together. Raises LedgerError
    for a database that is somebody else's, damaged, newer, or (without
    ``create``) empty.
    """
    dialect.lock_schema(connection)
    found = set(inspect(connection).get_table_names())
    version = _version(connection, found, dialect, create)
    _set_conditions(connection.dialect.name)
    for number, (name, change) in enumerate(MIGRATIONS, start=1):
        if number > version:
            change(connection)
            connection.execute(schema_version.insert().values(version=number, name=name))


def check(connection: Connection, dialect: Dialect) -> None:
    """For a ledger that can only be read: raises LedgerError unless it is of this version."""
    found = set(inspect(connection).get_table_names())
    version = _version(connection, found, dialect, create=False)
    if version < len(MIGRATIONS):
        raise LedgerError(
            f"ledger {dialect.name} was written by an older retryscrape (schema {version}) and"
            " cannot be brought up: it is read-only"
        )


def _version(connection: Connection, found: set[str], dialect: Dialect, create: bool) -> int:
    ours = set(metadata.tables)
    if schema_version.name not in found:
        # In a PostgreSQL database other people's tables may live beside ours.
        if found if dialect.sqlite else found & ours:
            raise LedgerError(
                f"ledger {dialect.name} is not a ledger: the database holds other tables"
            )
        if not create:
            raise LedgerError(f"ledger {dialect.name} is empty: no batch was crawled into it yet")
        return 0
    version = connection.execute(select(func.max(schema_version.c.version))).scalar() or 0
    if version > len(MIGRATIONS):
        raise LedgerError(
            f"ledger {dialect.name} was written by a newer retryscrape (schema {version},"
            f" this one knows {len(MIGRATIONS)}): update retryscrape"
        )
    missing = sorted(ours - found)
    if missing and version == len(MIGRATIONS):
        raise LedgerError(f"ledger {dialect.name} is damaged: table {missing[0]} is missing")
    return version
