"""What outlives a run besides rows: jobs, hosts, exits. Plain saving and loading."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from operator import attrgetter
from typing import Any

from sqlalchemy import Table, select

from retryscrape.ledger.database import Database, insert_text
from retryscrape.ledger.forms import clean, fields_text
from retryscrape.ledger.records import ExitRow, HostRow, JobRow, RedriveRow
from retryscrape.ledger.rows import parse_fields
from retryscrape.ledger.schema import exits, hosts, jobs, redrives

_HOST_COLUMNS = HostRow.__struct_fields__
_EXIT_COLUMNS = ExitRow.__struct_fields__
_JOB_COLUMNS = JobRow.__struct_fields__
_REDRIVE_COLUMNS = RedriveRow.__struct_fields__


class StateTables(Database):
    """The tables of the ledger that are not about URLs."""

    def start_job(
        self,
        job_id: str,
        batch_id: str,
        started_at: str,
        *,
        spider: str | None = None,
        arguments: Mapping[str, Any] | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        """Record that a run began. The same id again (a restart) begins it anew."""
        typed = (fields_text(arguments), fields_text(settings))
        values = (clean(job_id), batch_id, started_at, None, None, None, spider, *typed)
        self._upsert(jobs, _JOB_COLUMNS, ("job_id",), [values])

    def finish_job(
        self, job_id: str, finished_at: str, finish_reason: str, stats: Mapping[str, Any]
    ) -> None:
        """Record how a run ended; ``stats`` is stored as JSON."""
        change = (
            jobs.update()
            .where(jobs.c.job_id == clean(job_id))
            .values(
                finished_at=finished_at,
                finish_reason=clean(finish_reason),
                stats=json.dumps(dict(stats), default=str),
            )
        )
        with self.writing() as connection:
            connection.execute(change)

    def jobs_of(self, batch_id: str) -> list[JobRow]:
        """The runs over a batch, oldest first."""
        query = (
            select(jobs)
            .where(jobs.c.batch_id == batch_id)
            .order_by(jobs.c.started_at, jobs.c.job_id)
        )
        with self.reading() as connection:
            found = connection.execute(query).mappings().all()
        texts = ("stats", "arguments", "settings")
        return [
            JobRow(**{**row, **{name: parse_fields(row[name]) for name in texts}}) for row in found
        ]

    def redrives_of(self, batch_id: str) -> list[RedriveRow]:
        """The loops of ``scrapy redrive`` over a batch, oldest first."""
        query = (
            select(*(redrives.c[name] for name in _REDRIVE_COLUMNS))
            .where(redrives.c.batch_id == batch_id)
            .order_by(redrives.c.n)
        )
        with self.reading() as connection:
            return [RedriveRow(**row) for row in connection.execute(query).mappings()]

    def save_redrive(self, row: RedriveRow) -> None:
        """Record how far a loop has come, over what was recorded of it before."""
        values = attrgetter(*_REDRIVE_COLUMNS)(row)
        self._upsert(redrives, _REDRIVE_COLUMNS, ("batch_id", "n"), [values])

    def load_hosts(self, names: Collection[str] | None = None) -> list[HostRow]:
        """What earlier runs learned of hosts: of all of them, or of these."""
        query = select(*(hosts.c[name] for name in _HOST_COLUMNS))
        if names is not None:
            query = query.where(hosts.c.host.in_([clean(name) for name in names]))
        with self.reading() as connection:
            return [HostRow(**row) for row in connection.execute(query).mappings()]

    def paused_hosts(self, now: float) -> list[HostRow]:
        """Hosts whose pause is not over at ``now`` (epoch seconds)."""
        query = select(*(hosts.c[name] for name in _HOST_COLUMNS)).where(hosts.c.paused_until > now)
        with self.reading() as connection:
            return [HostRow(**row) for row in connection.execute(query).mappings()]

    def add_pauses(self, rows: Iterable[HostRow]) -> None:
        """Pauses that are longer than the known ones; all else that is known stays."""
        columns = ("host", "paused_until", "pause_reason", "blocks")
        values = [attrgetter(*columns)(row) for row in rows]
        longer = (
            f"{replacing(columns, ('host',))} WHERE hosts.paused_until IS NULL"
            " OR hosts.paused_until < excluded.paused_until"
        )
        self._put_in(hosts, columns, values, longer)

    def save_hosts(self, rows: Iterable[HostRow]) -> None:
        """Replace what is known of these hosts; others stay."""
        values = [attrgetter(*_HOST_COLUMNS)(row) for row in rows]
        self._upsert(hosts, _HOST_COLUMNS, ("host",), values)

    def load_exits(self, *, host: str | None = None) -> list[ExitRow]:
        """The health of exits, per host and in general; with ``host`` only there
        (``""``: in general)."""
        query = select(*(exits.c[name] for name in _EXIT_COLUMNS))
        if host is not None:
            query = query.where(exits.c.host == host)
        with self.reading() as connection:
            return [ExitRow(**row) for row in connection.execute(query).mappings()]

    def add_exits(self, rows: Iterable[ExitRow]) -> None:
        """Add to the counts of these exits (``ok``, ``fail``, ``bytes``, ``cost`` are what
        came since the last time), and replace what is believed of them."""
        key, sums = ("exit", "host"), ("ok", "fail", "bytes", "cost")
        added = ", ".join(f"{name} = exits.{name} + excluded.{name}" for name in sums)
        values = [attrgetter(*_EXIT_COLUMNS)(row) for row in rows]
        conflict = f"{replacing(_EXIT_COLUMNS, key, keep=sums)}, {added}"
        self._put_in(exits, _EXIT_COLUMNS, values, conflict)

    def save_exits(self, rows: Iterable[ExitRow]) -> None:
        """Replace what is known of these exits on these hosts; others stay."""
        values = [attrgetter(*_EXIT_COLUMNS)(row) for row in rows]
        self._upsert(exits, _EXIT_COLUMNS, ("exit", "host"), values)

    def _upsert(
        self,
        table: Table,
        columns: tuple[str, ...],
        key: tuple[str, ...],
        rows: list[tuple[Any, ...]],
    ) -> None:
        self._put_in(table, columns, rows, replacing(columns, key))

    def _put_in(
        self, table: Table, columns: tuple[str, ...], rows: list[tuple[Any, ...]], conflict: str
    ) -> None:
        if not rows:
            return
        text = insert_text(table, columns, self.dialect.placeholder, conflict)
        rows.sort(key=lambda row: row[:2] if table is exits else row[0])  # or two could deadlock
        with self.writing() as connection:
            connection.exec_driver_sql(text, rows)


def replacing(columns: tuple[str, ...], key: tuple[str, ...], keep: tuple[str, ...] = ()) -> str:
    """The ON CONFLICT clause that puts the new values over the old row's, except ``keep``."""
    changes = ", ".join(f"{name} = excluded.{name}" for name in columns if name not in key + keep)
    return f"ON CONFLICT ({', '.join(key)}) DO UPDATE SET {changes}"
