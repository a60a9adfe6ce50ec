"""Which worker has which hosts of a batch: claims with a lease. The rows stay where they are.

A host's rows belong to one worker at a time, so that pauses, delays and limits per
host hold over all workers as they hold in one process. No clock of a worker counts
here: leases end by the database's.
"""

# ruff: noqa: S608 (statements are made of names that are written here; values are bound)
from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, TextClause, inspect, text

from retryscrape.ledger.claimrows import INDEXES, Wanted, after, as_list, one_of, statement, these
from retryscrape.ledger.forms import clean
from retryscrape.ledger.records import Known
from retryscrape.ledger.rows import to_known
from retryscrape.ledger.store import Ledger
from retryscrape.ledger.times import iso

#: Where the rows of a host begin: before every line and URL.
START = (-1, "")
#: Free hosts are counted no further than this: enough to share them out fairly.
COUNTED = 10_000


class Claims:
    """One worker's view of the claims on a batch. Every method is one transaction."""

    def __init__(self, ledger: Ledger, batch_id: str, *, lease: float) -> None:
        self.ledger, self.batch_id, self.lease = ledger, batch_id, lease
        self.worker = ""
        #: epoch second at which this draining of the batch began: a row that has failed
        #: since is left to the next one
        self.since = 0.0
        self._now = ledger.dialect.now

    def join(self, worker: str) -> None:
        """Begin under a name of one's own, with nothing claimed. Workers that are alive
        at the same time drain the batch together: they have one beginning."""
        with self.ledger.writing() as connection:
            _prepare(connection, self.ledger)
            suffix = self.ledger.dialect.for_update
            self._run(connection, f"SELECT 1 FROM batches WHERE batch_id = :batch{suffix}")
            self._bury(connection)
            together, now = self._run(
                connection, f"SELECT min(since), {self._now} FROM workers WHERE batch_id = :batch"
            ).one()
            known = [moment for moment in (self.since, together) if moment]
            self.worker, self.since = worker, min(known, default=now)
            if not together:
                self._begin_draining(connection)
            self._run(
                connection,
                "INSERT INTO workers (batch_id, worker, since, until)"
                f" VALUES (:batch, :me, :since, {self._now} + :lease)",
            )

    def renew(self) -> bool:
        """Hold on for another lease; false if it has ended and all claims are lost."""
        with self.ledger.writing() as connection:
            return self._renew(connection)

    def take(self, most: int, *, more: bool = True) -> list[str] | None:
        """Claim up to ``most`` free hosts that are not drained yet, and renew the lease.

        Fewer when few are left, so that all workers get some; without ``more`` none beyond
        an even share of what is not drained. None if the lease is lost.
        """
        with self.ledger.writing() as connection:
            if not self._renew(connection):
                return None
            self._bury(connection)
            return self._claim(connection, min(most, self._share(connection, more=more)))

    def rows(
        self, cursors: Mapping[str, tuple[int, str]], wanted: Wanted, limit: int
    ) -> dict[str, list[Known]]:
        """The next rows of these hosts, at most ``limit`` each, in the order of the manifest.
        ``cursors`` say for each host the last row (line, URL) that was read, or ``START``."""
        found: dict[str, list[Known]] = {host: [] for host in cursors}
        for known in self._search(cursors, wanted, limit, parked=True):
            found[known.host].append(known)
        return found

    def unfinished(self, hosts: Collection[str], wanted: Wanted) -> set[str]:
        """Those of ``hosts`` that still have a row to be done in this draining."""
        begin = dict.fromkeys(hosts, START)
        return {known.host for known in self._search(begin, wanted, 1, parked=False)}

    def finish(self, hosts: Sequence[str]) -> None:
        """Give back hosts that are drained: nobody takes them again before the next draining."""
        change = (
            f"UPDATE claims SET worker = NULL, done = {self._now}"
            f" WHERE batch_id = :batch AND worker = :me AND host {self._one_of('hosts')}"
        )
        with self.ledger.writing() as connection:
            self._run(connection, change, hosts=self._list(hosts))

    def pending(self) -> bool:
        """Whether hosts are left that others hold (and may yet give back), or that are free."""
        # parts that each have an index: idle workers ask once a second
        parts = ("worker IS NULL AND done < :since", "worker < :me", "worker > :me")
        query = " OR ".join(
            f"EXISTS (SELECT 1 FROM claims WHERE batch_id = :batch AND {part})" for part in parts
        )
        with self.ledger.reading() as connection:
            return bool(self._run(connection, f"SELECT {query}").scalar())

    def alone(self) -> bool:
        """Whether no other worker is on the batch."""
        query = "SELECT 1 FROM workers WHERE batch_id = :batch AND worker <> :me LIMIT 1"
        with self.ledger.reading() as connection:
            return self._run(connection, query).first() is None

    def leave(self) -> None:
        """Give everything back at once: nobody has to wait for the lease's end."""
        with self.ledger.writing() as connection:
            self._release(connection, [self.worker])

    # --- inside a transaction --------------------------------------------------

    def _begin_draining(self, connection: Connection) -> None:
        """The first worker of a draining gives every host its claim (``load`` does so, too)."""
        first = "SELECT 1 FROM claims WHERE batch_id = :batch LIMIT 1"
        if self._run(connection, first).first() is None:
            self.ledger.dialect.analyze(connection, "entries")
        add_hosts(connection, self.batch_id)
        self.ledger.dialect.analyze(connection, "claims")

    def _renew(self, connection: Connection) -> bool:
        change = (
            f"UPDATE workers SET until = {self._now} + :lease"
            f" WHERE batch_id = :batch AND worker = :me AND until > {self._now}"
        )
        return bool(self._run(connection, change).rowcount)

    def _bury(self, connection: Connection) -> None:
        """Take their claims from workers whose lease has ended.

        Their row is locked and deleted, so that a renewal under way either comes first
        and counts, or finds nothing to renew: a worker is alive if it has a row.
        """
        query = f"SELECT worker FROM workers WHERE batch_id = :batch AND until <= {self._now}"
        query += self.ledger.dialect.skip_locked
        dead = [row.worker for row in self._run(connection, query)]
        if dead:
            self._release(connection, dead)

    def _release(self, connection: Connection, workers: list[str]) -> None:
        theirs = f"WHERE batch_id = :batch AND worker {self._one_of('workers')}"
        for change in (
            f"UPDATE claims SET worker = NULL {theirs}",
            f"DELETE FROM workers {theirs}",
        ):
            self._run(connection, change, workers=self._list(workers))

    def _share(self, connection: Connection, *, more: bool) -> int:
        """How many hosts to take: half of an even share, for others may come or be faster."""
        query = (
            "SELECT (SELECT count(*) FROM (SELECT 1 FROM claims WHERE batch_id = :batch"
            f" AND worker IS NULL AND done < :since LIMIT {COUNTED}) AS free),"
            " (SELECT count(*) FROM claims WHERE batch_id = :batch AND worker IS NOT NULL),"
            " (SELECT count(*) FROM claims WHERE batch_id = :batch AND worker = :me),"
            " (SELECT count(*) FROM workers WHERE batch_id = :batch)"
        )
        free, held, mine, workers = map(int, self._run(connection, query).one())
        half = max(1, math.ceil(free / (2 * max(1, workers))))
        even = math.ceil((free + held) / max(1, workers))
        return half if more else max(0, min(half, even - mine))

    def _claim(self, connection: Connection, limit: int) -> list[str]:
        dialect = self.ledger.dialect
        free = (
            f"SELECT {dialect.row_id} FROM claims WHERE batch_id = :batch AND worker IS NULL"
            f" AND done < :since ORDER BY done, host LIMIT :limit{dialect.skip_locked}"
        )
        change = f"UPDATE claims SET worker = :me WHERE {these(dialect, free)} RETURNING host"
        return sorted(row.host for row in self._run(connection, change, limit=limit))

    def _search(
        self, cursors: Mapping[str, tuple[int, str]], wanted: Wanted, limit: int, *, parked: bool
    ) -> list[Known]:
        dialect = self.ledger.dialect
        if not cursors:
            return []
        values = after(dialect, cursors) | {
            "failed": iso(self.since),
            "due": wanted.now + wanted.max_wait,
            "limit": limit,
        }
        with self.ledger.reading() as connection:
            found = self._run(connection, statement(dialect, wanted, parked=parked), **values)
            return [to_known(row) for row in found]

    def _run(self, connection: Connection, statement: str, **values: Any) -> Any:
        everything = {
            "batch": self.batch_id,
            "me": self.worker,
            "since": self.since,
            "lease": self.lease,
            **values,
        }
        made = _made(statement)
        return connection.execute(made, {name: everything[name] for name in made._bindparams})

    def _one_of(self, name: str) -> str:
        return one_of(self.ledger.dialect, name)

    def _list(self, values: Iterable[str]) -> Any:
        return as_list(self.ledger.dialect, values)


@lru_cache(maxsize=64)
def _made(statement: str) -> TextClause:
    """Taken apart once: the same object is also what SQLAlchemy finds its compiled form by."""
    return text(statement)


def add_hosts(connection: Connection, batch_id: str) -> None:
    """A claim for every host that has open rows and none yet. One step a host, not one a row."""
    step = "SELECT min(host) FROM entries WHERE batch_id = :batch AND status <> 'success'"
    statement = (
        f"INSERT INTO claims (batch_id, host) WITH RECURSIVE open_hosts(host) AS ("
        f"{step} AND host > '' UNION ALL SELECT ({step} AND host > open_hosts.host)"
        " FROM open_hosts WHERE host IS NOT NULL)"
        " SELECT :batch, host FROM open_hosts WHERE host IS NOT NULL"
        " ON CONFLICT (batch_id, host) DO NOTHING"
    )
    connection.execute(text(statement), {"batch": batch_id})


def reopen_hosts(ledger: Ledger, batch_id: str, hosts: Collection[str]) -> None:
    """Hosts that got new rows: workers that are draining the batch take them (again)."""
    rows = [{"batch": batch_id, "host": clean(host)} for host in sorted(hosts) if host]
    statement = (
        "INSERT INTO claims (batch_id, host) VALUES (:batch, :host)"
        " ON CONFLICT (batch_id, host) DO UPDATE SET done = 0"
    )
    if rows:
        with ledger.writing() as connection:
            connection.execute(text(statement), rows)


def _prepare(connection: Connection, ledger: Ledger) -> None:
    """The indexes of workers, when the first one comes: without workers nobody needs them,
    and the one by host costs each result a third more time."""
    ledger.dialect.lock_schema(connection)
    look = inspect(connection)
    for table, (name, making) in INDEXES.items():
        if name not in {index["name"] for index in look.get_indexes(table)}:
            connection.exec_driver_sql(making)
