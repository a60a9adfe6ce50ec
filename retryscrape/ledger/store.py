"""The ledger itself: batches begin, lines become rows, results are merged in.

What wins when two results meet is merge.py's; questions are queries.py's.
Every method is one transaction and may be called from any thread.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from msgspec.structs import replace
from sqlalchemy import ColumnElement, Connection, Table, and_, select

from retryscrape.ledger.addition import Addition, keys_of
from retryscrape.ledger.database import insert_text, padded, slices
from retryscrape.ledger.forms import (
    ATTEMPT,
    ENTRY,
    GOOD_ATTEMPT,
    LINE,
    PAGE,
    Form,
    Record,
    clean,
    sort_out,
)
from retryscrape.ledger.merge import merge
from retryscrape.ledger.queries import Queries
from retryscrape.ledger.records import Added, AttemptRecord, BatchInfo, NewRow, Result
from retryscrape.ledger.schema import attempts as attempts_table
from retryscrape.ledger.schema import batches, claims, entries, reads
from retryscrape.ledger.state import replacing
from retryscrape.ledger.times import iso
from retryscrape.ledger.totals import Totals, by_url, covers, proven, raised
from retryscrape.policy.outcomes import ErrorClass, Outcome, Status

_KEY = ("batch_id", "url")
_NEW_ONLY = "ON CONFLICT (batch_id, url) DO NOTHING"
# What belongs to the line of the manifest: the first to make the row says it. A
# result of a re-drive knows the line of the failures feed only.
_OF_THE_LINE = ("line", "host", "fields", "same_as")
# A row that another process made a success since we looked stays one.
_STAYS = " WHERE entries.status <> 'success' OR excluded.status = 'success'"
# A row of which nothing was heard yet but its line: any result is more. Every other column, for
# a statement that does not name one leaves in it what is there (a failures feed may fill any).
_UNHEARD = " AND status = 'pending'" + "".join(
    f" AND {column.name} {'IS NULL' if column.nullable else '= 0'}"
    for column in entries.c
    if column.name not in LINE.columns
)
_COUNTERS = ("batch_id", "manifest", "lines", "urls", "duplicates", "rejected", "passes")
_ONCE = "ON CONFLICT (batch_id, url, n, job_id) DO NOTHING"


class Ledger(Queries):
    """An open ledger. Make one with ``Ledger.open(url_or_path)``."""

    def open_batch(
        self,
        batch_id: str,
        manifest: str,
        digest: str | None,
        *,
        now: float,
        shard: str = "",
    ) -> BatchInfo:
        """Begin or go on with a batch, and with reading ``manifest`` into it.

        ``digest`` stands for the manifest's content (``None``: not known): if it
        is another than before, reading starts again at the first line.
        ``shard`` keeps the readings of several processes apart. ``now`` is an
        epoch second.
        """
        manifest = clean(manifest)
        with self.writing() as connection:
            new = _ensure_batch(connection, batch_id, manifest, now)
            changed = _ensure_read(connection, batch_id, manifest, shard, digest)
            batch = (
                connection.execute(select(batches).where(batches.c.batch_id == batch_id))
                .mappings()
                .one()
            )
            read = connection.execute(
                select(reads.c.read_to, reads.c.complete).where(_read_is(batch_id, manifest, shard))
            ).one()
        return self._info(
            batch,
            now,
            new=new,
            manifest_changed=changed and batch["manifest"] == manifest,
            read_to=read.read_to,
            complete=bool(read.complete),
        )

    def batch_info(self, batch_id: str, *, now: float) -> BatchInfo | None:
        """A batch as it stands, whatever it was made of; None if there is none."""
        with self.reading() as connection:
            query = select(batches).where(batches.c.batch_id == batch_id)
            batch = connection.execute(query).mappings().first()
        if batch is None:
            return None
        complete = all(read.complete for read in self.reads_of(batch_id))
        return self._info(
            batch, now, new=False, manifest_changed=False, read_to=batch["lines"],
            complete=complete,
        )  # fmt: skip

    def _info(self, batch: Mapping[Any, Any], now: float, **more: Any) -> BatchInfo:
        counts = self.counts(batch["batch_id"])
        parked = self.parked(batch["batch_id"], now)
        return BatchInfo(
            **{name: batch[name] for name in _COUNTERS},
            counts=counts.by_status,
            parked=parked,
            due=counts.open - parked,
            **more,
        )

    def add_rows(
        self,
        batch_id: str,
        rows: Sequence[NewRow],
        *,
        manifest: str,
        read_to: int,
        job_id: str | None,
        now: float,
        shard: str = "",
    ) -> Added:
        """Make rows of lines that have none yet, and note how far the manifest was read.

        Existing rows are never touched. ``read_to`` is the number of the last
        line that these rows stand for, ``now`` an epoch second.
        """
        manifest = clean(manifest)
        with self.writing() as connection:
            read = connection.execute(
                select(reads.c.first, reads.c.complete).where(_read_is(batch_id, manifest, shard))
            ).first()
            known = self._known(connection, batch_id, [key for row in rows for key in keys_of(row)])
            addition = Addition(
                known, first_reading=bool(read and read.first), rejected_at=iso(now), job_id=job_id
            )
            made = [entry for row in rows if (entry := addition.take(batch_id, row)) is not None]
            if made and not (read and read.first and not read.complete):
                # The row of this line may have been lost, and its attempts not.
                totals = self._totals(connection, batch_id, [entry.url for entry in made])
                made = [raised(entry, totals.get(entry.url)) for entry in made]
            if made:
                for form, some in sort_out(made, (LINE, ENTRY)):
                    self._put(connection, entries, form, some, _NEW_ONLY)
            added = addition.added()
            _count_lines(connection, batch_id, added)
            connection.execute(
                reads.update()
                .where(_read_is(batch_id, manifest, shard), reads.c.read_to < read_to)
                .values(read_to=read_to)
            )
        return added

    def refresh(self) -> None:
        """After many rows were added: let the database look at what it holds now."""
        with self.writing() as connection:
            self.dialect.analyze(connection, entries.name, claims.name)

    def finish_read(self, batch_id: str, manifest: str, *, shard: str = "") -> None:
        """The end of the manifest was reached: every line of it has its row."""
        change = reads.update().where(_read_is(batch_id, clean(manifest), shard)).values(complete=1)
        with self.writing() as connection:
            connection.execute(change)

    def write(self, results: Iterable[Result], attempts: Iterable[AttemptRecord] = ()) -> None:
        """Merge results and append attempts, in one transaction.

        Attempts also raise the totals of their rows, so that a killed process
        loses no count. Writing the same things again, or in another order,
        gives the same ledger.
        """
        results, attempts = list(results), list(attempts)
        keys: dict[str, dict[str, None]] = defaultdict(dict)
        items: list[Result | AttemptRecord] = [*results, *attempts]
        for item in items:
            keys[item.batch_id][clean(item.url)] = None
        added = by_url(attempts)
        with self.writing() as connection:
            for kind, records in sort_out(attempts, (GOOD_ATTEMPT, ATTEMPT)):
                self._put(connection, attempts_table, kind, records, _ONCE)
            for batch_id, urls in keys.items():
                ours = [result for result in results if result.batch_id == batch_id]
                firsts = self._firsts(connection, batch_id, ours, added)
                for row in firsts:
                    del urls[clean(row.url)]
                changed = self._changed(connection, batch_id, list(urls), ours, added)
                for form, rows in (*sort_out(firsts, (PAGE, ENTRY)), (ENTRY, changed)):
                    self._put(connection, entries, form, rows, _merging(form.columns))

    def _firsts(
        self,
        connection: Connection,
        batch_id: str,
        results: Sequence[Result],
        added: Mapping[tuple[str, str], Totals],
    ) -> list[Result]:
        """Those of ``results`` that are the first that is heard of their row, so that there is
        nothing to merge them with: nearly all, and at half of the price."""
        by_key = {clean(result.url): result for result in results}
        if len(by_key) < len(results):
            return []
        first = [
            key
            for key, result in by_key.items()
            if result.status is not Status.PENDING and covers(result, added.get((batch_id, key)))
        ]
        found = self._by_key(connection, ("url",), batch_id, first, lock=True, more=_UNHEARD)
        return [merge(None, by_key[url]) for (url,) in found]

    def _changed(
        self,
        connection: Connection,
        batch_id: str,
        urls: Sequence[str],
        results: Iterable[Result],
        added: Mapping[tuple[str, str], Totals],
    ) -> list[Result]:
        """The rows of ``urls`` as results and attempts leave them, if that is not as they were."""
        if not urls:
            return []
        before = self._entries(connection, batch_id, urls, lock=True)
        these = set(urls)
        after = _merged(before, (result for result in results if clean(result.url) in these))
        unsure = [
            url
            for url, row in after.items()
            if not proven(before.get(url), row, added.get((batch_id, url)))
        ]
        for url, totals in self._totals(connection, batch_id, unsure).items():
            after[url] = raised(after[url], totals)
        return [row for url, row in after.items() if row != before.get(url)]

    def reopen(
        self,
        batch_id: str,
        urls: Sequence[str],
        *,
        reason: str,
        now: float,
        outcome: Outcome = Outcome.NO_RESULT,
    ) -> int:
        """Put rows back on the worklist, successes too: their page is lost or was no good.

        The one way in which a success ends. Returns how many rows there were.
        """
        with self.writing() as connection:
            found = self._entries(connection, batch_id, [clean(url) for url in urls], lock=True)
            rows = [_reopened(row, outcome, reason, iso(now)) for row in found.values()]
            if rows:
                conflict = replacing(ENTRY.columns, _KEY)
                self._put(connection, entries, ENTRY, rows, conflict)
        return len(rows)

    def mark_pass(self, batch_id: str) -> int:
        """Count one more pass over the batch; returns how many there are now."""
        this = batches.c.batch_id == batch_id
        with self.writing() as connection:
            connection.execute(batches.update().where(this).values(passes=batches.c.passes + 1))
            return int(connection.execute(select(batches.c.passes).where(this)).scalar() or 0)

    def _put(
        self,
        connection: Connection,
        table: Table,
        form: Form[Record],
        records: Sequence[Record],
        conflict: str,
    ) -> None:
        if records:
            text = insert_text(table, form.columns, self.dialect.placeholder, conflict)
            self.execute_many(connection, text, list(map(form.row, records)))

    def _totals(
        self, connection: Connection, batch_id: str, urls: Sequence[str]
    ) -> dict[str, Totals]:
        """What the history of these URLs adds up to."""
        found = {}
        for piece in map(padded, slices(urls)):
            text = (
                "SELECT url, MAX(n), SUM(cost), SUM(bytes) FROM attempts"  # noqa: S608
                f" WHERE batch_id = {self.dialect.placeholder}"
                f" AND url IN ({self.placeholders(len(piece))}) GROUP BY url"
            )
            for url, last, cost, size in self.rows(connection, text, (batch_id, *piece)):
                found[url] = Totals(int(last), float(cost), int(size))
        return found


@cache
def _merging(columns: tuple[str, ...]) -> str:
    return replacing(columns, _KEY, keep=_OF_THE_LINE) + _STAYS


def _merged(before: Mapping[str, Result], results: Iterable[Result]) -> dict[str, Result]:
    after = dict(before)
    for result in results:
        key = clean(result.url)
        after[key] = merge(after.get(key), result)
    return after


def _reopened(row: Result, outcome: Outcome, reason: str, at: str) -> Result:
    return replace(
        row,
        status=Status.FAILED,
        outcome=outcome,
        error_class=ErrorClass.RETRYABLE,
        reason=reason,
        last_error_at=at,
        page_path=None,
        page_sha256=None,
        page_bytes=None,
        content_type=None,
    )


def _ensure_batch(connection: Connection, batch_id: str, manifest: str, now: float) -> bool:
    """Make the batch if there is none; returns whether it was made."""
    if connection.execute(select(batches.c.batch_id).where(batches.c.batch_id == batch_id)).first():
        return False
    connection.execute(
        batches.insert().values(batch_id=batch_id, manifest=manifest, created_at=iso(now))
    )
    return True


def _ensure_read(
    connection: Connection, batch_id: str, manifest: str, shard: str, digest: str | None
) -> bool:
    """Note that ``manifest`` is read; returns whether its content changed since."""
    this = _read_is(batch_id, manifest, shard)
    found = connection.execute(select(reads.c.digest).where(this)).first()
    if found is None:
        connection.execute(
            reads.insert().values(
                batch_id=batch_id, manifest=manifest, shard=shard, digest=digest, first=1
            )
        )
        return False
    if digest is None or found.digest == digest:
        return False
    connection.execute(
        reads.update().where(this).values(digest=digest, read_to=0, complete=0, first=0)
    )
    return found.digest is not None


def _read_is(batch_id: str, manifest: str, shard: str) -> ColumnElement[bool]:
    return and_(reads.c.batch_id == batch_id, reads.c.manifest == manifest, reads.c.shard == shard)


def _count_lines(connection: Connection, batch_id: str, added: Added) -> None:
    connection.execute(
        batches.update()
        .where(batches.c.batch_id == batch_id)
        .values(
            lines=batches.c.lines + added.new + added.duplicates + added.rejected,
            urls=batches.c.urls + added.new,
            duplicates=batches.c.duplicates + added.duplicates,
            rejected=batches.c.rejected + added.rejected,
        )
    )
