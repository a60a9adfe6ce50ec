"""What outlives a run besides rows: jobs, hosts, exits. Plain saving and loading."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import fields
from operator import attrgetter
from typing import Any

from sqlalchemy import Table, select

from retryscrape.ledger.database import Database, insert_text
from retryscrape.ledger.records import ExitRow, HostRow, JobRow
from retryscrape.ledger.rows import clean
from retryscrape.ledger.schema import exits, hosts, jobs

_HOST_COLUMNS = tuple(field.name for field in fields(HostRow))
_EXIT_COLUMNS = tuple(field.name for field in fields(ExitRow))


class StateTables(Database):
    """The tables of the ledger that are not about URLs."""

    def start_job(self, job_id: str, batch_id: str, started_at: str) -> None:
        """Record that a run began. The same id again (a restart) begins it anew."""
        values = (clean(job_id), batch_id, started_at, None, None, None)
        columns = ("job_id", "batch_id", "started_at", "finished_at", "finish_reason", "stats")
        self._upsert(jobs, columns, ("job_id",), [values])

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
        return [
            JobRow(**{**row, "stats": json.loads(row["stats"]) if row["stats"] else None})
            for row in found
        ]

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


def replacing(columns: tuple[str, ...], key: tuple[str, ...]) -> str:
    """The ON CONFLICT clause that puts the new values over the old row's."""
    changes = ", ".join(f"{name} = excluded.{name}" for name in columns if name not in key)
    return f"ON CONFLICT ({', '.join(key)}) DO UPDATE SET {changes}"
