"""``scrapy reconcile``: the manifest against the ledger against the page store.

The order of the steps and what each finding does to its row; one page is
pagecheck.py's matter, pages without a row are orphans.py's. Memory does not
grow with the batch, but for 8 bytes a page.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from functools import cache, partial
from itertools import chain, islice
from pathlib import Path
from typing import TypeVar

from msgspec import Struct, field

from retryscrape.ledger.addition import keys_of
from retryscrape.ledger.lines import new_row
from retryscrape.ledger.orphans import (
    Pages,
    content_type_of,
    key_of,
    path_of,
    read_index,
)
from retryscrape.ledger.pagecheck import Finding, Flaw, Judge, PageRow, examine
from retryscrape.ledger.pages import set_aside
from retryscrape.ledger.records import NewRow, Result
from retryscrape.ledger.scan import Span
from retryscrape.ledger.split import Emit, Helper, processes
from retryscrape.ledger.store import Ledger
from retryscrape.manifest.rows import Continue, Item
from retryscrape.policy.outcomes import Outcome, Status

#: Rows looked up, or put back, in one transaction.
CHUNK = 500

_T = TypeVar("_T")


class Tally(Struct, kw_only=True):
    """What was found: rows checked, findings by flaw, pages taken up again, pages
    that no URL is known for, half-written files removed."""

    checked: int = 0
    flaws: Counter[Flaw] = field(default_factory=Counter)
    restored: int = 0
    stray: int = 0
    leftovers: int = 0

    @property
    def clean(self) -> bool:
        """Whether ledger, manifest and pages agreed."""
        return not self.flaws.total() and not self.restored


class Reconciler(Struct, kw_only=True):
    """One batch. ``found`` and ``restored`` are called for each row as it is found.

    ``judge`` says what is wrong with a page by today's checks, ``vouched`` whether
    a run (its job id) went by the same ones. Without ``repair`` nothing changes.
    ``now`` is an epoch second. The batch must be locked by the caller.
    """

    ledger: Ledger
    batch_id: str
    out: Path
    judge: Judge
    vouched: Callable[[str | None], bool]
    found: Callable[[Finding], None]
    restored: Callable[[str, str], None]
    now: float
    repair: bool = True
    tally: Tally = field(default_factory=Tally)
    _pages: Pages = field(default_factory=Pages)
    _folder: str = ""

    def __post_init__(self) -> None:
        self._folder = str(self.out)

    # --- the manifest ----------------------------------------------------------

    def compare(self, manifest: str, lines: Iterable[Item]) -> None:
        """Every line must have its row; one that has none becomes a pending row."""
        for chunk in _chunks(line for line in lines if not isinstance(line, Continue)):
            mine = (line for line in chunk if line.batch in (None, self.batch_id))
            rows = {keys_of(row): row for row in map(new_row, mine)}
            present = self.ledger.present(self.batch_id, [key for keys in rows for key in keys])
            lost = [row for keys, row in rows.items() if present.isdisjoint(keys)]
            for row in lost:
                reason = f"line {row.line} of the manifest has no row"
                self._report(Finding(flaw=Flaw.MISSING, url=row.url, path=None, reason=reason))
            self._add(manifest, lost)

    def _add(self, manifest: str, rows: list[NewRow]) -> None:
        if rows and self.repair:
            self.ledger.add_rows(
                self.batch_id, rows, manifest=manifest, read_to=0, job_id=None, now=self.now
            )

    # --- successes and their pages ---------------------------------------------

    def check_pages(self) -> None:
        """Every success must have its page, whole; one that has not goes back to the worklist."""
        rows = self.ledger.counts(self.batch_id).total
        parts: list[Span | None] = [*self.ledger.parts(self.batch_id, rows, processes(rows))]
        first, *others = parts or [None]
        helpers = [Helper(partial(self._check_elsewhere, part)) for part in others]
        with ExitStack() as running:
            for helper in helpers:
                running.enter_context(helper)
            self._check_part(first)
        for result in chain.from_iterable(helper.results() for helper in helpers):
            if isinstance(result, Finding):
                self._report(result)
            else:
                checked, pages = result
                self.tally.checked += checked
                self._pages.include(pages)

    def _check_elsewhere(self, part: Span | None, emit: Emit) -> None:
        """In a process of its own: findings are emitted, then how many rows and which pages."""
        self.ledger.forked()
        self.found = emit
        self.tally = Tally()
        self._check_part(part)
        emit((self.tally.checked, self._pages))

    def _check_part(self, part: Span | None) -> None:
        """The loop over a million pages: what costs a microsecond here costs a second."""
        judge_of = cache(lambda job_id: None if self.vouched(job_id) else self.judge)
        for chunk in _chunks(self.ledger.page_rows(self.batch_id, part)):
            self.tally.checked += len(chunk)
            self._pages.add([row.page_path for row in chunk])
            flawed = [
                finding
                for row in chunk
                if (finding := examine(self._folder, row, judge_of(row.job_id))) is not None
            ]
            for finding in flawed:
                self._report(finding)
            if self.repair:
                self._put_back(flawed)

    def _put_back(self, flawed: list[Finding]) -> None:
        """The page first: a crash in between leaves a success without a page, which the
        next check finds; the other way round the page would be taken for a lost one."""
        by_reason: dict[str, list[str]] = {}
        for finding in flawed:
            if finding.path and finding.flaw is not Flaw.MISSING:
                set_aside(self.out, finding.path)
            by_reason.setdefault(f"reconcile: {finding.reason}", []).append(finding.url)
        for reason, urls in by_reason.items():
            self.ledger.reopen(self.batch_id, urls, reason=reason, now=self.now)

    # --- pages without a row ---------------------------------------------------

    def take_up(self) -> None:
        """Pages whose row was lost become successes again, without a request."""
        folder = self.out / self.batch_id / "pages"
        orphans, halves = self._pages.look(folder)
        self.tally.leftovers = len(halves)
        for path in halves if self.repair else ():
            path.unlink(missing_ok=True)
        if orphans:
            self._by_row(orphans)
            self._by_index(orphans)
        self.tally.stray = len(orphans)

    def _by_row(self, orphans: dict[int, int]) -> None:
        """Orphans of rows that are no success (a run was killed between page and row)."""
        for rows in _chunks(self.ledger.failures(self.batch_id)):
            found = [(row, orphans.pop(key)) for row in rows if (key := key_of(row.url)) in orphans]
            self._restore(found)

    def _by_index(self, orphans: dict[int, int]) -> None:
        """Orphans of rows that are not there at all (the ledger was lost)."""
        index = self.out / self.batch_id / "index.tsv"
        for urls in _chunks(read_index(index)):
            found = [(url, orphans.pop(key)) for url in urls if (key := key_of(url)) in orphans]
            self._restore([(self._blank(url), suffix) for url, suffix in found])

    def _blank(self, url: str) -> Result:
        return Result(
            batch_id=self.batch_id,
            url=url,
            line=None,
            host="",
            status=Status.PENDING,
            outcome=None,
        )

    def _restore(self, found: Iterable[tuple[Result, int]]) -> None:
        successes = []
        for row, suffix in found:
            path = path_of(self.batch_id, key_of(row.url), suffix)
            taken = self._success(row, path)
            if isinstance(taken, Finding):
                self._report(taken)
                if self.repair:
                    set_aside(self.out, path)
                continue
            successes.append(taken)
            self.tally.restored += 1
            self.restored(row.url, path)
        if successes and self.repair:
            self.ledger.write(successes)

    def _success(self, row: Result, path: str) -> Result | Finding:
        """The row that an orphan proves, or why it is no good."""
        last = self.ledger.attempts_of(row.url, self.batch_id)[-1:]
        good = last[0] if last and last[0].outcome is Outcome.OK else None
        page = PageRow(
            url=row.url,
            page_path=path,
            page_bytes=None,
            page_sha256=None,
            content_type=content_type_of(path),
            final_url=row.final_url,
            http_code=good.http_code if good else None,
            rung=good.rung if good else row.rung,
            job_id=good.job_id if good else row.job_id,
        )
        flaw = examine(self._folder, page, self.judge)
        return flaw or _restored(row, page, (self.out / path).read_bytes())

    def _report(self, finding: Finding) -> None:
        self.tally.flaws[finding.flaw] += 1
        self.found(finding)


def _restored(row: Result, page: PageRow, body: bytes) -> Result:
    return Result(
        batch_id=row.batch_id,
        url=row.url,
        line=row.line,
        host=row.host,
        status=Status.SUCCESS,
        outcome=Outcome.OK,
        http_code=page.http_code,
        attempts=row.attempts,
        passes=max(1, row.passes),
        cost=row.cost,
        bytes=row.bytes,
        rung=page.rung,
        final_url=page.final_url,
        page_path=page.page_path,
        page_sha256=hashlib.sha256(body).hexdigest(),
        page_bytes=len(body),
        content_type=page.content_type,
        job_id=page.job_id,
        fields=row.fields,
        same_as=row.same_as,
    )


def _chunks(items: Iterable[_T]) -> Iterator[list[_T]]:
    iterator = iter(items)
    while chunk := list(islice(iterator, CHUNK)):
        yield chunk
