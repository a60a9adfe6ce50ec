"""What workers tell each other through the ledger: pauses, learned rungs, exits' health.

A host has one worker, whose word on it counts; of other hosts (redirects lead there)
only longer pauses are told. Exits are everybody's: their counts are added up, and the
latest belief counts. Methods named for the ledger (``load``, ``save``, ``exchange``,
``keep``, ``begin``) run in threads, the others on the loop.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from msgspec import Struct
from msgspec.structs import replace

from retryscrape.crawl.books import merged_hosts, pool_rows
from retryscrape.crawl.runtime import Run
from retryscrape.ledger.dialect import LedgerError
from retryscrape.ledger.records import ExitRow, HostRow
from retryscrape.ledger.store import Ledger


class Changes(Struct, frozen=True):
    """What this worker has learned since it told last."""

    hosts: list[HostRow]
    elsewhere: list[HostRow]
    exits: list[ExitRow]
    #: what had been told before, to be told again if this could not be written
    told_hosts: dict[str, HostRow]
    told_exits: dict[str, ExitRow]


class Heard(Struct, frozen=True):
    """What the ledger says: hosts that are paused now, and exits in general."""

    paused: list[HostRow]
    exits: list[ExitRow]


class Sharing:
    """One worker's part in it."""

    def __init__(self, run: Run, ledger: Ledger) -> None:
        self.run, self.ledger = run, ledger
        self._hosts: dict[str, HostRow] = {}
        self._exits: dict[str, ExitRow] = {}

    def begin(self) -> None:
        """Take up the health of exits; hosts are taken up when they are claimed."""
        if self.run.pool is None:
            return
        rows = self.ledger.load_exits()
        self.run.pool.restore(rows)
        self._exits = {row.exit: row for row in rows if not row.host}

    def changes(self, held: Collection[str]) -> Changes:
        """What is new; it counts as told from now on."""
        rows = {row.host: row for row in merged_hosts(self.run)}
        for host in self._hosts.keys() - rows.keys():
            if self._hosts[host] != HostRow(host=host):
                rows[host] = HostRow(host=host)  # its pause was ended early
        news = [row for host, row in rows.items() if self._hosts.get(host) != row]
        told = {row.host: self._hosts.get(row.host, HostRow(host=row.host)) for row in news}
        self._hosts |= {row.host: row for row in news}
        exits_told = dict(self._exits)
        exits = self._exit_changes()
        return Changes(
            hosts=[row for row in news if row.host in held],
            elsewhere=[row for row in news if row.host not in held and row.paused_until],
            exits=exits,
            told_hosts=told,
            told_exits={
                row.exit: exits_told.get(row.exit, ExitRow(exit=row.exit)) for row in exits
            },
        )

    def _exit_changes(self) -> list[ExitRow]:
        changes = []
        for row in pool_rows(self.run, pairs=False):
            before = self._exits.get(row.exit, ExitRow(exit=row.exit))
            if row == before:
                continue
            self._exits[row.exit] = row
            changes.append(
                replace(
                    row,
                    ok=row.ok - before.ok,
                    fail=row.fail - before.fail,
                    bytes=row.bytes - before.bytes,
                    cost=row.cost - before.cost,
                )
            )
        return changes

    def exchange(self, changes: Changes) -> Heard:
        """Tell, then hear."""
        self.save(changes)
        exits = [] if self.run.pool is None else self.ledger.load_exits(host="")
        return Heard(self.ledger.paused_hosts(self.run.clock()), exits)

    def save(self, changes: Changes) -> None:
        """Tell. What the ledger could not take is new again. Raises LedgerError."""
        try:
            self.ledger.save_hosts(changes.hosts)
            self.ledger.add_pauses(changes.elsewhere)
            self.ledger.add_exits(changes.exits)
        except LedgerError:
            self._hosts |= changes.told_hosts
            self._exits |= changes.told_exits
            raise

    def heard(self, heard: Heard) -> None:
        """Take up what others know: longer pauses (also of hosts that are ours, when others
        were redirected there), and exits. What was our own word is not news: we may have
        ended that pause since."""
        now = self.run.clock()
        for row in heard.paused:
            told = self._hosts.get(row.host)
            if told is not None and told.paused_until == row.paused_until:
                continue
            pause = self.run.hosts.pause_of(row.host, now)
            known = pause.until if pause is not None else now
            if (row.paused_until or 0.0) > known + 0.1:
                self.adopt([row])
                self.run.parking.park_if_paused(row.host, now)
        for fresh in heard.exits:
            mine = self._exits.get(fresh.exit)
            if mine is None or (fresh.updated_at or 0.0) > (mine.updated_at or 0.0):
                self._exits[fresh.exit] = fresh
                if self.run.pool is not None:
                    self.run.pool.restore([fresh])

    def load(self, hosts: Collection[str]) -> list[HostRow]:
        """What earlier runs and other workers learned of these hosts."""
        return self.ledger.load_hosts(hosts)

    def adopt(self, rows: Iterable[HostRow]) -> None:
        """Believe it."""
        rows = list(rows)
        self.run.hosts.restore(rows, self.run.clock())
        self.run.rungs.learner.restore(rows)
        self._hosts |= {row.host: row for row in rows}
        if self.run.scheduler is not None:
            for row in rows:
                self.run.scheduler.wake(row.host)

    def keep(self, held: Collection[str]) -> None:
        """At the end: what is new, and how exits did on single hosts."""
        self.save(self.changes(held))
        pairs = [row for row in pool_rows(self.run) if row.host]
        self.ledger.save_exits(pairs)
