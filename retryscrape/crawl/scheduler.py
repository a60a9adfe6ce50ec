"""A scheduler in which waiting costs nothing.

It gives out no request before its time, none of a paused host, and none that its
download slot has no room for; it wakes the engine at the due time; it counts
waiting requests as pending, so that the spider stays open. No rule of waiting
lives here: hosts and their pauses are the policy's.

Requests with a ledger row are kept in memory and never on disk (the ledger is
what resumes a crawl: after a hard kill JOBDIR lost 77 % of its requests,
probes.md). Others go through Scrapy's own queues, JOBDIR included.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from scrapy import Request, Spider, signals
from scrapy.core.scheduler import Scheduler
from scrapy.utils.asyncio import CallLaterResult, call_later

from retryscrape.crawl.downloader import RoomyDownloader
from retryscrape.crawl.given import OWN_SLOTS, Given, own_slot
from retryscrape.crawl.keys import API_SLOT, BROWSER_SLOT, host_of, ticket_of
from retryscrape.crawl.runtime import Run
from retryscrape.crawl.scraper import LeanScraper
from retryscrape.crawl.way import Way
from retryscrape.policy.waiting import Group, Waiting

#: Fewer requests than this that could leave now: the manifest is read on.
LOW = 100
#: More requests than this in memory: the manifest is not read on for now (about 2 KB each).
HIGH = 5000
#: The same where most of them wait for a host that is paused: the hosts that are not come
#: later in the manifest. Looked at anew whenever so many have come or gone.
MOST, STEP = 150_000, 1000


class WaitingScheduler(Scheduler):
    """Scrapy's, with requests that wait in ``policy.waiting``."""

    def open(self, spider: Spider) -> Any:
        assert self.crawler is not None
        self.run = Run.of(self.crawler)
        self.run.scheduler = self
        LeanScraper.take_over(self.crawler.engine)
        Way.take_over(self.crawler.engine)
        downloader = self.crawler.engine.downloader
        self._downloader = downloader if isinstance(downloader, RoomyDownloader) else None
        if self._downloader is not None:
            self._downloader.on_left = self._left
            self._downloader.lags = self.run.lags
        else:
            self.crawler.signals.connect(self._left, signal=signals.request_left_downloader)
        self._waiting: Waiting[Request] = Waiting()
        self._given = Given()
        #: requests of hosts that nobody waits for: they leave at once, to be told so
        self._turned: deque[Request] = deque()
        self._timer: CallLaterResult | None = None
        self._timer_at = math.inf
        self._starved = True
        self._limit, self._limit_at = HIGH, 0
        self._on_room: Callable[[], None] | None = None
        return super().open(spider)

    # --- what comes in ---------------------------------------------------------

    def enqueue_request(self, request: Request) -> bool:
        ticket = ticket_of(request)
        if ticket is not None and ticket.batch:
            if not self.run.holds(ticket.host):
                return False  # its row is another worker's now
            if self.run.parking.put_off(host_of(request), ticket):
                return False  # its host was paused for long while it was on its way here
        if ticket is None or not ticket.batch:
            if not request.dont_filter and self.df.request_seen(request):
                self.df.log(request, self.spider)
                return False
            if self.run.parking.too_long(request) is not None:
                self.turn_away(request)
                return True
            not_before = ticket.not_before if ticket is not None else 0.0
            if not_before <= time.time() and self._dqpush(request):
                self._count("enqueued/disk")
                return True
        self._hold(request, ticket.not_before if ticket is not None else 0.0)
        self._count("enqueued/memory")
        return True

    def turn_away(self, request: Request) -> None:
        """Give out a request although its host is paused: the exit middleware ends it there,
        so that the spider's errback is told."""
        self._turned.append(request)
        self._nudge()

    def _hold(self, request: Request, not_before: float) -> None:
        now, key = time.time(), self._slot_key(request)
        host, priority = host_of(request), request.priority
        self._waiting.put(request, priority, key=key, host=host, not_before=not_before, now=now)
        if now < not_before < self._timer_at:
            self._arm()

    def _slot_key(self, request: Request) -> str:
        assert self.crawler is not None
        key: str = self.crawler.engine.downloader.get_slot_key(request)
        return key

    # --- what goes out ---------------------------------------------------------

    def next_request(self) -> Request | None:
        now = time.time()
        if self._turned:
            return self._turned.popleft()
        request = self._next_held(now) or self._next_stored(now)
        if request is None:
            self._starved = self._size() < self._most()
            self._arm()
        if self._on_room is not None and self.hungry():
            self._on_room()
        return request

    def _next_held(self, now: float) -> Request | None:
        found = self._waiting.take(now, self._free_at)
        if found is None:
            return None
        request, key = found
        self._given.add(request, key)
        self._widen(key, 1)
        self.run.hosts.sent(host_of(request), now)
        self._count("dequeued/memory")
        return request

    def _free_at(self, key: str, host: str, now: float) -> float:
        """When a group may give out a request: its host's pause, then its slot's room."""
        own = own_slot(key)
        due = self.run.due(host, now, exits=own != API_SLOT)
        if due > now:
            return due
        if own is not None:
            if 0 < self._places(own) <= self._given.out[own]:
                self._given.stall(own, key)
                return math.inf
            return 0.0
        if self._downloader is None:
            return due
        room = self._downloader.room(key, self._given.out[key])
        return room if room in (0.0, math.inf) else now + room - time.monotonic()

    def _places(self, slot: str) -> int:
        """How many requests a rung with a concurrency of its own may have out; 0: any number."""
        if slot == BROWSER_SLOT:
            return self.run.config.browser_pages
        return self.run.api.provider.at_once if self.run.api is not None else 0

    def _widen(self, key: str, by: int) -> None:
        """What is bought takes up no room of the downloader's."""
        if self._downloader is not None and own_slot(key) == API_SLOT:
            self._downloader.widen(by)

    def _next_stored(self, now: float) -> Request | None:
        """From Scrapy's own queues; what may not leave yet is held back."""
        while (request := super().next_request()) is not None:
            ticket = ticket_of(request)
            not_before = ticket.not_before if ticket is not None else 0.0
            self._hold(request, not_before)
            held = self._next_held(now)
            if held is not None:
                return held
            if self._size() >= HIGH:
                return None
        return None

    # --- waking the engine -----------------------------------------------------

    def _left(self, request: Request) -> None:
        """A request has left the downloader: its slot and its host have room again."""
        now, host = time.time(), host_of(request)
        key = self._given.leave(request)
        if key is not None:
            self._widen(key, -1)
            self._next_of(own_slot(key), now)
            self.run.hosts.returned(host, now)
        others = {API_SLOT + host} if self.run.api is not None else ()
        for slot in {key or host, host, BROWSER_SLOT + host, *others}:
            self._waiting.revive(slot, now)

    def _next_of(self, slot: str | None, now: float) -> None:
        """Give the place that has become free at a rung to the first group that waits for it."""
        for key in self._given.stalled(slot) if slot is not None else ():
            if self._waiting.revive(key, now):
                return

    def wake(self, host: str | None = None) -> None:
        """Look again at a host whose pause has changed (all of them if None)."""
        keys = None if host is None else [host, *(slot + host for slot in OWN_SLOTS)]
        self._waiting.hurry(keys, time.time())
        self._nudge()

    def _arm(self) -> None:
        due = self._waiting.next_due
        if due == self._timer_at and self._timer is not None:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._timer_at = due
        if due < math.inf:
            self._timer = call_later(max(0.0, due - time.time()), self._fire)

    def _fire(self) -> None:
        self._timer = None
        self._timer_at = math.inf
        self._nudge()

    def _nudge(self) -> None:
        # The engine's own way to be woken, engine.crawl(), takes a request, which we
        # do not want to hand over before it asks; its heartbeat alone comes up to 5 s
        # late (measured 3.1 s, probes.md E). Hence this one private attribute.
        assert self.crawler is not None
        slot = self.crawler.engine._slot
        if slot is not None and slot.closing is None:
            slot.nextcall.schedule()

    # --- what is known of it ---------------------------------------------------

    def __len__(self) -> int:
        return self._size() + super().__len__()

    def _size(self) -> int:
        return self._waiting.size + len(self._turned)

    def has_pending_requests(self) -> bool:
        return len(self) > 0

    def hungry(self) -> bool:
        """Whether the manifest should be read on: little that could leave now, or
        nothing of it could, and memory is left."""
        return self._waiting.ready < LOW or (self._starved and self._size() < self._most())

    def _most(self) -> int:
        """How many requests may be held when none of them can leave."""
        size = self._size()
        if size < HIGH:
            return HIGH
        if abs(size - self._limit_at) >= STEP:
            self._limit_at = size
            self._limit = MOST if 2 * sum(map(len, self._paused())) > size else HIGH
        return self._limit

    def _paused(self) -> list[Group[Request]]:
        """The groups of hosts that are paused."""
        now, pause_of = time.time(), self.run.hosts.pause_of
        return [group for group in self._waiting.groups if pause_of(group.host, now) is not None]

    def on_room(self, callback: Callable[[], None] | None) -> None:
        """Call ``callback`` whenever the scheduler gets hungry."""
        self._on_room = callback

    def waiting(self) -> tuple[int, float]:
        """How many requests wait for their time, and the nearest due time (epoch, or 0)."""
        held = self._waiting
        count = held.size - held.ready + sum(len(group.ready) for group in self._paused())
        return count, held.next_due if count and held.next_due < math.inf else 0.0

    def drain(self, host: str | None = None) -> list[Request]:
        """Take out all requests (of a host), to be parked by the caller."""
        taken = self._waiting.drain(host)
        if host is None:
            taken += self._turned
            self._turned.clear()
        return taken

    def close(self, reason: str) -> Any:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for request in self.drain():
            ticket = ticket_of(request)
            if ticket is None or not ticket.batch:
                self._dqpush(request)
            elif reason == "over_budget":
                self.run.parking.left_unpaid(ticket)
        return super().close(reason)

    def _count(self, what: str) -> None:
        assert self.stats is not None
        self.stats.inc_value(f"scheduler/{what}")
        self.stats.inc_value(f"scheduler/{what.partition('/')[0]}")
