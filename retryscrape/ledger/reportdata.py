"""What a report says about a batch, as plain data.

The sums are reportqueries.py's, how it looks is report/'s matter. Nothing here
grows with the batch: hosts, exits and rows are capped, and their full number is said.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, select

from retryscrape.ledger import reportqueries as sums
from retryscrape.ledger.actions import action
from retryscrape.ledger.pages import replacing_file
from retryscrape.ledger.records import Counts, JobRow, Result
from retryscrape.ledger.schema import batches
from retryscrape.ledger.store import Ledger
from retryscrape.ledger.times import iso
from retryscrape.policy.outcomes import Status
from retryscrape.policy.redact import mask_url

TOP_EXITS = 200
RESIDUE = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A batch in numbers. Costs in price units, times in seconds, lists of plain mappings.

    ``unresolved`` are rows that are neither a success nor settled (gone,
    refused, rejected). ``residue`` lists rows that are not a success, the
    unresolved ones first, at most RESIDUE of ``residue_total``; likewise
    ``hosts`` (of ``hosts_total``) and ``exits`` (of ``exits_total``), the
    busiest first. User and password in URLs are masked.
    """

    batch_id: str
    manifest: str
    created_at: str
    generated_at: str
    lines: int
    duplicates: int
    rejected: int
    rows: int
    success: int
    failed: int
    pending: int
    settled: int
    unresolved: int
    parked: int
    next_due: str | None
    passes: int
    attempts: int
    cost: float
    bytes: int
    waited: float
    attempts_per_page: float | None
    cost_per_page: float | None
    bytes_per_page: float | None
    pages_by_attempts: Mapping[int, int]
    outcomes: Sequence[Mapping[str, Any]]
    hosts: Sequence[Mapping[str, Any]]
    hosts_total: int
    vendors: Sequence[Mapping[str, Any]]
    rungs: Sequence[Mapping[str, Any]]
    exits: Sequence[Mapping[str, Any]]
    exits_total: int
    jobs: Sequence[Mapping[str, Any]]
    redrives: Sequence[Mapping[str, Any]]
    timeline: Sequence[Mapping[str, Any]]
    residue: Sequence[Mapping[str, Any]]
    residue_total: int


def report_data(
    ledger: Ledger, batch_id: str, *, now: float, residue: int = RESIDUE
) -> Report | None:
    """The report of a batch as of ``now`` (epoch seconds); ``None`` if there is no such batch."""
    counts = ledger.counts(batch_id)
    with ledger.reading() as connection:
        batch = connection.execute(select(batches).where(batches.c.batch_id == batch_id)).first()
        if batch is None:
            return None
        history = sums.history(connection, batch_id)
        summed = _summed(connection, batch_id, history)
        rows = sums.residue(connection, batch_id, residue)
        next_due = sums.next_due(connection, batch_id, now)
    return Report(
        batch_id=batch_id,
        manifest=mask_url(batch.manifest or ""),
        created_at=batch.created_at,
        generated_at=iso(now),
        lines=batch.lines,
        duplicates=batch.duplicates,
        rejected=batch.rejected,
        passes=batch.passes,
        parked=ledger.parked(batch_id, now),
        next_due=None if next_due is None else iso(next_due),
        jobs=_jobs(ledger, batch_id, history),
        redrives=[asdict(row) for row in ledger.redrives_of(batch_id)],
        residue=[_residue_row(row) for row in rows],
        **_counted(counts),
        **summed,
    )


def _counted(counts: Counts) -> dict[str, Any]:
    by_status = counts.by_status
    success = by_status[Status.SUCCESS]
    groups = sorted(counts.groups.items(), key=lambda item: -item[1])
    return {
        "rows": counts.total,
        "success": success,
        "failed": by_status[Status.FAILED],
        "pending": by_status[Status.PENDING],
        "settled": counts.total - success - counts.unresolved,
        "unresolved": counts.unresolved,
        "residue_total": counts.total - success,
        "outcomes": [
            {"status": status, "outcome": outcome, "error_class": error_class, "rows": rows}
            for (status, outcome, error_class), rows in groups
        ],
    }


def _summed(
    connection: Connection, batch_id: str, history: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    by_exit = sums.fold(history, "exit")
    return {
        **sums.entries_summed(connection, batch_id),
        "waited": sum(row["waited"] for row in history),
        "vendors": sums.vendors(connection, batch_id, history),
        "rungs": sums.fold(history, "rung"),
        "exits": sums.with_health(connection, by_exit[:TOP_EXITS]),
        "exits_total": len(by_exit),
        "timeline": sums.timeline(connection, batch_id),
    }


def _jobs(
    ledger: Ledger, batch_id: str, history: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    by_job = {row["job_id"]: row for row in sums.fold(history, "job_id")}
    none = {"attempts": 0, "ok": 0, "cost": 0.0, "bytes": 0}
    return [{**_job(job), **none, **by_job.get(job.job_id, {})} for job in ledger.jobs_of(batch_id)]


def _job(job: JobRow) -> dict[str, Any]:
    given = job.arguments or {}
    masked = {name: mask_url(str(value)) for name, value in given.items()}
    return {**asdict(job), "arguments": masked}


def write_report(report: Report, path: Path) -> None:
    """Write ``report`` as JSON to ``path``, whole or not at all. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing_file(path) as file:
        file.write(json.dumps(asdict(report), indent=1, default=str).encode("ascii") + b"\n")


def _residue_row(row: Result) -> dict[str, Any]:
    names = ("line", "host", "status", "outcome", "error_class", "http_code", "vendor", "attempts")
    values = {name: getattr(row, name) for name in (*names, "passes", "cost", "rung")}
    return {
        "url": mask_url(row.url),
        **values,
        "reason": mask_url(row.reason) if row.reason else None,
        "not_before": iso(row.not_before) if row.not_before else None,
        "last_error_at": row.last_error_at,
        "action": action(row),
    }
