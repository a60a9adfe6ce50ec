"""Scrapy's downloader, told to say two more things: where there is room, and when
a request has left.

The scheduler asks for room before it gives a request out, so that requests of a
host that is full or in its delay stay in the scheduler and take up nothing of
CONCURRENT_REQUESTS. Measured with Scrapy's own: 50 requests of one slow host cut
another host's rate from 135 to 44 pages a second (probes.md, E).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

from scrapy import Request
from scrapy.core.downloader import Downloader, Slot
from twisted.internet.defer import Deferred

from retryscrape.crawl.keys import API_SLOT, BROWSER_SLOT, SLOT, host_of, ticket_of

#: Pages that are bought: how many at once is the rung's own matter.
_BOUNDLESS = {"concurrency": 1_000_000, "delay": 0.0}


class SteadySlot(Slot):
    """Draws its delay once for each request that leaves, so that it can be told ahead."""

    _drawn: tuple[float, float, float] | None = None

    def download_delay(self) -> float:
        if self._drawn is None or self._drawn[:2] != (self.lastseen, self.delay):
            self._drawn = (self.lastseen, self.delay, super().download_delay())
        return self._drawn[2]


class RoomyDownloader(Downloader):
    """The slot of a request is its host with its port: two servers on two ports are two."""

    def __init__(self, crawler: Any) -> None:
        super().__init__(crawler)
        self.on_left: Callable[[Request], None] | None = None

    def get_slot_key(self, request: Request) -> str:
        """The user's own ``download_slot``, else the host (a redirect takes a new one)."""
        given: str | None = request.meta.get(self.DOWNLOAD_SLOT)
        if given is not None and given != request.meta.get(SLOT):
            return given
        if self.ip_concurrency:
            request.meta.pop(self.DOWNLOAD_SLOT, None)
            return super().get_slot_key(request)
        ticket = ticket_of(request)
        key = host_of(request)
        if ticket is not None and not ticket.rung.startswith("http"):
            key = self._own_slot(ticket.rung, key)
        request.meta[SLOT] = key
        return key

    def _own_slot(self, rung: str, key: str) -> str:
        if rung.startswith("browser"):
            return BROWSER_SLOT + key
        if rung.startswith("api"):
            key = API_SLOT + key
            # the provider asks the site, at a pace of its own
            self.per_slot_settings.setdefault(key, _BOUNDLESS)
        return key

    def widen(self, by: int) -> None:
        """A request that waits for a page that is bought takes up no place of
        CONCURRENT_REQUESTS."""
        if self.total_concurrency:
            self.total_concurrency += by

    def room(self, key: str, given: int) -> float:
        """When the slot can take a request: 0 now, a ``time.monotonic`` second, or
        infinity while it is full.

        ``given`` is how many were given out and have not left: those that still
        wait for robots.txt are in no slot yet, and with a delay the next one waits
        for them. So nothing is left to wait in the slot, where a pause would not reach it.
        """
        slot, now = self.slots.get(key), time.monotonic()
        if slot is None:
            own = self.per_slot_settings.get(key, {})
            limit = own.get("concurrency", self.ip_concurrency or self.domain_concurrency)
            delay, active, due = float(own.get("delay", self._delay)), 0, 0.0
        else:
            limit, active = slot.concurrency, len(slot.active)
            delay = slot.download_delay()
            due = slot.lastseen + delay
        if 0 < limit <= max(active, given):
            return math.inf
        if delay and given > active:
            return now + delay
        return due if delay and due > now else 0.0

    def _get_slot(self, request: Request, spider: Any = None) -> tuple[str, Slot]:
        key, slot = super()._get_slot(request)
        if not isinstance(slot, SteadySlot):
            slot = self.slots[key] = SteadySlot(slot.concurrency, slot.delay, slot.jitter)
        return key, slot

    def fetch(self, request: Request, spider: Any = None) -> Deferred[Any]:
        deferred: Deferred[Any] = super().fetch(request)
        deferred.addBoth(self._gone, request)
        return deferred

    def _gone(self, result: Any, request: Request) -> Any:
        if self.on_left is not None:
            self.on_left(request)
        return result
