"""What a report says about a batch, as plain data.

The sums are reportqueries.py's, how it looks is report/'s matter. Nothing here
grows with the batch: hosts, exits and rows are capped, and their full number is said.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict
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
#: The stat of a run that holds its suspicious pages, as JSON text.
SUSPECTS = "retryscrape/suspects"


class Report(Struct, frozen=True, kw_only=True):
    """A batch in numbers. Costs in price units, times in seconds, lists of plain mappings.

    ``unresolved`` are rows that are neither a success nor settled (gone,
    refused, rejected). ``residue`` lists rows that are not a success, the
    unresolved ones first, at most RESIDUE of ``residue_total``; likewise
    ``hosts`` (of ``hosts_total``) and ``exits`` (of ``exits_total``), the
    busiest first. User and password in URLs are masked. ``rerun`` compares what
    the re-drives cost with what as many full runs would have, ``suspects`` are
    pages that came under many URLs of a host (policy/suspect.py).
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
    waits: Sequence[Mapping[str, Any]]
    rerun: Mapping[str, Any]
    outcomes: Sequence[Mapping[str, Any]]
    hosts: Sequence[Mapping[str, Any]]
    hosts_total: int
    vendors: Sequence[Mapping[str, Any]]
    rungs: Sequence[Mapping[str, Any]]
    exits: Sequence[Mapping[str, Any]]
    exits_total: int
    jobs: Sequence[Mapping[str, Any]]
    redrives: Sequence[Mapping[str, Any]]
    suspects: Sequence[Mapping[str, Any]]
    timeline: Sequence[Mapping[str, Any]]
    residue: Sequence[Mapping[str, Any]]
    residue_total: int


def report_data(
    ledger: Ledger, batch_id: str, *, now: float, residue: int = RESIDUE
) -> Report | None:
    """The report of a batch as of ``now`` (epoch seconds); ``None`` if there is no such batch."""
    counts = ledger.counts(batch_id)
    with ledger.reading() as connection, ledger.dialect.room(connection):
        batch = connection.execute(select(batches).where(batches.c.batch_id == batch_id)).first()
        if batch is None:
            return None
        history, timeline = sums.history(connection, ledger.dialect, batch_id)
        summed = {
            **sums.entries_summed(connection, ledger.dialect, batch_id),
            **_summed(connection, batch_id, history),
        }
        rows = sums.residue(connection, batch_id, residue)
        next_due = sums.next_due(connection, batch_id, now)
    jobs = _jobs(ledger, batch_id, history)
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
        jobs=jobs,
        timeline=timeline,
        rerun=_rerun(jobs),
        suspects=suspects_of(jobs),
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
        "waited": sum(row["waited"] for row in history),
        "waits": sums.waits(history),
        "vendors": sums.vendors(connection, batch_id, history),
        "rungs": sums.fold(history, "rung"),
        "exits": sums.with_health(connection, by_exit[:TOP_EXITS]),
        "exits_total": len(by_exit),
    }


def _jobs(
    ledger: Ledger, batch_id: str, history: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    by_job = {row["job_id"]: row for row in sums.fold(history, "job_id")}
    none = sums.nothing()
    return [{**_job(job), **none, **by_job.get(job.job_id, {})} for job in ledger.jobs_of(batch_id)]


def _rerun(jobs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A full run is what the runs cost that asked rows for the first time, all together;
    a re-drive is a later run that asked no new row."""
    asked = [job for job in jobs if job["attempts"]]
    again = [job for job in asked[1:] if not job["first_attempts"]]
    names = ("attempts", "cost", "bytes")
    spent = {name: sum(job[name] for job in again) for name in names}
    once = {name: sum(job[name] for job in asked) - spent[name] for name in names}
    return {
        "redrives": len(again),
        **{f"redrive_{name}": spent[name] for name in names},
        **{f"full_{name}": len(again) * once[name] for name in names},
    }


def suspects_of(jobs: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What runs found suspicious: a list of mappings, JSON text among their stats.
    Of several words on a page that of the run that met most of it counts."""
    found: dict[tuple[Any, Any], dict[str, Any]] = {}
    for job in jobs:
        text = (job["stats"] or {}).get(SUSPECTS)
        for page in json.loads(text) if isinstance(text, str) else ():
            known = found.setdefault((page["host"], page["digest"]), page)
            if page["urls"] > known["urls"]:
                found[page["host"], page["digest"]] = page
    return sorted(found.values(), key=lambda page: -page["urls"])


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
