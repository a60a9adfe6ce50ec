"""The tables of the ledger. How older ledgers are brought up to them is migrations.py's.

DESIGN.md section 4 is the source of names and columns: they are a contract.
``reads``, ``redrives``, ``workers``, ``claims``, ``tasks``, ``events`` and ``schema_version``
are our own, and so are ``jobs.spider``, ``jobs.arguments``, ``jobs.settings``, ``attempts.mode``
and ``attempts.task``.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    Double,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    UniqueConstraint,
)

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
