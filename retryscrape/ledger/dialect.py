"""All that differs between databases, and the sentences for what goes wrong with them.

Other modules hold portable SQL only. SQLite and PostgreSQL (psycopg 3) are known.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus, urlsplit

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import (
    ArgumentError,
    DataError,
    DBAPIError,
    IntegrityError,
    InterfaceError,
    NoSuchModuleError,
    OperationalError,
    ProgrammingError,
    SQLAlchemyError,
)

from retryscrape.policy.redact import mask_text

#: How long a transaction waits for another process's, in seconds.
BUSY_TIMEOUT = 30.0
_BUSY_WAIT = 0.01

# What WAL with synchronous=NORMAL promises: a killed process loses nothing that
# was committed, and no crash ever damages the file. A power cut may take back the
# last commits (those since the last checkpoint): these URLs are fetched again.
# FULL would keep them for one fsync a commit (milliseconds on a disk).
_PRAGMAS = (
    "PRAGMA synchronous=NORMAL",
    f"PRAGMA busy_timeout={int(BUSY_TIMEOUT * 1000)}",
)

# Kilobytes to sort a million rows in: with 16 MB a report takes two thirds of the time that it
# takes with the 2 MB that are SQLite's default. Not for each connection and always: a crawl
# grew by 20 MB over its first 40,000 pages, and wrote them no faster.
_ROOM, _ORDINARY = 16_000, 2_000

_SQLITE_NOW = "((julianday('now') - 2440587.5) * 86400.0)"
_POSTGRES_NOW = "CAST(extract(epoch FROM clock_timestamp()) AS double precision)"

# As busy_timeout does, a wait for another process's lock ends; and so does the transaction
# of a process that was stopped in the middle of it, or whose machine is gone.
_POSTGRES_SETTINGS = (
    f"SET lock_timeout = '{BUSY_TIMEOUT:g}s'",
    f"SET idle_in_transaction_session_timeout = '{BUSY_TIMEOUT:g}s'",
)

# A server that is gone without a word is noticed in seconds, not in the quarter of an hour
# that TCP gives it. What the URL says wins.
_POSTGRES_WAITS = {
    "connect_timeout": "10",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "20000",
}

# SQLite's primary result codes (sqlite.org/rescode.html): sentence, worth trying again.
_SQLITE_SENTENCES: dict[int, tuple[str, bool]] = {
    sqlite3.SQLITE_BUSY: (f"is locked by another process for more than {BUSY_TIMEOUT:g} s", True),
    sqlite3.SQLITE_LOCKED: ("is locked by another process", True),
    sqlite3.SQLITE_FULL: ("cannot be written: the disk is full", True),
    sqlite3.SQLITE_IOERR: ("cannot be read or written: the disk is full or broken", True),
    sqlite3.SQLITE_CANTOPEN: (
        "cannot be opened: permission is lacking, or its folder is missing or not writable",
        True,
    ),
    sqlite3.SQLITE_PERM: ("cannot be opened: permission denied", False),
    sqlite3.SQLITE_READONLY: ("is read-only", False),
    sqlite3.SQLITE_NOTADB: ("is not a ledger: the file is no SQLite database", False),
    sqlite3.SQLITE_CORRUPT: (
        "is damaged: move it away and put a copy in its place, or start a new one",
        False,
    ),
}

_UNWRITABLE = frozenset(
    {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR}
)


class LedgerError(Exception):
    """The ledger cannot be used; the message is one sentence without secrets.

    ``retryable`` says whether the same call may succeed a little later,
    ``row_fault`` that the database would take other rows, ``unwritable`` that
    the file may be one that can be read.
    """

    def __init__(
        self,
        sentence: str,
        *,
        retryable: bool = False,
        row_fault: bool = False,
        unwritable: bool = False,
    ) -> None:
        super().__init__(sentence)
        self.retryable = retryable
        self.row_fault = row_fault
        self.unwritable = unwritable


class Dialect:
    """One database: its engine, the ways in which its SQL differs, its errors."""

    def __init__(self, url_or_path: str) -> None:
        self.url = _parse(url_or_path)
        self.sqlite = self.url.get_backend_name() == "sqlite"
        #: How a statement names its parameters, and what locks the rows it selects.
        self.placeholder = "?" if self.sqlite else "%s"
        self.for_update = "" if self.sqlite else " FOR UPDATE"
        self.skip_locked = "" if self.sqlite else " FOR UPDATE SKIP LOCKED"
        #: The name of a row's place in its table.
        self.row_id = "rowid" if self.sqlite else "ctid"
        #: The database's own clock, in epoch seconds.
        self.now = _SQLITE_NOW if self.sqlite else _POSTGRES_NOW
        self.name = self.url.database or "" if self.sqlite else _shown(self.url)

    def engine(self) -> Engine:
        """A new engine; nothing is connected yet. Raises LedgerError without a driver."""
        try:
            # A look before use: a server that was restarted is met again without an error.
            engine = create_engine(
                self.url,
                pool_size=5,
                max_overflow=20,
                pool_pre_ping=not self.sqlite,
                connect_args={} if self.sqlite else self._waits(),
            )
        except (ImportError, NoSuchModuleError):
            raise LedgerError(
                f"ledger {self.name}: no driver for this database is installed"
                " (pip install 'retryscrape[postgres]')"
            ) from None
        if self.sqlite:
            event.listen(engine, "connect", _on_sqlite_connect)
            event.listen(engine, "begin", _on_sqlite_begin)
        else:
            event.listen(engine, "connect", _on_postgres_connect)
        return engine

    def reading_engines(self) -> Iterator[Engine]:
        """Engines for a ledger in SQLite that cannot be written; the first that works will do.

        SQLite reads such a file if a process has it open, or was killed. One that was left in
        order it takes for unchangeable only when told so, as its locks have no place: with
        nothing in the journal nobody is writing.
        """
        path = Path(self.name).absolute()
        yield self._engine_of_file(f"file:{quote(str(path))}?mode=ro")
        journal = path.with_name(f"{path.name}-wal")
        if not journal.exists() or not journal.stat().st_size:
            yield self._engine_of_file(f"file:{quote(str(path))}?immutable=1")

    def _engine_of_file(self, name: str) -> Engine:
        engine = create_engine(self.url.set(database=name, query={"uri": "true"}))
        event.listen(engine, "connect", _on_sqlite_connect)
        event.listen(engine, "begin", _on_sqlite_begin)
        return engine

    def _waits(self) -> dict[str, str]:
        given = self.url.query
        return {name: value for name, value in _POSTGRES_WAITS.items() if name not in given}

    def prepare(self, engine: Engine) -> None:
        """Once per open: the journal mode, which SQLite keeps in the file.

        Where several open a new ledger at once, SQLite waits for none of them here (busy_timeout
        is for transactions, and this is none): one in twenty of four was told that it is locked.
        """
        if not self.sqlite:
            return
        connection = engine.raw_connection()  # not to be changed inside a transaction
        end = time.monotonic() + BUSY_TIMEOUT
        try:
            while not _write_ahead(connection.cursor(), end):
                time.sleep(_BUSY_WAIT)
        finally:
            connection.close()

    def analyze(self, connection: Connection, *tables: str) -> None:
        """Tell PostgreSQL what is in these tables now. What was just loaded it takes for
        nothing otherwise, and walks through all of a batch for each of its hosts."""
        if not self.sqlite:
            connection.exec_driver_sql(f"ANALYZE (SKIP_LOCKED) {', '.join(tables)}")

    @contextmanager
    def room(self, connection: Connection) -> Iterator[None]:
        """Within it the connection may take more memory, to sort all of a batch's rows in."""
        if self.sqlite:
            connection.exec_driver_sql(f"PRAGMA cache_size=-{_ROOM}")
        try:
            yield
        finally:
            if self.sqlite:
                connection.exec_driver_sql(f"PRAGMA cache_size=-{_ORDINARY}")

    def lock_schema(self, connection: Connection) -> None:
        """Keep other processes from migrating until the transaction ends."""
        if not self.sqlite:  # SQLite's write transaction does so already
            connection.exec_driver_sql("SELECT pg_advisory_xact_lock(7248137)")

    def error(self, error: Exception) -> LedgerError:
        """``error`` as a sentence. Takes what SQLAlchemy or a driver raises."""
        original: Any = error.orig if isinstance(error, DBAPIError) else error
        text = mask_text(" ".join(str(original).split()), _secrets(self.url))
        gone = isinstance(error, DBAPIError) and error.connection_invalidated
        if isinstance(error, _ROW_FAULTS) and not gone:
            return LedgerError(f"ledger {self.name} refuses it: {text}", row_fault=True)
        if isinstance(original, sqlite3.Error):
            return self._sqlite_error(original)
        lost = gone or isinstance(error, OperationalError)
        return LedgerError(f"ledger {self.name}: {text}", retryable=lost)

    def _sqlite_error(self, error: sqlite3.Error) -> LedgerError:
        code = getattr(error, "sqlite_errorcode", None)
        if code is None and "not a database" in str(error):
            code = sqlite3.SQLITE_NOTADB
        # Extended codes carry the primary one in their low byte.
        code = (code or 0) & 0xFF
        sentence, retryable = _SQLITE_SENTENCES.get(code, (f": {error}", False))
        space = "" if sentence.startswith(":") else " "
        return LedgerError(
            f"ledger {self.name}{space}{sentence}",
            retryable=retryable,
            unwritable=code in _UNWRITABLE,
        )


# A value that the database or its driver cannot hold (the later ones come as they are).
_ROW_FAULTS = (
    DataError,
    IntegrityError,
    InterfaceError,
    ProgrammingError,
    sqlite3.DataError,
    sqlite3.IntegrityError,
    sqlite3.InterfaceError,
    sqlite3.ProgrammingError,
    OverflowError,
    UnicodeError,
)
#: What the database layer may raise: to be turned into a sentence by ``Dialect.error``.
DATABASE_ERRORS = (SQLAlchemyError, sqlite3.Error, OverflowError, UnicodeError)


def _parse(url_or_path: str) -> URL:
    if "://" not in url_or_path:
        return URL.create("sqlite", database=str(Path(url_or_path)))
    scheme = url_or_path.partition("://")[0]
    try:
        url = make_url(url_or_path)
        backend = url.get_backend_name()
    except (ArgumentError, ValueError):
        raise LedgerError(f"the ledger's database URL ({scheme}://...) cannot be read") from None
    if backend in {"postgres", "postgresql"}:
        return url.set(drivername="postgresql+psycopg")
    if backend != "sqlite":
        raise LedgerError(
            f"the ledger's database URL must start with sqlite:// or postgresql://, not {scheme}://"
        )
    if not url.database or url.database == ":memory:":
        raise LedgerError("the ledger cannot live in memory: name a file (sqlite:///out/ledger.db)")
    return url


def _shown(url: URL) -> str:
    """The URL without password, and without its query (it may hold one, too)."""
    return url.set(query={}).render_as_string(hide_password=True)


def passwords(url_or_path: str) -> set[str]:
    """What of a database URL no output may show; nothing for one that cannot be read."""
    try:
        url = _parse(url_or_path)
    except LedgerError:
        return set()
    inside = [url.query.get(name) for name in ("password", "sslpassword")]
    words = [word for word in (url.password, *inside) if isinstance(word, str)]
    written = urlsplit(url_or_path).password or ""  # as it stands in the URL
    quoted = [form(word) for word in words for form in (quote_plus, _quote_all)]
    return {word for word in (*words, *quoted, written) if word}


def shown_url(url_or_path: str) -> str:
    """A ledger's path, or its database URL, as any output may show it."""
    if "://" not in url_or_path:
        return url_or_path
    try:
        return _shown(_parse(url_or_path))
    except LedgerError:
        return f"{url_or_path.partition('://')[0]}://***"


def _quote_all(word: str) -> str:
    return quote(word, safe="")


def _secrets(url: URL) -> list[str]:
    values = [url.password] if isinstance(url.password, str) else []
    return values + [value for value in url.query.values() if isinstance(value, str)]


def _write_ahead(cursor: Any, end: float) -> bool:
    """Set the journal mode; whether that went. Raises what it was told after the ``end``."""
    try:
        cursor.execute("PRAGMA journal_mode=WAL")
    except sqlite3.OperationalError as error:
        busy = getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY
        if not busy or time.monotonic() > end:
            raise
        return False
    return True


def _on_sqlite_connect(connection: Any, _record: Any) -> None:
    # The driver's own BEGIN is late and deferred: two writers would then meet in
    # the middle of their transactions, where SQLite cannot wait but must fail.
    connection.isolation_level = None
    for pragma in _PRAGMAS:
        connection.execute(pragma)


def _on_postgres_connect(connection: Any, _record: Any) -> None:
    for statement in _POSTGRES_SETTINGS:
        connection.execute(statement)
    connection.commit()


def _on_sqlite_begin(connection: Connection) -> None:
    write = connection.get_execution_options().get("ledger_write", False)
    driver = connection.connection.driver_connection  # past SQLAlchemy: 30 microseconds less
    assert driver is not None
    driver.execute("BEGIN IMMEDIATE" if write else "BEGIN")
