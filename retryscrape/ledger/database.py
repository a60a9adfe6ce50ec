"""A connection to the ledger's database: opening, transactions, statements.

No table of the ledger is named here.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, Self

from sqlalchemy import Connection, Engine, Table

from retryscrape.ledger.dialect import DATABASE_ERRORS, Dialect, LedgerError
from retryscrape.ledger.migrations import check, migrate

# Below the parameter limits of both databases (32,766 and 65,535), and few
# enough that a full slice stays one cached statement.
SLICE = 500

#: Rows that one INSERT makes: as many as a commit of the writer has.
TOGETHER = 50


class Database:
    """An open ledger. Threads may share it: every transaction has its own connection."""

    def __init__(self, engine: Engine, dialect: Dialect) -> None:
        self._engine = engine
        self._writing = engine.execution_options(ledger_write=True)
        self.dialect = dialect
        # Threads of one process queue here; between processes SQLite polls.
        self._writers = threading.Lock()

    @classmethod
    def open(cls, url_or_path: str, *, create: bool = True) -> Self:
        """Open the ledger at a path or database URL, and bring its schema up.

        Without ``create`` a missing ledger is an error. Raises LedgerError with
        a sentence for whatever keeps it from being used.
        """
        dialect = Dialect(url_or_path)
        if dialect.sqlite:
            _check_file(Path(dialect.name), create=create)
        ledger = cls(dialect.engine(), dialect)
        try:
            ledger._start(create)
        except BaseException:
            ledger.close()
            raise
        return ledger

    @classmethod
    def open_to_read(cls, url_or_path: str) -> Self:
        """As ``open`` without ``create``; one that cannot be written is opened as it is."""
        try:
            return cls.open(url_or_path, create=False)
        except LedgerError as error:
            if not error.unwritable:
                raise
            refused = error
        dialect = Dialect(url_or_path)
        for engine in dialect.reading_engines():
            ledger = cls(engine, dialect)
            try:
                with ledger.reading() as connection:
                    check(connection, dialect)
                return ledger
            except LedgerError as error:
                ledger.close()
                if not error.unwritable:
                    raise
        raise refused

    def _start(self, create: bool) -> None:
        with self._sentences():
            self.dialect.prepare(self._engine)
        with self.writing() as connection:
            migrate(connection, self.dialect, create=create)

    def close(self) -> None:
        """Close all idle connections. Calling it twice does no harm."""
        self._engine.dispose()

    def forked(self) -> None:
        """To be called in a forked copy of the process: it must not use our connections."""
        self._engine.dispose(close=False)
        self._writers = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A connection for statements that only read, on one snapshot. Raises LedgerError."""
        with self._sentences(), self._engine.connect() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction, committed when the block ends. Raises LedgerError."""
        with self._writers, self._sentences(), self._writing.begin() as connection:
            yield connection

    @contextmanager
    def _sentences(self) -> Iterator[None]:
        try:
            yield
        except DATABASE_ERRORS as error:
            raise self.dialect.error(error) from None

    def rows(self, connection: Connection, text: str, values: Sequence[Any]) -> list[Any]:
        """All rows of a statement as plain tuples.

        SQLite's past SQLAlchemy, whose results cost as much as SQLite does: this is on
        the path of every page.
        """
        if self.dialect.sqlite:
            return list(_driver(connection).execute(text, values).fetchall())
        result = connection.exec_driver_sql(text, tuple(values))
        found = result.cursor.fetchall()
        result.close()
        return list(found)

    def execute_many(
        self, connection: Connection, text: str, values: Sequence[tuple[Any, ...]]
    ) -> None:
        """``text`` (of ``insert_text``) with each of ``values``, past SQLAlchemy for the same
        reason.

        SQLite's many at a time: its driver lets go of the interpreter at each step, and takes
        it from the reactor's thread again, which costs both of them more than the row.
        """
        if self.dialect.sqlite:
            driver = _driver(connection)
            for some in slices(values, TOGETHER):
                driver.execute(_together(text, len(some)), list(chain.from_iterable(some)))
        else:
            connection.exec_driver_sql(text, list(values))

    def placeholders(self, count: int) -> str:
        """``count`` parameters, separated by commas."""
        return ", ".join([self.dialect.placeholder] * count)


@lru_cache(maxsize=4 * TOGETHER)
def _together(text: str, rows: int) -> str:
    """An INSERT of one row as one of so many."""
    start = text.index("(", text.index(" VALUES "))
    end = text.index(")", start) + 1
    return f"{text[:end]}{f', {text[start:end]}' * (rows - 1)}{text[end:]}"


def _driver(connection: Connection) -> Any:
    return connection.connection.driver_connection


def padded(keys: Sequence[str]) -> Sequence[str]:
    """``keys`` with the last one repeated up to a power of two (at most SLICE): so few
    different statements with IN lists that the driver keeps all of them prepared."""
    size = min(1 << (len(keys) - 1).bit_length(), SLICE)
    return [*keys, *[keys[-1]] * (size - len(keys))]


def slices(items: Sequence[Any], size: int = SLICE) -> Iterator[Sequence[Any]]:
    """``items`` in pieces of at most ``size``."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


@lru_cache(maxsize=64)
def insert_text(table: Table, columns: tuple[str, ...], placeholder: str, conflict: str) -> str:
    """An INSERT for ``executemany`` with tuples.

    Text, not a Core construct: through Core a row costs twice as much (25 against
    13 microseconds; it takes a dictionary per row), and this is on the path of
    every result.
    """
    values = ", ".join([placeholder] * len(columns))
    names = ", ".join(columns)
    return f"INSERT INTO {table.name} ({names}) VALUES ({values}) {conflict}"  # noqa: S608


def _check_file(path: Path, *, create: bool) -> None:
    try:
        if path.is_dir():
            raise LedgerError(f"ledger {path} is a folder, not a file")
        if path.exists():
            return
    except OSError as error:  # a folder on the way that may not be entered
        raise LedgerError(f"ledger {path} cannot be opened: {error.strerror}") from None
    if not create:
        raise LedgerError(f"no ledger at {path.absolute()}: crawl something first")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LedgerError(f"ledger {path} cannot be made: {error.strerror}") from None
