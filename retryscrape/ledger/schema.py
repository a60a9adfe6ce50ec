"""The tables of the ledger, and how older ledgers are brought up to them.

DESIGN.md section 4 is the source of names and columns: they are a contract.
``reads``, ``redrives``, ``workers``, ``claims``, ``tasks``, ``events`` and ``schema_version``
are our own, and so are ``jobs.spider``, ``jobs.arguments``, ``jobs.settings``, ``attempts.mode``
and ``attempts.task``.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Double,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    UniqueConstraint,
    func,
    inspect,
    select,
)

from retryscrape.ledger.dialect import Dialect, LedgerError

metadata = MetaData()

# The condition of an index on some rows only. Not ``sqlite_where=`` and the like: SQLAlchemy
# loads each dialect that a keyword names (PostgreSQL's: a tenth of a second at each start).
WHERE = "where"

# Keys compare byte by byte everywhere; PostgreSQL's default is the locale's order.
_KEY = Text().with_variant(String(collation="C"), "postgresql")


def _key(name: str) -> Column[str]:
    return Column(name, _KEY, nullable=False)


def _count(name: str) -> Column[int]:
    return Column(name, BigInteger, nullable=False, server_default="0")


def _amount(name: str) -> Column[float]:
    return Column(name, Double, nullable=False, server_default="0")


batches = Table(
    "batches",
    metadata,
    _key("batch_id"),
    Column("manifest", Text),
    Column("created_at", Text),
    _count("lines"),
    _count("urls"),
    _count("duplicates"),
    _count("rejected"),
    _count("passes"),
    PrimaryKeyConstraint("batch_id"),
)

entries = Table(
    "entries",
    metadata,
    _key("batch_id"),
    _key("url"),
    # 0 where a row comes from no manifest: NULLs sort differently in each database.
    _count("line"),
    Column("host", _KEY, nullable=False, server_default=""),
    Column("status", Text, nullable=False),
    Column("outcome", Text),
    Column("error_class", Text),
    Column("http_code", Integer),
    Column("vendor", Text),
    Column("kind", Text),
    Column("reason", Text),
    _count("attempts"),
    _count("passes"),
    _amount("cost"),
    _count("bytes"),
    Column("rung", Text),
    _count("escalate"),
    Column("not_before", Double),
    Column("last_error_at", Text),
    Column("final_url", Text),
    Column("page_path", Text),
    Column("page_sha256", Text),
    Column("page_bytes", BigInteger),
    Column("content_type", Text),
    Column("job_id", Text),
    Column("fields", Text),
    Column("same_as", _KEY),
    PrimaryKeyConstraint("batch_id", "url"),
)

# Open rows and the failures feed, in the order of the manifest; empty when all is well. The
# last columns let it count them. Successes are what is left of a batch's keys: an index that
# holds every row's status took a third of the ledger's time for a page, to be asked seldom.
Index(
    "entries_unresolved",
    entries.c.batch_id,
    entries.c.line,
    entries.c.url,
    entries.c.status,
    entries.c.outcome,
    entries.c.error_class,
    info={WHERE: entries.c.status != "success"},
)
Index(
    "entries_parked",
    entries.c.batch_id,
    entries.c.not_before,
    info={WHERE: entries.c.not_before.is_not(None)},
)
Index(
    "entries_same_as",
    entries.c.batch_id,
    entries.c.same_as,
    info={WHERE: entries.c.same_as.is_not(None)},
)

attempts = Table(
    "attempts",
    metadata,
    _key("batch_id"),
    _key("url"),
    _count("n"),
    Column("started_at", Text),
    Column("elapsed", Double),
    Column("rung", Text),
    Column("exit", Text),
    Column("http_code", Integer),
    Column("outcome", Text, nullable=False),
    Column("vendor", Text),
    Column("kind", Text),
    Column("evidence", Text),
    Column("reason", Text),
    Column("decision", Text),
    _amount("waited"),
    _count("bytes"),
    _amount("cost"),
    _key("job_id"),
    # Of what was bought: how the API fetched it, and which of ``tasks`` it was.
    Column("mode", Text),
    Column("task", Text),
    UniqueConstraint("batch_id", "url", "n", "job_id"),
)

hosts = Table(
    "hosts",
    metadata,
    _key("host"),
    Column("paused_until", Double),
    Column("pause_reason", Text),
    _count("blocks"),
    Column("best_rung", Text),
    Column("best_until", Double),
    Column("state", Text),
    PrimaryKeyConstraint("host"),
)

exits = Table(
    "exits",
    metadata,
    _key("exit"),
    _key("host"),
    _amount("ok"),
    _amount("fail"),
    _count("bytes"),
    _amount("cost"),
    Column("elapsed", Double),
    Column("updated_at", Double),
    Column("state", Text),
    PrimaryKeyConstraint("exit", "host"),
)

jobs = Table(
    "jobs",
    metadata,
    _key("job_id"),
    _key("batch_id"),
    Column("started_at", Text),
    Column("finished_at", Text),
    Column("finish_reason", Text),
    Column("stats", Text),
    # What was typed, so that a re-drive and a check are made by the same rules.
    Column("spider", Text),
    Column("arguments", Text),
    Column("settings", Text),
    PrimaryKeyConstraint("job_id"),
    Index("jobs_batch", "batch_id", "started_at"),
)

# The loops of ``scrapy redrive``: how far each came, and which rule stopped it.
redrives = Table(
    "redrives",
    metadata,
    _key("batch_id"),
    _count("n"),
    Column("started_at", Text),
    Column("finished_at", Text),
    Column("reason", Text),
    _count("passes"),
    _amount("spent"),
    _count("before"),
    _count("left_over"),
    Column("job_id", Text),
    PrimaryKeyConstraint("batch_id", "n"),
)

reads = Table(
    "reads",
    metadata,
    _key("batch_id"),
    _key("manifest"),
    _key("shard"),
    Column("digest", Text),
    _count("read_to"),
    _count("complete"),
    # 1 while the first reading of this manifest goes on: only then is a line
    # whose row exists already a duplicate, and not the same line read again.
    _count("first"),
    PrimaryKeyConstraint("batch_id", "manifest", "shard"),
)

# Workers of a batch that are alive, and until when unless they renew it (epoch seconds of
# the database); ``since`` is when the draining they take part in began.
workers = Table(
    "workers",
    metadata,
    _key("batch_id"),
    _key("worker"),
    Column("since", Double, nullable=False),
    Column("until", Double, nullable=False),
    PrimaryKeyConstraint("batch_id", "worker"),
)

# Who has the rows of a host; ``done`` is when they were last drained.
claims = Table(
    "claims",
    metadata,
    _key("batch_id"),
    _key("host"),
    Column("worker", _KEY),
    _amount("done"),
    PrimaryKeyConstraint("batch_id", "host"),
)
Index(
    "claims_free",
    claims.c.batch_id,
    claims.c.done,
    claims.c.host,
    info={WHERE: claims.c.worker.is_(None)},
)
Index(
    "claims_held",
    claims.c.batch_id,
    claims.c.worker,
    info={WHERE: claims.c.worker.is_not(None)},
)

# What was ordered of a scraping API, one row a URL and order: in the ledger before it is
# ordered, so that nothing is paid for twice. ``ref`` is our own name of the order,
# ``task_id`` the API's (that of a batch belongs to many URLs), ``target`` what was asked for.
tasks = Table(
    "tasks",
    metadata,
    _key("ref"),
    _key("batch_id"),
    _key("url"),
    Column("target", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("task_id", _KEY),
    _amount("submitted_at"),
    Column("rung", Text),
    Column("job_id", Text),
    PrimaryKeyConstraint("ref"),
    Index("tasks_url", "batch_id", "url"),
    Index("tasks_id", "task_id"),
)

# Events that an API has sent, each once.
events = Table(
    "events",
    metadata,
    _key("task_id"),
    _key("event"),
    _amount("seen_at"),
    PrimaryKeyConstraint("task_id", "event"),
)

schema_version = Table(
    "schema_version",
    metadata,
    Column("version", Integer, nullable=False),
    Column("name", Text, nullable=False),
    PrimaryKeyConstraint("version"),
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
