"""The writer thread: results go in, committed rows come out, the reactor never waits.

Per result the page first, then the row. What is written is store.py's matter,
where pages lie pages.py's.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from functools import partial

from retryscrape.ledger.dialect import LedgerError
from retryscrape.ledger.pages import PageFile
from retryscrape.ledger.patience import Patience, insist
from retryscrape.ledger.records import AttemptRecord, Result
from retryscrape.ledger.store import Ledger
from retryscrape.ledger.storing import End, Item, Storing

#: How much may wait: enough for any burst, little enough for any machine.
MAX_WAITING = 10_000
MAX_WAITING_BYTES = 64 * 2**20

#: Attempts of URLs that go on are no rows; of all together a group has so many times ``max_rows``.
_ITEMS = 4

#: Seconds for which a transaction that failed is tried again.
GIVE_UP = 20.0


class Writer:
    """Commits results in groups, on a thread of its own.

    A result is committed at once if nothing else was lately, else together with
    what comes meanwhile: after at most ``max_delay`` seconds or ``max_rows``
    results. A page that cannot be written makes its row ``no_result``; a ledger
    that cannot be written is tried again for ``give_up`` seconds, after which
    every future fails with LedgerError and ``on_failure`` is called once.
    ``on_full`` is called for each page that finds no room on the disk. Both are
    called on the writer's thread, with a sentence. ``deliver`` calls a function on the
    thread that waits for results: once a group, where a wake-up a result would cost more
    than the result's row.
    """

    def __init__(
        self,
        ledger: Ledger,
        out: str | os.PathLike[str],
        *,
        max_delay: float = 0.1,
        max_rows: int = 50,
        give_up: float = GIVE_UP,
        on_failure: Callable[[str], None] | None = None,
        on_full: Callable[[str], None] | None = None,
        deliver: Callable[[Callable[[], None]], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._ledger = ledger
        self._pages = Storing(ledger, out, wall=wall, on_full=on_full)
        # A fifth of the promised delay is for the transaction itself. The rest is what makes
        # rows cheap: what a commit costs is shared by those in it.
        self._linger = max_delay * 0.8
        self._max_rows = max_rows
        self._give_up = give_up
        self._on_failure = on_failure
        self._deliver = deliver or _at_once
        self._ended: list[tuple[End, Result | LedgerError]] = []
        self._clock = clock
        self._changed = threading.Condition()
        self._items: deque[Item] = deque()
        self._bytes = self._results = 0
        self._unsettled = 0
        self._hurry = 0
        self._closing = False
        self._last_commit = clock() - max_delay
        self.failure: str | None = None
        self._thread = threading.Thread(target=self._run, name="ledger-writer", daemon=True)
        self._thread.start()

    @property
    def unsettled(self) -> int:
        """How many results and attempts were handed over and are not committed yet."""
        return self._unsettled

    def submit(
        self,
        result: Result,
        attempts: Iterable[AttemptRecord] = (),
        page: PageFile | None = None,
    ) -> Future[Result]:
        """Hand over a result, its attempts and its page.

        The future gives the result as it was committed (with the page's path; or
        ``no_result`` if the page could not be written), or raises LedgerError.
        Waits only when far too much is queued already.
        """
        future: Future[Result] = Future()
        self._enqueue(result, tuple(attempts), page, partial(_settle, future))
        return future

    def hand_over(self, result: Result, page: PageFile | None, end: End) -> None:
        """The same for a caller that is told on the thread of ``deliver``."""
        self._enqueue(result, (), page, end)

    def attempt(self, record: AttemptRecord) -> None:
        """Hand over an attempt of a URL that goes on."""
        self._enqueue(None, (record,), None, None)

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until all that was handed over is settled; false if ``timeout`` ran out."""
        with self._changed:
            self._hurry += 1
            self._changed.notify_all()
            try:
                return self._changed.wait_for(lambda: self._unsettled == 0, timeout)
            finally:
                self._hurry -= 1

    def close(self, timeout: float | None = None) -> bool:
        """Commit what is left and end the thread; false if ``timeout`` ran out."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _enqueue(
        self,
        result: Result | None,
        attempts: tuple[AttemptRecord, ...],
        page: PageFile | None,
        end: End | None,
    ) -> None:
        item = Item(result, attempts, page, end, self._clock())
        with self._changed:
            if not self._has_room():
                self._changed.wait_for(self._has_room)
            if self.failure or self._closing:
                if end is not None:
                    end(LedgerError(self.failure or "the ledger is closed"))
                return
            self._items.append(item)
            self._bytes += item.size
            self._results += result is not None
            self._unsettled += 1
            # the thread waits for the first, or for enough of them; else the clock wakes it
            if len(self._items) == 1 or self._hurry or self._just_enough(item):
                self._changed.notify_all()

    def _has_room(self) -> bool:
        return bool(self.failure or self._closing) or (
            len(self._items) < MAX_WAITING and self._bytes < MAX_WAITING_BYTES
        )

    def _run(self) -> None:
        while group := self._next_group():
            try:
                self._settle(group)
            except Exception as error:  # a fault of ours must not leave anybody waiting for ever
                self._fail(group, f"the ledger's writer failed: {error!r}")
            self._tell()
            with self._changed:
                self._unsettled -= len(group)
                self._last_commit = self._clock()
                self._changed.notify_all()

    def _next_group(self) -> list[Item]:
        """The next items to commit together; empty when all is done and closing."""
        with self._changed:
            self._changed.wait_for(lambda: self._items or self._closing)
            while self._items and (left := self._lingering()) > 0:
                self._changed.wait(left)
            group = self._take()
            self._bytes -= sum(item.size for item in group)
            self._changed.notify_all()
            return group

    def _take(self) -> list[Item]:
        group: list[Item] = []
        rows = 0
        while self._items and rows < self._max_rows and len(group) < _ITEMS * self._max_rows:
            group.append(self._items.popleft())
            rows += group[-1].result is not None
        self._results -= rows
        return group

    def _enough(self) -> bool:
        return self._results >= self._max_rows or len(self._items) >= _ITEMS * self._max_rows

    def _just_enough(self, last: Item) -> bool:
        full = last.result is not None and self._results == self._max_rows
        return full or len(self._items) == _ITEMS * self._max_rows

    def _lingering(self) -> float:
        if self._closing or self._hurry or self._enough():
            return 0.0
        return max(self._items[0].queued, self._last_commit) + self._linger - self._clock()

    def _settle(self, group: list[Item]) -> None:
        if self.failure:
            return self._fail(group, self.failure)
        try:
            self._commit(group)
        except LedgerError as error:
            if not error.row_fault:
                return self._fail(group, str(error))
            return self._one_by_one(group)
        for item in group:
            self._done(item)
        return None

    def _commit(self, group: list[Item]) -> None:
        """One transaction, repeated with growing waits while that can help."""
        insist(Patience(self._give_up, self._clock), self._write, group)

    def _write(self, group: list[Item]) -> None:
        self._pages.store(group)
        self._ledger.write(
            [item.result for item in group if item.result and not item.void],
            [record for item in group for record in item.attempts],
        )

    def _one_by_one(self, group: list[Item]) -> None:
        """One row that the database refuses must not take the others with it."""
        for item in group:
            try:
                self._commit([item])
                self._done(item)
            except LedgerError as error:
                self._end(item, error)
                if not error.row_fault:
                    return self._fail(group, str(error))
        return None

    def _fail(self, group: list[Item], sentence: str) -> None:
        first = self.failure is None
        with self._changed:
            self.failure = self.failure or sentence
            self._changed.notify_all()
        for item in group:
            self._end(item, LedgerError(sentence))
        if first and self._on_failure:
            self._on_failure(sentence)

    def _done(self, item: Item) -> None:
        if item.result is not None:
            self._end(item, item.result)

    def _end(self, item: Item, value: Result | LedgerError) -> None:
        if item.end is not None:
            self._ended.append((item.end, value))
            item.end = None

    def _tell(self) -> None:
        """Tell all who wait for the group, in one call on their thread."""
        ended, self._ended = self._ended, []
        if ended:
            self._deliver(partial(_tell_all, ended))


def _settle(future: Future[Result], value: Result | LedgerError) -> None:
    if isinstance(value, LedgerError):
        future.set_exception(value)
    else:
        future.set_result(value)


def _tell_all(ended: list[tuple[End, Result | LedgerError]]) -> None:
    for end, value in ended:
        end(value)


def _at_once(call: Callable[[], None]) -> None:
    call()
