"""What the attempts of a URL add up to, and when its row must be held against them. Pure.

A row's totals (attempts, cost, bytes) are never below its history's. Where old totals and
new attempts together prove that, the history need not be summed again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from msgspec.structs import replace

from retryscrape.ledger.forms import clean
from retryscrape.ledger.records import AttemptRecord, Result


class Totals(NamedTuple):
    """Of one URL: the greatest ``n``, and sums."""

    attempts: int
    cost: float
    bytes: int


def by_url(attempts: Iterable[AttemptRecord]) -> dict[tuple[str, str], Totals]:
    """The totals of these attempts, by batch and key."""
    found: dict[tuple[str, str], Totals] = {}
    for record in attempts:
        key = record.batch_id, clean(record.url)
        last, cost, size = found.get(key, (0, 0.0, 0))
        found[key] = Totals(max(last, record.n), cost + record.cost, size + record.bytes)
    return found


def proven(before: Result | None, after: Result, added: Totals | None) -> bool:
    """Whether ``after`` cannot be below its history: that of ``before``, which was not either,
    and the ``added`` attempts."""
    if before is None:
        return False
    if added is None:
        return True
    last, cost, size = added
    return covers(after, Totals(last, before.cost + cost, before.bytes + size))


def covers(row: Result, totals: Totals | None) -> bool:
    """Whether the row has at least these totals, if there are any."""
    return totals is None or (
        row.attempts >= totals.attempts and row.cost >= totals.cost and row.bytes >= totals.bytes
    )


def raised(row: Result, totals: Totals | None) -> Result:
    """``row`` with at least these totals."""
    if totals is None or covers(row, totals):
        return row
    return replace(
        row,
        attempts=max(row.attempts, totals.attempts),
        cost=max(row.cost, totals.cost),
        bytes=max(row.bytes, totals.bytes),
    )
