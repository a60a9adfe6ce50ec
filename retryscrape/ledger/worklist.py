"""Counts the worklist of a re-drive in the ledger. What follows from it is redrive.py's."""

from __future__ import annotations

from sqlalchemy import ColumnElement, and_, func, or_, select

from retryscrape.ledger.queries import all_unsuccessful
from retryscrape.ledger.redrive import Rules, Worklist
from retryscrape.ledger.schema import entries
from retryscrape.ledger.store import Ledger
from retryscrape.policy.outcomes import ErrorClass, Outcome, Status


def worklist(
    ledger: Ledger, batch_id: str, rules: Rules, *, now: float, ends_at: float
) -> Worklist:
    """The open rows of a batch as ``Worklist`` has them; times are epoch seconds."""
    due_by = min(now + rules.max_wait, ends_at)
    spent = _spent(rules.passes)
    due = and_(~spent, func.coalesce(entries.c.not_before, 0.0) <= due_by)
    waiting = and_(~spent, entries.c.not_before > due_by, entries.c.not_before < ends_at)
    parked = and_(~spent, entries.c.not_before > due_by, entries.c.not_before >= ends_at)
    query = select(
        func.count().filter(due),
        func.count().filter(waiting),
        func.min(entries.c.not_before).filter(waiting),
        func.max(entries.c.not_before).filter(waiting),
        func.count().filter(parked),
        func.count().filter(spent),
    ).where(all_unsuccessful(batch_id), _open())
    with ledger.reading() as connection:
        found = connection.execute(query).one()
    return Worklist(
        due=found[0],
        waiting=found[1],
        first=found[2],
        last=found[3],
        parked=found[4],
        spent=found[5],
    )


def _open() -> ColumnElement[bool]:
    failed = entries.c.error_class != ErrorClass.PERMANENT.value
    return or_(entries.c.status == Status.PENDING.value, failed)


def _spent(limit: int) -> ColumnElement[bool]:
    """As ``redrive.spent_up``."""
    asked = func.coalesce(entries.c.outcome, "").not_in(("", Outcome.NO_RESULT.value))
    return and_(entries.c.passes >= limit, asked)
