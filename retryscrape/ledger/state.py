"""What outlives a run besides rows: jobs, hosts, exits. Plain saving and loading."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import fields
from operator import attrgetter
from typing import Any

from sqlalchemy import Table, select

from retryscrape.ledger.database import Database, insert_text
from retryscrape.ledger.records import ExitRow, HostRow, JobRow, RedriveRow
from retryscrape.ledger.rows import clean, fields_text, parse_fields
from retryscrape.ledger.schema import exits, hosts, jobs, redrives

_HOST_COLUMNS = tuple(field.name for field in fields(HostRow))
_EXIT_COLUMNS = tuple(field.name for field in fields(ExitRow))
_JOB_COLUMNS = tuple(field.name for field in fields(JobRow))
_REDRIVE_COLUMNS = tuple(field.name for field in fields(RedriveRow))


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

    def load_hosts(self) -> list[HostRow]:
        """What earlier runs learned of hosts."""
        with self.reading() as connection:
            found = connection.execute(select(*(hosts.c[name] for name in _HOST_COLUMNS)))
            return [HostRow(**row) for row in found.mappings()]

    def save_hosts(self, rows: Iterable[HostRow]) -> None:
        """Replace what is known of these hosts; others stay."""
        values = [attrgetter(*_HOST_COLUMNS)(row) for row in rows]
        self._upsert(hosts, _HOST_COLUMNS, ("host",), values)

    def load_exits(self) -> list[ExitRow]:
        """The health of exits, per host and in general."""
        with self.reading() as connection:
            found = connection.execute(select(*(exits.c[name] for name in _EXIT_COLUMNS)))
            return [ExitRow(**row) for row in found.mappings()]

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
        if not rows:
            return
        text = insert_text(table, columns, self.dialect.placeholder, replacing(columns, key))
        with self.writing() as connection:
            connection.exec_driver_sql(text, rows)


def replacing(columns: tuple[str, ...], key: tuple[str, ...], keep: tuple[str, ...] = ()) -> str:
    """The ON CONFLICT clause that puts the new values over the old row's, except ``keep``."""
    changes = ", ".join(f"{name} = excluded.{name}" for name in columns if name not in key + keep)
    return f"ON CONFLICT ({', '.join(key)}) DO UPDATE SET {changes}"
