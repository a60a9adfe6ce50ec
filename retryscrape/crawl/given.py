"""Requests that were given out and have not left the downloader, and who waits for their places.

Only counts: how many places there are is the scheduler's to ask.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from scrapy import Request

from retryscrape.crawl.keys import API_SLOT, BROWSER_SLOT

#: Slots of rungs with a concurrency of their own.
OWN_SLOTS = (BROWSER_SLOT, API_SLOT)


def own_slot(key: str) -> str | None:
    """The rung's slot that a group's key belongs to, None for a host's plain one."""
    if not key.startswith(OWN_SLOTS):
        return None
    return API_SLOT if key.startswith(API_SLOT) else BROWSER_SLOT


class Given:
    """By slot, and by rung."""

    def __init__(self) -> None:
        self._keys: dict[Request, str] = {}
        self.out: Counter[str] = Counter()
        #: groups that wait for a page of the browser, or for a place at the scraping API
        self._stalled: dict[str, dict[str, None]] = {slot: {} for slot in OWN_SLOTS}

    def add(self, request: Request, key: str) -> None:
        """A request was given out."""
        self._keys[request] = key
        self.out[key] += 1
        own = own_slot(key)
        if own is not None:
            self.out[own] += 1

    def leave(self, request: Request) -> str | None:
        """A request has left; its slot's key, None if it was none of ours."""
        key = self._keys.pop(request, None)
        for slot in () if key is None else filter(None, (key, own_slot(key))):
            self.out[slot] -= 1
            if not self.out[slot]:
                del self.out[slot]
        return key

    def stall(self, slot: str, key: str) -> None:
        """A group waits for a place of this rung's: in order, and once."""
        self._stalled[slot][key] = None

    def stalled(self, slot: str) -> Iterator[str]:
        """Those that wait for a place of this rung's; each has its turn only once."""
        waiting = self._stalled[slot]
        while waiting:
            first = next(iter(waiting))
            del waiting[first]
            yield first
