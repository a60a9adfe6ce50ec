"""Which rows of its manifest a crawl takes. Pure: a row and the time in, a word out."""

from __future__ import annotations

from enum import StrEnum

from retryscrape.ledger.records import Known
from retryscrape.policy.outcomes import ErrorClass, Outcome, Status


class Take(StrEnum):
    """Whether a row is requested, and if not, why."""

    YES = "yes"
    DONE = "done"
    PERMANENT = "permanent"
    PARKED = "parked"
    REJECTED = "rejected"


def take(row: Known, *, now: float, max_wait: float, include_permanent: bool) -> Take:
    """Pending rows, and failed ones that are not permanent and due within ``max_wait``.

    ``now`` and the row's ``not_before`` are epoch seconds (DESIGN.md sections 4, 6).
    """
    if row.status is Status.SUCCESS:
        return Take.DONE
    if row.outcome is Outcome.REJECTED:
        return Take.REJECTED
    if row.error_class is ErrorClass.PERMANENT and not include_permanent:
        return Take.PERMANENT
    if row.not_before is not None and row.not_before - now > max_wait:
        return Take.PARKED
    return Take.YES
