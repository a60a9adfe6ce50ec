"""Scrapy's downloader, told to say two more things: where there is room, and when
a request has left. One task a request; slots, delays and signals are Scrapy's.

The scheduler asks for room before it gives a request out, so that requests of a
host that is full or in its delay stay in the scheduler and take up nothing of
CONCURRENT_REQUESTS. Measured with Scrapy's own: 50 requests of one slow host cut
another host's rate from 135 to 44 pages a second (probes.md, E).
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from typing import Any

from scrapy import Request, signals
from scrapy.core.downloader import Downloader, Slot
from scrapy.http import Response
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from retryscrape.crawl.chain import Chain
from retryscrape.crawl.keys import API_SLOT, BROWSER_SLOT, SLOT, host_of, ticket_of
from retryscrape.crawl.tasks import kept
from retryscrape.crawl.telling import DirectSignals

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
        #: whether more has come in than is committed, so that nothing more is to be asked for
        self.lags: Callable[[], bool] = bool
        self.signals = DirectSignals(self.signals.sender)
        self._chain = Chain(self.middleware)
        self._tasks: set[asyncio.Task[None]] = set()

    def needs_backout(self) -> bool:
        return super().needs_backout() or self.lags()

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
        deferred: Deferred[Any] = Deferred()
        self.active.add(request)
        kept(self._fetch(request, deferred), self._tasks)
        return deferred

    async def _fetch(self, request: Request, deferred: Deferred[Any]) -> None:
        deferred.callback(await self.fetched(request))

    async def fetched(self, request: Request) -> Response | Request | Failure:
        """What ``fetch`` gives, to those who wait for it in a task of their own; ``request`` is
        among the ``active`` already."""
        result: Response | Request | Failure
        try:
            result = await self._chain.download(self._enqueue_request, request)
        except (Exception, asyncio.CancelledError):
            result = Failure()  # type: ignore[no-untyped-call]
        self.active.discard(request)
        if self.on_left is not None:
            self.on_left(request)
        return result

    async def _enqueue_request(self, request: Request) -> Response:
        key, slot = self._get_slot(request)
        if slot.delay or slot.queue or slot.latercall or slot.free_transfer_slots() <= 0:
            return await super()._enqueue_request(request)
        # nothing to wait for: the request needs no place in the slot's queue, and no second task
        request.meta[self.DOWNLOAD_SLOT] = key
        slot.active.add(request)
        self._say(signals.request_reached_downloader, request=request)
        slot.lastseen = time.monotonic()
        try:
            return await self._download(slot, request)
        finally:
            slot.active.remove(request)

    async def _download(self, slot: Slot, request: Request) -> Response:
        # the order is Scrapy's: tell, then free the place, then let the next one in
        slot.transferring.add(request)
        try:
            response = await self.handlers.download_request_async(request)
            self._say(signals.response_downloaded, response=response, request=request)
            return response
        finally:
            slot.transferring.remove(request)
            if slot.queue:
                self._process_queue(slot)
            self._say(signals.request_left_downloader, request=request)

    def _say(self, signal: object, **what: Any) -> None:
        self.signals.send_catch_log(signal=signal, spider=self.crawler.spider, **what)
