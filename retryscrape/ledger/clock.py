"""Rows that were written while a clock ran ahead: no failure lies in the future.

Left alone, such a row would wait for its time for as long as the clock was wrong, and its failure
would win over every later one (merge.py) until then.
"""

from __future__ import annotations

from sqlalchemy import and_, bindparam, or_, select

from retryscrape.ledger.queries import unsuccessful
from retryscrape.ledger.schema import entries
from retryscrape.ledger.store import Ledger
from retryscrape.ledger.times import epoch, iso
from retryscrape.policy.outcomes import Status
from retryscrape.policy.retry_after import LONGEST

#: Seconds by which the clocks of several machines may differ.
SKEW = 300.0

#: What is said of them.
AHEAD = "were written by a clock that ran ahead: they wait as long as was said, but from now on."


def mend_times(ledger: Ledger, batch_id: str, *, now: float, longest: float) -> int:
    """Move failures that lie in the future to ``now`` (epoch seconds), and by as much the time
    that they are parked for; rows that were not asked are parked for their host's pause, which
    is ``longest`` seconds at most. Returns how many rows there were."""
    table, ahead = entries.c, iso(now + SKEW)
    unasked = and_(table.status == Status.PENDING.value, table.not_before > now + longest + SKEW)
    too_far = or_(table.last_error_at > ahead, table.not_before > now + LONGEST + SKEW, unasked)
    found = (
        select(table.url, table.status, table.not_before, table.last_error_at)
        .where(unsuccessful(batch_id), too_far)
        .order_by(table.line, table.url)  # along the index of such rows, not through the batch
        .with_for_update()
    )
    change = (
        entries.update()
        .where(table.batch_id == batch_id, table.url == bindparam("key"))
        .values(not_before=bindparam("until"), last_error_at=bindparam("at"))
    )
    with ledger.writing() as connection:
        rows = [
            {
                "key": url,
                "until": _until(status, not_before, failed, now, longest),
                "at": iso(now) if failed and failed > ahead else failed,
            }
            for url, status, not_before, failed in connection.execute(found)
        ]
        if rows:
            connection.execute(change, rows)
    return len(rows)


def _until(
    status: str, not_before: float | None, failed: str | None, now: float, longest: float
) -> float | None:
    """``not_before``, if it counts from now at the latest."""
    if not_before is None:
        return None
    wait = longest if status == Status.PENDING.value else LONGEST
    at = epoch(failed)
    if at is not None and at > now:
        wait = min(wait, max(0.0, not_before - at))
    return min(not_before, now + wait)
