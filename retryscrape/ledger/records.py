"""The values that go into the ledger and come out of it.

No SQL and no files here: store, merge, feed and report share these.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from retryscrape.policy.outcomes import ErrorClass, Kind, Outcome, Status


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRow:
    """A line of a manifest that becomes a row: pending, or rejected with a reason.

    From a failures feed also what earlier passes came to, for a ledger that
    does not know the row (the feed was moved to another machine).
    """

    url: str
    line: int | None
    host: str = ""
    fields: Mapping[str, Any] | None = None
    same_as: str | None = None
    rejected: str | None = None
    prior: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What the ledger knows of a row, as much as the crawl needs."""

    url: str
    line: int | None
    host: str
    status: Status
    outcome: Outcome | None
    error_class: ErrorClass | None
    http_code: int | None
    kind: Kind | None
    attempts: int
    passes: int
    cost: float
    bytes: int
    rung: str | None
    escalate: bool
    not_before: float | None
    fields: Mapping[str, Any] | None
    same_as: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRecord:
    """One attempt, append only. ``n`` counts over all passes of the URL (1-based).

    ``started_at`` is ISO 8601 UTC with ``Z``; ``elapsed`` and ``waited`` are
    seconds; ``decision`` says in words what was decided and by which rule.
    """

    batch_id: str
    url: str
    n: int
    started_at: str
    elapsed: float
    rung: str
    exit: str | None
    http_code: int | None
    outcome: Outcome
    vendor: str | None
    kind: Kind | None
    evidence: str | None
    reason: str | None
    decision: str
    waited: float
    bytes: int
    cost: float
    job_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a row came to in this pass; ``attempts``, ``passes``, ``cost`` and
    ``bytes`` are totals over all passes, so that merging twice changes nothing.

    ``status`` may be ``pending`` for a row that was parked without being asked.
    ``last_error_at`` is ISO 8601 UTC, on failures.
    """

    batch_id: str
    url: str
    line: int | None
    host: str
    status: Status
    outcome: Outcome | None
    error_class: ErrorClass | None = None
    http_code: int | None = None
    vendor: str | None = None
    kind: Kind | None = None
    reason: str | None = None
    attempts: int = 0
    passes: int = 0
    cost: float = 0.0
    bytes: int = 0
    rung: str | None = None
    escalate: bool = False
    not_before: float | None = None
    last_error_at: str | None = None
    final_url: str | None = None
    page_path: str | None = None
    page_sha256: str | None = None
    page_bytes: int | None = None
    content_type: str | None = None
    job_id: str | None = None
    fields: Mapping[str, Any] | None = None
    same_as: str | None = None
