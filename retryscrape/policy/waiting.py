"""What waits to be given out, by group: a step costs the logarithm of the number of groups.

Pure: it knows neither requests nor pauses. Times are epoch seconds, ``inf`` is "when told".
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")

#: The most urgent first, then the first that came; the numbers differ, so that no items compare.
_Entry = tuple[int, int, T]


class Group(Generic[T]):
    """The items of one download slot: ready ones by priority, waiting ones by time."""

    __slots__ = ("host", "key", "queued", "ready", "waiting")

    def __init__(self, key: str, host: str) -> None:
        self.key = key
        self.host = host
        self.ready: list[_Entry[T]] = []
        self.waiting: list[tuple[float, _Entry[T]]] = []
        #: the time at which the group stands in the heap, or None
        self.queued: float | None = None

    def __len__(self) -> int:
        return len(self.ready) + len(self.waiting)

    def release(self, now: float) -> int:
        """Move the items whose time has come to the ready ones; how many they were."""
        before = len(self.ready)
        while self.waiting and self.waiting[0][0] <= now:
            heapq.heappush(self.ready, heapq.heappop(self.waiting)[1])
        return len(self.ready) - before


class Waiting(Generic[T]):
    """One heap of groups by the time at which each may give out its next item.

    A paused host stands in the heap once, however many items it has. ``ready`` counts the
    items whose own time has come.
    """

    def __init__(self) -> None:
        self._groups: dict[str, Group[T]] = {}
        self._due: list[tuple[float, int, str]] = []
        self._seq = itertools.count()
        self.size = self.ready = 0

    @property
    def next_due(self) -> float:
        """When to look again: never too late, and too early where a group has gone on since."""
        return self._due[0][0] if self._due else math.inf

    @property
    def groups(self) -> Iterator[Group[T]]:
        """All groups. A look at each: not for every item."""
        return iter(self._groups.values())

    def put(
        self, item: T, priority: int, *, key: str, host: str, not_before: float, now: float
    ) -> None:
        """Take an item in."""
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = Group(key, host)
        due, entry = now, (-priority, next(self._seq), item)
        if not_before > now:
            heapq.heappush(group.waiting, (not_before, entry))
            due = now if group.ready else not_before
        else:
            heapq.heappush(group.ready, entry)
            self.ready += 1
        self.size += 1
        self._queue(group, due)

    def take(self, now: float, free_at: Callable[[str, str, float], float]) -> tuple[T, str] | None:
        """The next item that may leave, and its group's key.

        ``free_at`` says of a group (key, host, now) when it may give out one: now or before, a
        time, or ``inf`` for one that is full, and is looked at again when it is revived.
        """
        while self._due and self._due[0][0] <= now:
            due, _, key = heapq.heappop(self._due)
            group = self._groups.get(key)
            if group is None or group.queued != due:
                continue  # an older entry of a group that was queued again
            group.queued = None
            if self._may_give(group, now, free_at):
                return self._give(group, now), key
        return None

    def _may_give(
        self, group: Group[T], now: float, free_at: Callable[[str, str, float], float]
    ) -> bool:
        self.ready += group.release(now)
        if not group.ready:
            if group.waiting:
                self._queue(group, group.waiting[0][0])
            else:
                del self._groups[group.key]
            return False
        free = free_at(group.key, group.host, now)
        if now < free < math.inf:
            self._queue(group, free)
        return free <= now

    def _give(self, group: Group[T], now: float) -> T:
        _, _, item = heapq.heappop(group.ready)
        self.ready -= 1
        self.size -= 1
        if group:
            self._queue(group, now)
        else:
            del self._groups[group.key]
        return item

    def revive(self, key: str, now: float) -> bool:
        """Look again at a group that was full; whether it was."""
        group = self._groups.get(key)
        if group is None or group.queued is not None:
            return False
        self._queue(group, now)
        return True

    def hurry(self, keys: list[str] | None, now: float) -> None:
        """Look again at these groups (all of them if None), whatever they wait for."""
        for key in list(self._groups) if keys is None else keys:
            group = self._groups.get(key)
            if group is not None:
                self._queue(group, now)

    def drain(self, host: str | None = None) -> list[T]:
        """Take out all items (of a host)."""
        taken: list[T] = []
        for key, group in list(self._groups.items()):
            if host is None or group.host == host:
                taken += [entry[2] for entry in group.ready]
                taken += [entry[2] for _, entry in group.waiting]
                self.ready -= len(group.ready)
                self.size -= len(group)
                del self._groups[key]
        return taken

    def _queue(self, group: Group[T], due: float) -> None:
        if group.queued is None or due < group.queued:
            group.queued = due
            heapq.heappush(self._due, (due, next(self._seq), group.key))
