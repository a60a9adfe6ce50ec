"""What ``scrapy replay`` found, as text or JSON. Kept in a file: there may be millions."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from itertools import islice
from typing import IO, Self

from msgspec.structs import asdict

from retryscrape.ledger.replay import Change, Tally
from retryscrape.policy.redact import mask_url, plain

#: Rows that the text shows.
SHOWN = 20


class Changes:
    """Takes changes one by one and prints them afterwards."""

    def __init__(self) -> None:
        self._file = _spool()
        self._count = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def add(self, change: Change) -> None:
        """A row that would now end otherwise."""
        row = asdict(change)
        row["url"], row["reason"] = mask_url(change.url), mask_url(change.reason)
        del row["path"]
        self._file.write(json.dumps(row) + "\n")
        self._count += 1

    def _rows(self) -> Iterator[str]:
        self._file.seek(0)
        return (line.rstrip("\n") for line in self._file)

    def as_json(self, batch: str, tally: Tally, *, apply: bool) -> Iterator[str]:
        """One JSON object, in pieces: the counts, then every row."""
        counts = [
            {"was": was, "now": now, "rows": rows}
            for (was, now), rows in tally.changes.most_common()
        ]
        head = {
            "batch_id": batch,
            "pages": tally.pages,
            "failures": tally.failures,
            "bodies": tally.bodies,
            "changed": tally.changes.total(),
            "applied": apply,
            "reopened": tally.reopened,
            "counts": counts,
        }
        yield json.dumps(head, indent=1)[:-2] + ","
        yield ' "rows": ['
        for number, row in enumerate(self._rows(), start=1):
            yield f"  {row}" + ("," if number < self._count else "")
        yield " ]\n}"

    def as_text(self, batch: str, tally: Tally, *, apply: bool) -> Iterator[str]:
        """For a terminal: the counts, the first rows, and what to do."""
        yield (
            f"Batch {batch}: today's rules over {tally.pages:,} pages and {tally.failures:,}"
            f" failures ({tally.bodies:,} of them with their page)"
        )
        for (was, now), rows in tally.changes.most_common():
            yield f"{rows:>9,}  {was} -> {now}"
        for line in islice(self._rows(), SHOWN):
            row = json.loads(line)
            yield f"    {plain(row['url'], 200)}"
            yield f"        {row['was']} -> {row['now']}: {plain(row['reason'], 200)}"
        if self._count > SHOWN:
            yield f"    ... and {self._count - SHOWN:,} more (--json lists all)"
        yield _last(batch, tally, apply)


def _spool() -> IO[str]:
    """In memory up to a megabyte."""
    return tempfile.SpooledTemporaryFile(2**20, "w+")


def _last(batch: str, tally: Tally, apply: bool) -> str:
    if not tally.changes:
        return "Every row would end as it did."
    if not apply:
        return "Nothing was changed; --apply puts what can be had again back on the worklist."
    if not tally.reopened:
        return "Nothing had to be put back: what may still be had is on the worklist already."
    return f"{tally.reopened:,} rows are back on the worklist: scrapy redrive {batch}"
