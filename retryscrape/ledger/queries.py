"""What can be asked of a ledger's rows. Reading only; writing is store.py's."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    and_,
    func,
    literal_column,
    null,
    or_,
    select,
    tuple_,
    union_all,
)

from retryscrape.ledger import scan
from retryscrape.ledger.database import padded, slices
from retryscrape.ledger.forms import ATTEMPT_COLUMNS, ENTRY_COLUMNS, clean
from retryscrape.ledger.pagecheck import PageRow
from retryscrape.ledger.records import AttemptRecord, Counts, Known, ReadRow, Result
from retryscrape.ledger.rows import (
    KNOWN_COLUMNS,
    to_attempt,
    to_known,
    to_result,
)
from retryscrape.ledger.scan import Span
from retryscrape.ledger.schema import attempts, batches, entries, reads
from retryscrape.ledger.state import StateTables
from retryscrape.policy.outcomes import ErrorClass, Outcome, Status

_KNOWN = [entries.c[name] for name in KNOWN_COLUMNS]
_ENTRY = [entries.c[name] for name in ENTRY_COLUMNS]


class Queries(StateTables):
    """Questions about batches, rows and attempts; each may come from any thread."""

    def known(self, batch_id: str, urls: Sequence[str]) -> dict[str, Known]:
        """What the ledger knows of these URLs, by URL; unknown ones are left out."""
        with self.reading() as connection:
            found = self._known(connection, batch_id, [clean(url) for url in urls])
        return {url: found[key] for url in urls if (key := clean(url)) in found}

    def succeeded(self, batch_id: str, urls: Sequence[str]) -> set[str]:
        """Those of ``urls`` whose rows are successes."""
        keys = [clean(url) for url in urls]
        with self.reading() as connection:
            rows = self._by_key(
                connection, ("url",), batch_id, keys, more=" AND status = 'success'"
            )
            found = {url for (url,) in rows}
        return {url for url, key in zip(urls, keys, strict=True) if key in found}

    def open_rows(
        self,
        batch_id: str,
        *,
        include_permanent: bool = False,
        after: Known | None = None,
        limit: int = 1000,
    ) -> list[Known]:
        """Rows that may be asked for, parked ones included, in the order of the manifest.

        Pending ones and failed ones that are not permanent; with
        ``include_permanent`` those too, except rejected lines. ``after`` is the
        last row of the page before.
        """
        failed = entries.c.status == Status.FAILED.value
        if include_permanent:
            wanted = and_(failed, entries.c.outcome != Outcome.REJECTED.value)
        else:
            wanted = and_(failed, entries.c.error_class != ErrorClass.PERMANENT.value)
        query = (
            select(*_KNOWN)
            .where(unsuccessful(batch_id), or_(entries.c.status == Status.PENDING.value, wanted))
            .order_by(entries.c.line, entries.c.url)
            .limit(limit)
        )
        if after is not None:
            query = query.where(beyond(after.line, after.url))
        with self.reading() as connection:
            return [to_known(row) for row in connection.execute(query)]

    def failures(self, batch_id: str, *, size: int = 1000) -> Iterator[Result]:
        """Every row that is not a success, in the order of the manifest, read in pieces."""
        query = (
            select(*_ENTRY)
            .where(unsuccessful(batch_id))
            .order_by(entries.c.line, entries.c.url)
            .limit(size)
        )
        last: Result | None = None
        while True:
            page = query if last is None else query.where(beyond(last.line, last.url))
            with self.reading() as connection:
                found = connection.execute(page).all()
            for row in found:
                last = to_result(row)
                yield last
            if len(found) < size:
                return

    def successes(self, batch_id: str, *, size: int = 1000) -> Iterator[Result]:
        """Every success of a batch, in the order of its URLs, read in pieces."""
        query = (
            select(*_ENTRY)
            .where(entries.c.batch_id == batch_id, entries.c.status == Status.SUCCESS.value)
            .order_by(entries.c.url)
            .limit(size)
        )
        last = ""
        while True:
            with self.reading() as connection:
                found = connection.execute(query.where(entries.c.url > last)).all()
            yield from map(to_result, found)
            if len(found) < size:
                return
            last = found[-1].url

    def counts(self, batch_id: str, *, of: Callable[[str], bool] | None = None) -> Counts:
        """Rows of a batch by status, outcome and error class; only those whose host is ``of``."""
        if of is not None:
            return self._counts_of(batch_id, of)
        columns = (entries.c.status, entries.c.outcome, entries.c.error_class)
        rows = select(null(), null(), null(), func.count()).where(entries.c.batch_id == batch_id)
        query = union_all(  # one statement: what is written meanwhile is in both or in neither
            select(*columns, func.count()).where(unsuccessful(batch_id)).group_by(*columns), rows
        )
        with self.reading() as connection:
            found = {tuple(words): number for *words, number in connection.execute(query)}
        successes = found.pop((None, None, None)) - sum(found.values())
        groups = {group_of(*words): number for words, number in found.items()}
        return Counts(groups=groups | ({_SUCCESSES: successes} if successes else {}))

    def _counts_of(self, batch_id: str, of: Callable[[str], bool]) -> Counts:
        columns = (entries.c.host, entries.c.status, entries.c.outcome, entries.c.error_class)
        query = (
            select(*columns, func.count()).where(entries.c.batch_id == batch_id).group_by(*columns)
        )
        groups: Counter[Group] = Counter()
        with self.reading() as connection:
            for host, *words, rows in connection.execute(query):
                if of(host):
                    groups[group_of(*words)] += rows
        return Counts(groups=groups)

    def parked(self, batch_id: str, now: float) -> int:
        """Open rows whose ``not_before`` is still to come; ``now`` is an epoch second."""
        query = (
            select(func.count())
            .select_from(entries)
            .where(
                unsuccessful(batch_id),
                entries.c.not_before > now,
                or_(
                    entries.c.error_class.is_(None),
                    entries.c.error_class != ErrorClass.PERMANENT.value,
                ),
            )
        )
        with self.reading() as connection:
            return int(connection.execute(query).scalar() or 0)

    def entry(self, batch_id: str, url: str) -> Result | None:
        """One row, whole."""
        with self.reading() as connection:
            return self._entries(connection, batch_id, [clean(url)]).get(clean(url))

    def same_as(self, batch_id: str, url: str) -> list[Known]:
        """Rows that would fetch the same thing as ``url`` and wait for what it came to."""
        query = select(*_KNOWN).where(
            entries.c.batch_id == batch_id, entries.c.same_as == clean(url)
        )
        with self.reading() as connection:
            return [to_known(row) for row in connection.execute(query)]

    def attempts_of(self, url: str, batch_id: str | None = None) -> list[AttemptRecord]:
        """Every attempt of one URL, oldest first, in one batch or in all."""
        table = attempts
        scope = (
            # The index begins with the batch: a list of them keeps it usable.
            table.c.batch_id.in_(select(batches.c.batch_id))
            if batch_id is None
            else table.c.batch_id == batch_id
        )
        query = (
            select(*(table.c[name] for name in ATTEMPT_COLUMNS))
            .where(scope, table.c.url == clean(url))
            .order_by(table.c.started_at, table.c.n)
        )
        with self.reading() as connection:
            return [to_attempt(row) for row in connection.execute(query)]

    def present(self, batch_id: str, keys: Sequence[str]) -> set[str]:
        """Those of ``keys`` that have a row."""
        with self.reading() as connection:
            return {url for (url,) in self._by_key(connection, ("url",), batch_id, keys)}

    def parts(self, batch_id: str, rows: int, number: int) -> list[Span]:
        """A batch of so many rows in this number of parts, for ``page_rows``; none if it has none."""
        with self.reading() as connection:
            return scan.parts(connection, self.dialect, entries, batch_id, rows, number)

    def page_rows(
        self, batch_id: str, span: Span | None = None, *, size: int = 2000
    ) -> Iterator[PageRow]:
        """What a check of the pages needs of every success, as the table holds them; with
        ``span`` only of that part of the batch.

        Text for speed: a million of them take 7 s, whole Results three times as long.
        """
        key, mark = scan.key(self.dialect), self.dialect.placeholder
        last, until = span or Span(0 if self.dialect.sqlite else "", None)
        text = (
            f"SELECT {', '.join(PageRow._fields[:-1])}, {key} FROM entries"  # noqa: S608
            f" WHERE {scan.batch_is(self.dialect)} AND status = 'success' AND {key} > {mark}"
            f"{'' if until is None else f' AND {key} <= {mark}'} ORDER BY {key} LIMIT {size}"
        )
        end = () if until is None else (until,)
        while True:
            with self.reading() as connection:
                found = list(
                    map(PageRow._make, self.rows(connection, text, (batch_id, last, *end)))
                )
            yield from found
            if len(found) < size:
                return
            last = found[-1].place

    def exits_used(self, batch_id: str, urls: Sequence[str]) -> dict[str, frozenset[str]]:
        """The exits that each of these URLs has left through; URLs without one are left out."""
        found: dict[str, set[str]] = defaultdict(set)
        with self.reading() as connection:
            for piece in map(padded, slices([clean(url) for url in urls])):
                text = (
                    "SELECT DISTINCT url, exit FROM attempts"  # noqa: S608
                    f" WHERE batch_id = {self.dialect.placeholder} AND exit IS NOT NULL"
                    f" AND url IN ({self.placeholders(len(piece))})"
                )
                for url, name in self.rows(connection, text, (batch_id, *piece)):
                    found[url].add(name)
        return {url: frozenset(found[key]) for url in urls if (key := clean(url)) in found}

    def batches(self) -> list[dict[str, Any]]:
        """All batches, oldest first, as mappings of their columns."""
        query = select(batches).order_by(batches.c.created_at, batches.c.batch_id)
        with self.reading() as connection:
            return [dict(row) for row in connection.execute(query).mappings()]

    def reads_of(self, batch_id: str) -> list[ReadRow]:
        """How far the manifests of a batch were read."""
        columns = [reads.c[name] for name in ReadRow.__struct_fields__]
        query = select(*columns).where(reads.c.batch_id == batch_id).order_by(*columns[:3])
        with self.reading() as connection:
            found = connection.execute(query).mappings()
            return [ReadRow(**{**row, "complete": bool(row["complete"])}) for row in found]

    def _known(
        self, connection: Connection, batch_id: str, keys: Sequence[str]
    ) -> dict[str, Known]:
        rows = self._by_key(connection, KNOWN_COLUMNS, batch_id, keys)
        return {known.url: known for known in map(to_known, rows)}

    def _entries(
        self, connection: Connection, batch_id: str, keys: Sequence[str], *, lock: bool = False
    ) -> dict[str, Result]:
        rows = self._by_key(connection, ENTRY_COLUMNS, batch_id, keys, lock=lock)
        return {result.url: result for result in map(to_result, rows)}

    def _by_key(
        self,
        connection: Connection,
        columns: tuple[str, ...],
        batch_id: str,
        keys: Sequence[str],
        *,
        lock: bool = False,
        more: str = "",
    ) -> Iterator[Any]:
        """Rows by URL, of which ``more`` (SQL) is true. Text for the same reason as in
        ``insert_text``: Core expands the IN list anew each time (half as much again)."""
        names = ", ".join(columns)
        suffix = more + (self.dialect.for_update if lock else "")
        for piece in map(padded, slices(keys)):
            text = (
                f"SELECT {names} FROM entries WHERE batch_id = {self.dialect.placeholder}"  # noqa: S608
                f" AND url IN ({self.placeholders(len(piece))}){suffix}"
            )
            yield from self.rows(connection, text, (batch_id, *piece))


Group = tuple[Status, Outcome | None, ErrorClass | None]

#: The only group that successes can have.
_SUCCESSES: Group = (Status.SUCCESS, Outcome.OK, None)


def group_of(status: str, outcome: str | None, error_class: str | None) -> Group:
    """The three words by which rows are counted."""
    return (
        Status(status),
        Outcome(outcome) if outcome else None,
        ErrorClass(error_class) if error_class else None,
    )


def unsuccessful(batch_id: str) -> ColumnElement[bool]:
    """Rows of a batch that are no success, worded as the partial index is.

    A literal: with a bound value the database cannot know that the index fits.
    """
    return and_(entries.c.batch_id == batch_id, entries.c.status != literal_column("'success'"))


def all_unsuccessful(batch_id: str) -> ColumnElement[bool]:
    """The same where all of them are looked at. What is said of the line is always true: without
    it SQLite, to which an index on some rows is as long as any, walks through all rows by their
    key (at a million, 3 % of them open, 13 s in the place of 0.2)."""
    return and_(unsuccessful(batch_id), entries.c.line > literal_column("-1"))


def beyond(line: int | None, url: str) -> ColumnElement[bool]:
    """Rows after this one in the order of the manifest."""
    return tuple_(entries.c.line, entries.c.url) > tuple_(line or 0, url)
