"""Which rows of its manifest a crawl takes. Pure: a row and the time in, a word out."""

from __future__ import annotations

from enum import StrEnum

from retryscrape.ledger.records import Known
from retryscrape.ledger.redrive import spent_up
from retryscrape.policy.outcomes import ErrorClass, Outcome, Status


class Take(StrEnum):
    """Whether a row is requested, and if not, why."""

    YES = "yes"
    DONE = "done"
    PERMANENT = "permanent"
    PARKED = "parked"
    REJECTED = "rejected"
    SPENT = "spent"


def take(
    row: Known,
    *,
    now: float,
    max_wait: float,
    include_permanent: bool,
    passes: int | None = None,
) -> Take:
    """Pending rows, and failed ones that are not permanent and due within ``max_wait``.

    ``now`` and the row's ``not_before`` are epoch seconds (DESIGN.md sections 4, 6).
    A re-drive gives the most ``passes`` that a row gets; a crawl that was typed has no limit.
    """
    if row.status is Status.SUCCESS:
        return Take.DONE
    if row.outcome is Outcome.REJECTED:
        return Take.REJECTED
    if row.error_class is ErrorClass.PERMANENT and not include_permanent:
        return Take.PERMANENT
    if passes is not None and spent_up(row.outcome, row.passes, passes):
        return Take.SPENT
    if row.not_before is not None and row.not_before - now > max_wait:
        return Take.PARKED
    return Take.YES
