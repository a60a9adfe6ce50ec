"""What ``scrapy reconcile`` found, as text or JSON. Kept in a file: there may be millions."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import IO, Any, Self

from retryscrape.ledger.pagecheck import Finding, Flaw
from retryscrape.ledger.reconcile import Tally
from retryscrape.policy.redact import mask_url

#: Rows of each kind that the text shows.
SHOWN = 20
_RESTORED = "restored"
_WORDS = {
    Flaw.MISSING: "a line without a row, or a success without its page",
    Flaw.EMPTY: "the page has no content",
    Flaw.MALFORMED: "the page fails the checks",
    Flaw.DAMAGED: "the page is not what its row says",
}


class Findings:
    """Takes findings one by one and prints them afterwards, kind by kind."""

    def __init__(self) -> None:
        kinds = [*(str(flaw) for flaw in Flaw), _RESTORED]
        self._files = {kind: _spool() for kind in kinds}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files.values():
            file.close()

    def found(self, finding: Finding) -> None:
        """A row that has to be fetched again."""
        row = {"url": finding.url, "page_path": finding.path, "reason": finding.reason}
        self._files[finding.flaw].write(json.dumps(row) + "\n")

    def restored(self, url: str, path: str) -> None:
        """A page that got its row back."""
        row = {"url": url, "page_path": path}
        self._files[_RESTORED].write(json.dumps(row) + "\n")

    def _rows(self, kind: str) -> Iterator[str]:
        self._files[kind].seek(0)
        return (line.rstrip("\n") for line in self._files[kind])

    def as_json(
        self, batch: str, tally: Tally, unchecked: Sequence[str], *, repair: bool
    ) -> Iterator[str]:
        """One JSON object, in pieces: ``counts``, then each kind with all its rows."""
        counts = {**{flaw.value: tally.flaws[flaw] for flaw in Flaw}, _RESTORED: tally.restored}
        head: dict[str, Any] = {
            "batch_id": batch,
            "checked": tally.checked,
            "clean": tally.clean,
            "repaired": repair,
            "counts": counts,
            "stray": tally.stray,
            "leftovers": tally.leftovers,
            "unchecked": list(unchecked),
        }
        yield json.dumps(head, indent=1)[:-2] + ","
        for number, kind in enumerate(self._files, start=1):
            yield f' "{kind}": ['
            yield from _joined(self._rows(kind))
            yield " ]" + ("," if number < len(self._files) else "")
        yield "}"

    def as_text(
        self, batch: str, tally: Tally, unchecked: Sequence[str], *, repair: bool
    ) -> Iterator[str]:
        """For a terminal: the counts, and the first rows of each kind."""
        yield f"Batch {batch}: {tally.checked} successes checked against their pages"
        for flaw in Flaw:
            yield f"{flaw:10} {tally.flaws[flaw]:>9}  {_WORDS[flaw]}"
            yield from self._shown(flaw, tally.flaws[flaw])
        yield f"{_RESTORED:10} {tally.restored:>9}  a page that had lost its row"
        yield from self._shown(_RESTORED, tally.restored)
        if tally.stray:
            yield f"stray      {tally.stray:>9}  pages of no known URL (left where they are)"
        if tally.leftovers:
            yield f"leftovers  {tally.leftovers:>9}  half-written files of a killed run"
        yield from (f"note: {sentence}" for sentence in unchecked)
        yield _last(batch, tally, repair)

    def _shown(self, kind: str, count: int) -> Iterator[str]:
        for line in islice(self._rows(kind), SHOWN):
            row = json.loads(line)
            reason = f"  ({row['reason']})" if row.get("reason") else ""
            yield f"    {mask_url(row['url'])}{reason}"
        if count > SHOWN:
            yield f"    ... and {count - SHOWN} more (--json lists all)"


def _spool() -> IO[str]:
    """In memory up to a megabyte."""
    return tempfile.SpooledTemporaryFile(2**20, "w+")


def _last(batch: str, tally: Tally, repair: bool) -> str:
    if tally.clean:
        return "Manifest, ledger and pages agree."
    if not repair:
        return "Nothing was changed (--dry-run)."
    if not tally.flaws.total():
        return "Everything was repaired from the page store."
    return f"What was found is back on the worklist: scrapy redrive {batch}"


def _joined(rows: Iterable[str]) -> Iterator[str]:
    before: str | None = None
    for row in rows:
        if before is not None:
            yield f"  {before},"
        before = row
    if before is not None:
        yield f"  {before}"
