"""The values that go into the ledger and come out of it.

No SQL and no files here: store, merge, feed and report share these.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from retryscrape.policy.outcomes import SETTLED, ErrorClass, Kind, Outcome, Status


class NewRow(Struct, frozen=True, kw_only=True):
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


class Known(Struct, frozen=True, kw_only=True):
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
    job_id: str | None = None


class AttemptRecord(Struct, frozen=True, kw_only=True):
    """One attempt, append only. ``n`` counts over all passes of the URL (1-based).

    ``started_at`` is ISO 8601 UTC with ``Z``; ``elapsed`` and ``waited`` are
    seconds; ``decision`` says in words what was decided and by which rule. Of what was
    bought: ``mode`` as the scraping API says it, ``task`` is the order's name in ``tasks``.
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
    mode: str | None = None
    task: str | None = None


class Result(Struct, frozen=True, kw_only=True):
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


class Counts(Struct, frozen=True, kw_only=True):
    """Rows of a batch, counted by (status, outcome, error class)."""

    groups: Mapping[tuple[Status, Outcome | None, ErrorClass | None], int]

    @property
    def total(self) -> int:
        """All rows of the batch."""
        return sum(self.groups.values())

    @property
    def by_status(self) -> dict[Status, int]:
        """Rows by status; every status is present."""
        found = dict.fromkeys(Status, 0)
        for (status, _, _), rows in self.groups.items():
            found[status] += rows
        return found

    @property
    def by_outcome(self) -> dict[Outcome | None, int]:
        """Rows by outcome; ``None`` stands for rows that came to nothing yet."""
        found: dict[Outcome | None, int] = {}
        for (_, outcome, _), rows in self.groups.items():
            found[outcome] = found.get(outcome, 0) + rows
        return found

    @property
    def open(self) -> int:
        """Rows that a crawl would take up, parked ones included."""
        return sum(
            rows
            for (status, _, error_class), rows in self.groups.items()
            if status is Status.PENDING
            or (status is Status.FAILED and error_class is not ErrorClass.PERMANENT)
        )

    @property
    def unresolved(self) -> int:
        """Rows that are neither a success nor settled (gone, refused, rejected)."""
        return sum(
            rows
            for (status, outcome, _), rows in self.groups.items()
            if status is not Status.SUCCESS and outcome not in SETTLED
        )


class BatchInfo(Struct, frozen=True, kw_only=True):
    """A batch as it stands when a run opens it.

    ``lines``, ``urls``, ``duplicates`` and ``rejected`` count what was read so
    far; ``parked`` rows are open and wait for their ``not_before``, ``due``
    rows are open and do not. ``read_to`` is the last line of this manifest that
    became rows, ``complete`` says that its end was reached.
    """

    batch_id: str
    new: bool
    manifest: str
    manifest_changed: bool
    lines: int
    urls: int
    duplicates: int
    rejected: int
    passes: int
    counts: Mapping[Status, int]
    parked: int
    due: int
    read_to: int
    complete: bool


class Added(Struct, frozen=True, kw_only=True):
    """What ``add_rows`` did: three counts, and the keys that got their row just now."""

    new: int
    duplicates: int
    rejected: int
    fresh: frozenset[str]


class HostRow(Struct, frozen=True, kw_only=True):
    """What a run learned of a host. Times are epoch seconds, ``state`` is JSON text."""

    host: str
    paused_until: float | None = None
    pause_reason: str | None = None
    blocks: int = 0
    best_rung: str | None = None
    best_until: float | None = None
    state: str | None = None


class ExitRow(Struct, frozen=True, kw_only=True):
    """The health of an exit on a host; ``host`` is ``""`` for the exit's global part.

    ``exit`` is the redacted name. ``elapsed`` is in seconds, ``updated_at`` an
    epoch second, ``state`` JSON text for whatever the policy keeps.
    """

    exit: str
    host: str = ""
    ok: float = 0.0
    fail: float = 0.0
    bytes: int = 0
    cost: float = 0.0
    elapsed: float | None = None
    updated_at: float | None = None
    state: str | None = None


class JobRow(Struct, frozen=True, kw_only=True):
    """One run over a batch; ``stats`` is a small mapping of numbers and texts.

    ``spider`` and ``arguments`` are as they were typed (None: not known), ``settings``
    are those few that a re-drive must not do without.
    """

    job_id: str
    batch_id: str
    started_at: str
    finished_at: str | None = None
    finish_reason: str | None = None
    stats: Mapping[str, Any] | None = None
    spider: str | None = None
    arguments: Mapping[str, Any] | None = None
    settings: Mapping[str, Any] | None = None


class RedriveRow(Struct, frozen=True, kw_only=True):
    """One loop of ``scrapy redrive``, ``n`` counts them (1-based).

    ``reason`` is the stop rule that ended it (None: it was killed, or goes on),
    ``spent`` its seconds so far, ``before`` and ``left_over`` the rows of its
    worklist at the beginning and at the end, ``job_id`` its latest pass.
    """

    batch_id: str
    n: int
    started_at: str
    finished_at: str | None = None
    reason: str | None = None
    passes: int = 0
    spent: float = 0.0
    before: int = 0
    left_over: int = 0
    job_id: str | None = None


class ReadRow(Struct, frozen=True, kw_only=True):
    """How far one manifest of a batch was read."""

    batch_id: str
    manifest: str
    shard: str
    digest: str | None
    read_to: int
    complete: bool
