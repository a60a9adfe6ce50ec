"""The values that go into the ledger and come out of it.

No SQL and no files here: store, merge, feed and report share these.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any

from retryscrape.policy.outcomes import SETTLED, ErrorClass, Kind, Outcome, Status


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
    job_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRecord:
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


_RESULT = tuple(field.name for field in fields(Result))
_result_values = attrgetter(*_RESULT)
_PUT = {name: getattr(Result, name).__set__ for name in _RESULT}


def changed(result: Result, **values: Any) -> Result:
    """``replace`` for a Result on the path of every page: a third of its time."""
    made: Result = object.__new__(Result)
    for put, value in zip(_PUT.values(), _result_values(result), strict=True):
        put(made, value)
    for name, value in values.items():
        _PUT[name](made, value)
    return made


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchInfo:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """What ``add_rows`` did: three counts, and the keys that got their row just now."""

    new: int
    duplicates: int
    rejected: int
    fresh: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRow:
    """What a run learned of a host. Times are epoch seconds, ``state`` is JSON text."""

    host: str
    paused_until: float | None = None
    pause_reason: str | None = None
    blocks: int = 0
    best_rung: str | None = None
    best_until: float | None = None
    state: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExitRow:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class RedriveRow:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRow:
    """How far one manifest of a batch was read."""

    batch_id: str
    manifest: str
    shard: str
    digest: str | None
    read_to: int
    complete: bool
