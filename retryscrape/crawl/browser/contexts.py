"""Contexts and tabs, bounded: one context per (exit, host), the least recently used closed.

How a context or a tab is opened and closed is given in; no playwright here. A tab stands
for its slot, so a page never waits while holding one: there are never more pages at once
than contexts, and with it none of scrapy-playwright's deadlock (probes.md, part B).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Hashable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, TypeVar

from retryscrape.crawl.tasks import kept

C = TypeVar("C")
T = TypeVar("T")

#: Seconds that a tab is kept for the next page of its exit and host. Another page in the
#: same tab costs two thirds of one in a new tab (210 against 310 ms of CPU, measured).
LINGER = 0.5


@dataclass(slots=True, eq=False)
class Room(Generic[C]):
    """A context and who is in it."""

    key: Hashable
    context: asyncio.Future[C]
    busy: int = 0
    retired: bool = False


@dataclass(slots=True, eq=False)
class Lease(Generic[C, T]):
    """A tab for one page. ``reusable`` is set when the page in it ended well."""

    room: Room[C]
    tab: T
    reusable: bool = False
    timer: asyncio.TimerHandle | None = field(default=None, repr=False)


class Contexts(Generic[C, T]):
    """``open_tab(context)`` and the closers may raise; a closer's errors are dropped."""

    def __init__(
        self,
        *,
        slots: int,
        limit: int,
        open_tab: Callable[[C], Awaitable[T]],
        close_tab: Callable[[T], Awaitable[None]],
        close_context: Callable[[C], Awaitable[None]],
        linger: float = LINGER,
    ) -> None:
        self._slots = asyncio.Semaphore(slots)
        self._tabs = slots
        self._limit = max(limit, slots)
        self._open_tab, self._close_tab = open_tab, close_tab
        self._close_context = close_context
        self._linger = linger
        self._rooms: dict[Hashable, Room[C]] = {}
        self._retired: set[Room[C]] = set()
        self._spare: list[Lease[C, T]] = []
        self._open = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._demolitions: set[asyncio.Task[None]] = set()

    @property
    def pages(self) -> int:
        """Tabs open now, those kept for a next page included."""
        return self._open

    def __len__(self) -> int:
        return len(self._rooms) + len(self._retired)

    async def slot(self) -> None:
        """Wait, in order, for the right to one page. To be given back by ``free`` or a lease."""
        await self._slots.acquire()

    def free(self) -> None:
        """Give a slot back that no lease was made of."""
        self._slots.release()

    async def lease(
        self,
        key: Hashable,
        open_context: Callable[[], Awaitable[C]],
        accept: Callable[[T], bool] = lambda tab: True,
    ) -> Lease[C, T]:
        """A tab in the key's context, on a slot that the caller holds.

        ``accept`` says whether a tab kept from the last page will do. If this raises,
        the caller still holds the slot.
        """
        room = self._room(key, open_context)
        room.busy += 1
        try:
            context = await asyncio.shield(room.context)
            kept = next((s for s in self._spare if s.room is room and accept(s.tab)), None)
            if kept:
                self._unspare(kept)
                kept.reusable = False
                return kept
            return Lease(room, await self._opened_tab(room, context))
        except BaseException:
            self._leave(room)
            raise

    async def _opened_tab(self, room: Room[C], context: C) -> T:
        await self._make_way()
        self._open += 1
        room.busy += 1
        opening = asyncio.ensure_future(self._open_tab(context))
        try:
            return await asyncio.shield(opening)
        except BaseException:
            # a time-out here must not leave behind the tab that the browser still opens
            self._spawn(self._discard(room, opening))
            raise
        finally:
            if opening.done():
                self._leave(room)

    async def _discard(self, room: Room[C], opening: asyncio.Future[T]) -> None:
        late = not opening.done()
        await asyncio.wait({opening})
        if not opening.cancelled() and opening.exception() is None:
            with suppress(Exception):
                await self._close_tab(opening.result())
        self._open -= 1
        if late:
            self._leave(room)

    def release(self, lease: Lease[C, T]) -> None:
        """Give the tab and its slot back; returns at once, the closing goes on behind."""
        if lease.reusable and not lease.room.retired:
            loop = asyncio.get_running_loop()
            lease.timer = loop.call_later(self._linger, self._expire, lease)
            self._spare.append(lease)
            self._leave(lease.room)
            self._slots.release()
        else:
            self._spawn(self._end(lease, slot=True))

    def retire(self, keep: Callable[[Hashable], bool] = lambda key: False) -> None:
        """Start anew: idle contexts are closed, busy ones when their last page ends."""
        for room in list(self._rooms.values()):
            if not keep(room.key):
                self._retire(room)

    async def close(self) -> None:
        """Close everything that is idle and wait for what is being closed."""
        self.retire()
        while self._tasks:
            await asyncio.wait(self._tasks)

    def _room(self, key: Hashable, open_context: Callable[[], Awaitable[C]]) -> Room[C]:
        room = self._rooms.pop(key, None)
        if room is None:
            victims = self._victims()
            room = Room(key, asyncio.ensure_future(self._opened(victims, open_context)))
            room.context.add_done_callback(partial(self._failed, room))
        self._rooms[key] = room  # last in the dict is the one used last
        return room

    def _victims(self) -> list[asyncio.Task[None]]:
        """Make room for one more: the closings that have to come first."""
        excess = len(self) + 1 - self._limit
        if excess <= 0:
            return []
        idle = [room for room in self._rooms.values() if not room.busy]
        closing = sum(not room.busy for room in self._retired)
        for room in idle[: max(0, excess - closing)]:
            self._retire(room)
        return list(self._demolitions)

    async def _opened(
        self, first: list[asyncio.Task[None]], open_context: Callable[[], Awaitable[C]]
    ) -> C:
        if first:
            await asyncio.wait(first)
        return await open_context()

    def _failed(self, room: Room[C], done: asyncio.Future[C]) -> None:
        if done.cancelled() or done.exception() is not None:
            room.retired = True
            if self._rooms.get(room.key) is room:
                del self._rooms[room.key]
            self._retired.discard(room)

    def _retire(self, room: Room[C]) -> None:
        room.retired = True
        if self._rooms.get(room.key) is room:
            del self._rooms[room.key]
        self._retired.add(room)
        if not room.busy:
            self._tear_down(room)

    def _tear_down(self, room: Room[C]) -> None:
        task = self._spawn(self._demolish(room))
        self._demolitions.add(task)
        task.add_done_callback(self._demolitions.discard)

    async def _make_way(self) -> None:
        """Tabs kept for others give way, so that pages open stay within the slots."""
        while self._spare and self._open >= self._tabs:
            lease = self._spare[0]
            self._unspare(lease)
            await self._shut(lease)

    def _expire(self, lease: Lease[C, T]) -> None:
        if lease in self._spare:
            self._unspare(lease)
            self._spawn(self._shut(lease))

    def _unspare(self, lease: Lease[C, T]) -> None:
        self._spare.remove(lease)
        if lease.timer:
            lease.timer.cancel()
            lease.timer = None

    async def _end(self, lease: Lease[C, T], *, slot: bool) -> None:
        await self._shut(lease)
        self._leave(lease.room)
        if slot:
            self._slots.release()

    async def _shut(self, lease: Lease[C, T]) -> None:
        with suppress(Exception):
            await self._close_tab(lease.tab)
        self._open -= 1

    def _leave(self, room: Room[C]) -> None:
        room.busy -= 1
        if room.retired and not room.busy and room in self._retired:
            self._tear_down(room)

    async def _demolish(self, room: Room[C]) -> None:
        """Pages first, then the context."""
        for lease in [spare for spare in self._spare if spare.room is room]:
            self._unspare(lease)
            await self._shut(lease)
        with suppress(Exception):
            await self._close_context(await room.context)
        self._retired.discard(room)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        return kept(work, self._tasks)
