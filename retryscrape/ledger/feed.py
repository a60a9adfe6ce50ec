"""The failures feed: every row that is not a success, as JSON lines for the next run.

The names and order of its fields are a contract (DESIGN.md section 3).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from retryscrape.ledger.actions import action
from retryscrape.ledger.pages import replacing_file
from retryscrape.ledger.records import Result
from retryscrape.ledger.store import Ledger

FIELDS = (
    "url",
    "batch_id",
    "status",
    "outcome",
    "error_class",
    "http_code",
    "vendor",
    "reason",
    "attempts",
    "passes",
    "cost",
    "rung",
    "escalate",
    "not_before",
    "last_error_at",
    "job_id",
    "final_url",
    "action",
    "fields",
)


def feed_row(row: Result) -> dict[str, Any]:
    """One line of the feed, its values as JSON has them."""
    values = {name: getattr(row, name) for name in FIELDS if name != "action"}
    values["cost"] = int(row.cost) if row.cost.is_integer() else row.cost
    values["fields"] = dict(row.fields or {})
    values["action"] = action(row)
    return {name: values[name] for name in FIELDS}


def write_failures(
    ledger: Ledger,
    batch_id: str,
    path: Path,
    manifest_tail: tuple[str, int] | None = None,
) -> int:
    """Write the feed of a batch to ``path``, whole or not at all; returns its rows.

    ``manifest_tail`` is a manifest and the first line of it that was not read;
    without it the ledger knows. Raises OSError and LedgerError.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = 0
    with replacing_file(path) as file:
        for row in ledger.failures(batch_id):
            file.write(_line(feed_row(row)))
            rows += 1
        tails = [manifest_tail] if manifest_tail else unread(ledger, batch_id, path)
        for manifest, from_line in tails:
            tail = {"manifest": manifest, "from_line": from_line, "batch_id": batch_id}
            file.write(_line(tail))
    return rows


def unread(ledger: Ledger, batch_id: str, feed: Path) -> Iterator[tuple[str, int]]:
    """Manifests of the batch that were not read to their end, and where to go on.

    Not the feed itself, read in place: all its lines are rows of this ledger.
    Of several shards the one that read least counts.
    """
    first: dict[str, int] = {}
    for read in ledger.reads_of(batch_id):
        if not read.complete and not _same_file(read.manifest, feed):
            first[read.manifest] = min(read.read_to + 1, first.get(read.manifest, 2**63))
    yield from first.items()


def _same_file(manifest: str, feed: Path) -> bool:
    try:
        return Path(manifest).resolve() == feed.resolve()
    except (OSError, ValueError):  # a URI, or no path at all
        return False


def _line(values: Mapping[str, Any]) -> bytes:
    # ASCII escapes: line separators inside a URL cannot break a line for any reader.
    return json.dumps(values, default=str).encode("ascii") + b"\n"
