"""A set from which a random member can be drawn in constant time.

A data structure, nothing of proxies: a pool of a thousand exits is not scanned.
"""

from __future__ import annotations

import random
from collections.abc import Iterator


class DrawSet:
    """Strings, with ``add``, ``discard``, ``in``, ``len`` and ``draw`` all O(1)."""

    __slots__ = ("_items", "_place")

    def __init__(self) -> None:
        self._items: list[str] = []
        self._place: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, item: object) -> bool:
        return item in self._place

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def add(self, item: str) -> None:
        """Take ``item`` in, if it is not there."""
        if item not in self._place:
            self._place[item] = len(self._items)
            self._items.append(item)

    def discard(self, item: str) -> None:
        """Take ``item`` out, if it is there; the last member takes its place."""
        place = self._place.pop(item, None)
        if place is None:
            return
        last = self._items.pop()
        if last != item:
            self._items[place] = last
            self._place[last] = place

    def draw(self, rng: random.Random) -> str:
        """A member at random. Raises IndexError if there is none."""
        return self._items[int(rng.random() * len(self._items))]
