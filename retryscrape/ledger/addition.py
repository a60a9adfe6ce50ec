"""How lines of a manifest become rows: keys, duplicates, rejected lines. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from retryscrape.ledger.forms import clean
from retryscrape.ledger.records import Added, Known, NewRow, Result
from retryscrape.ledger.rows import REJECTED_KEY, new_entry
from retryscrape.policy.outcomes import Outcome


def keys_of(row: NewRow) -> tuple[str, ...]:
    """The keys that a line may come to have, the likelier first."""
    if row.rejected is None or row.prior is not None:
        return (clean(row.url),)
    numbered = f"line:{row.line or 0}"
    text = clean(row.url)[:REJECTED_KEY]
    return (text, numbered) if text.strip() else (numbered,)


class Addition:
    """One call of ``add_rows``: takes lines in order and says which become rows.

    ``known`` is what the ledger has under any of their keys. Only on the first
    reading of a manifest is a line whose row exists a duplicate; later it may
    be the same line at another place.
    """

    def __init__(
        self,
        known: Mapping[str, Known],
        *,
        first_reading: bool,
        rejected_at: str,
        job_id: str | None,
    ) -> None:
        self._lines = {key: row.line for key, row in known.items()}
        self._rejected = {key for key, row in known.items() if row.outcome is Outcome.REJECTED}
        self._first_reading = first_reading
        self._rejected_at = rejected_at
        self._job_id = job_id
        self._fresh: list[str] = []
        self._duplicates = 0
        self._new_rejected = 0

    def take(self, batch_id: str, row: NewRow) -> Result | None:
        """The entry to insert for ``row``, or ``None`` if there is one already."""
        key = self._free_key(row)
        if key is None:
            return None
        self._lines[key] = row.line
        entry = new_entry(batch_id, row, key, job_id=self._job_id, at=self._rejected_at)
        if entry.outcome is Outcome.REJECTED:
            self._rejected.add(key)
            self._new_rejected += 1
        else:
            self._fresh.append(key)
        return entry

    def added(self) -> Added:
        """What was taken so far."""
        return Added(
            new=len(self._fresh),
            duplicates=self._duplicates,
            rejected=self._new_rejected,
            fresh=frozenset(self._fresh),
        )

    def _free_key(self, row: NewRow) -> str | None:
        for key in keys_of(row):
            if key not in self._lines:
                return key
            if self._lines[key] == row.line:
                return None  # this very line, read again
            if row.prior is not None or (row.rejected is not None and not self._first_reading):
                return None
        if row.rejected is None and self._first_reading:
            self._duplicates += 1
        return None
