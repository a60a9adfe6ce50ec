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

import heapq
import itertools
import math
import time
from collections import Counter, deque
from collections.abc import Callable
from typing import Any

from scrapy import Request, Spider, signals
from scrapy.core.scheduler import Scheduler
from scrapy.utils.asyncio import CallLaterResult, call_later

from retryscrape.crawl.downloader import RoomyDownloader
from retryscrape.crawl.keys import API_SLOT, BROWSER_SLOT, host_of, ticket_of
from retryscrape.crawl.runtime import Run
from retryscrape.crawl.scraper import LeanScraper
from retryscrape.crawl.way import Way

#: Fewer requests than this that could leave now: the manifest is read on.
LOW = 100
#: More requests than this in memory: the manifest is not read on for now (about 2 KB each).
HIGH = 5000
#: The same where most of them wait for a host that is paused: the hosts that are not come
#: later in the manifest. Looked at anew whenever so many have come or gone.
MOST, STEP = 150_000, 1000
#: Slots of rungs with a concurrency of their own.
OWN_SLOTS = (BROWSER_SLOT, API_SLOT)


class Group:
    """The requests of one download slot: ready ones by priority, waiting ones by time."""

    __slots__ = ("host", "key", "queued", "ready", "waiting")

    def __init__(self, key: str, host: str) -> None:
        self.key = key
        self.host = host
        self.ready: list[tuple[int, int, Request]] = []
        self.waiting: list[tuple[float, int, Request]] = []
        #: the time at which the group stands in the scheduler's heap, or None
        self.queued: float | None = None

    def __len__(self) -> int:
        return len(self.ready) + len(self.waiting)

    def release(self, now: float) -> None:
        """Move the requests whose time has come to the ready ones."""
        while self.waiting and self.waiting[0][0] <= now:
            _, seq, request = heapq.heappop(self.waiting)
            heapq.heappush(self.ready, (-request.priority, seq, request))


class WaitingScheduler(Scheduler):
    """One heap of groups by the time at which each may give out its next request.

    A step costs the logarithm of the number of groups; a paused host stands in
    the heap once, however many requests it has.
    """

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
        self._groups: dict[str, Group] = {}
        self._due: list[tuple[float, int, str]] = []
        self._seq = itertools.count()
        #: requests that were given out and have not left the downloader, by slot
        self._given: dict[Request, str] = {}
        self._out: Counter[str] = Counter()
        #: slots that wait for a page of the browser, or for a place at the scraping API
        self._stalled: dict[str, dict[str, None]] = {slot: {} for slot in OWN_SLOTS}
        #: requests of hosts that nobody waits for: they leave at once, to be told so
        self._turned: deque[Request] = deque()
        self._size = 0
        self._ready = 0
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
        self._size += 1
        self._nudge()

    def _hold(self, request: Request, not_before: float) -> None:
        now = time.time()
        key = self._slot_key(request)
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = Group(key, host_of(request))
        if not_before > now:
            heapq.heappush(group.waiting, (not_before, next(self._seq), request))
            due = max(now, not_before) if not group.ready else now
        else:
            heapq.heappush(group.ready, (-request.priority, next(self._seq), request))
            self._ready += 1
            due = now
        self._size += 1
        self._queue(group, due)

    def _slot_key(self, request: Request) -> str:
        assert self.crawler is not None
        key: str = self.crawler.engine.downloader.get_slot_key(request)
        return key

    def _queue(self, group: Group, due: float) -> None:
        if group.queued is not None and group.queued <= due:
            return
        group.queued = due
        heapq.heappush(self._due, (due, next(self._seq), group.key))
        if time.time() < due < self._timer_at:
            self._arm()

    # --- what goes out ---------------------------------------------------------

    def next_request(self) -> Request | None:
        now = time.time()
        if self._turned:
            self._size -= 1
            return self._turned.popleft()
        request = self._next_held(now) or self._next_stored(now)
        if request is None:
            self._starved = self._size < self._most()
            self._arm()
        if self._on_room is not None and self.hungry():
            self._on_room()
        return request

    def _next_held(self, now: float) -> Request | None:
        while self._due and self._due[0][0] <= now:
            due, _, key = heapq.heappop(self._due)
            group = self._groups.get(key)
            if group is None or group.queued != due:
                continue  # an older entry of a group that was queued again
            group.queued = None
            request = self._from(group, now)
            if request is not None:
                return request
        return None

    def _from(self, group: Group, now: float) -> Request | None:
        before = len(group.ready)
        group.release(now)
        self._ready += len(group.ready) - before
        if not group.ready:
            if group.waiting:
                self._queue(group, group.waiting[0][0])
            else:
                del self._groups[group.key]
            return None
        free = self._free_at(group, now)
        if free > now:
            if free is not math.inf:
                self._queue(group, free)
            return None  # a full group is queued again when one of its requests leaves
        _, _, request = heapq.heappop(group.ready)
        self._ready -= 1
        self._size -= 1
        self._queue(group, now) if group else self._groups.pop(group.key)
        self._give(request, group.key, now)
        return request

    def _give(self, request: Request, key: str, now: float) -> None:
        self._given[request] = key
        self._out[key] += 1
        if key.startswith(OWN_SLOTS):
            self._own_given(key, 1)
        self.run.hosts.sent(host_of(request), now)
        self._count("dequeued/memory")

    def _free_at(self, group: Group, now: float) -> float:
        """When the group may give out a request: its host's pause, then its slot's room."""
        if group.key.startswith(OWN_SLOTS):
            return self._own_free_at(group, now)
        due = self.run.due(group.host, now)
        if due > now or self._downloader is None:
            return due
        room = self._downloader.room(group.key, self._out[group.key])
        return room if room in (0.0, math.inf) else now + room - time.monotonic()

    def _own_free_at(self, group: Group, now: float) -> float:
        bought = group.key.startswith(API_SLOT)
        slot = API_SLOT if bought else BROWSER_SLOT
        due = self.run.due(group.host, now, exits=not bought)
        if due > now:
            return due
        api = self.run.api
        most = self.run.config.browser_pages if not bought else api.provider.at_once if api else 0
        if 0 < most <= self._out[slot]:
            self._stalled[slot][group.key] = None  # in order, and once
            return math.inf
        return 0.0

    def _own_given(self, key: str, by: int) -> str:
        """Count a request that is given out (1) or has left (-1) for its rung."""
        slot = API_SLOT if key.startswith(API_SLOT) else BROWSER_SLOT
        self._out[slot] += by
        if slot == API_SLOT and self._downloader is not None:
            self._downloader.widen(by)
        return slot

    def _next_stored(self, now: float) -> Request | None:
        """From Scrapy's own queues; what may not leave yet is held back."""
        while (request := super().next_request()) is not None:
            ticket = ticket_of(request)
            not_before = ticket.not_before if ticket is not None else 0.0
            self._hold(request, not_before)
            held = self._next_held(now)
            if held is not None:
                return held
            if self._size >= HIGH:
                return None
        return None

    # --- waking the engine -----------------------------------------------------

    def _left(self, request: Request) -> None:
        """A request has left the downloader: its slot and its host have room again."""
        now, host = time.time(), host_of(request)
        key = self._given.pop(request, None)
        if key is not None:
            self._take_back(key)
            self.run.hosts.returned(host, now)
        others = {API_SLOT + host} if self.run.api is not None else ()
        for slot in {key or host, host, BROWSER_SLOT + host, *others}:
            group = self._groups.get(slot)
            if group is not None and group.queued is None:
                self._queue(group, now)

    def _take_back(self, key: str) -> None:
        self._out[key] -= 1
        if not self._out[key]:
            del self._out[key]
        if key.startswith(OWN_SLOTS):
            stalled = self._stalled[self._own_given(key, -1)]
            while stalled:
                first = next(iter(stalled))
                del stalled[first]
                group = self._groups.get(first)
                if group is not None and group.queued is None:
                    self._queue(group, time.time())
                    break

    def wake(self, host: str | None = None) -> None:
        """Look again at a host whose pause has changed (all of them if None)."""
        keys = self._groups.keys() if host is None else (host, *(s + host for s in OWN_SLOTS))
        for key in list(keys):
            group = self._groups.get(key)
            if group is not None:
                self._queue(group, time.time())
        self._nudge()

    def _arm(self) -> None:
        due = self._due[0][0] if self._due else math.inf
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
        return self._size + super().__len__()

    def has_pending_requests(self) -> bool:
        return len(self) > 0

    def hungry(self) -> bool:
        """Whether the manifest should be read on: little that could leave now, or
        nothing of it could, and memory is left."""
        return self._ready < LOW or (self._starved and self._size < self._most())

    def _most(self) -> int:
        """How many requests may be held when none of them can leave."""
        if self._size < HIGH:
            return HIGH
        if abs(self._size - self._limit_at) >= STEP:
            self._limit_at = self._size
            self._limit = MOST if 2 * sum(map(len, self._paused())) > self._size else HIGH
        return self._limit

    def _paused(self) -> list[Group]:
        """The groups of hosts that are paused. A look at each: not for every request."""
        now, pause_of = time.time(), self.run.hosts.pause_of
        return [group for group in self._groups.values() if pause_of(group.host, now) is not None]

    def on_room(self, callback: Callable[[], None] | None) -> None:
        """Call ``callback`` whenever the scheduler gets hungry."""
        self._on_room = callback

    def waiting(self) -> tuple[int, float]:
        """How many requests wait for their time, and the nearest due time (epoch, or 0)."""
        count = self._size - self._ready + sum(len(group.ready) for group in self._paused())
        return count, self._due[0][0] if count and self._due else 0.0

    def drain(self, host: str | None = None) -> list[Request]:
        """Take out all requests (of a host), to be parked by the caller."""
        taken: list[Request] = []
        for key, group in list(self._groups.items()):
            if host is not None and group.host != host:
                continue
            taken += [entry[2] for entry in (*group.ready, *group.waiting)]
            self._ready -= len(group.ready)
            self._size -= len(group)
            del self._groups[key]
        if host is None:
            self._size -= len(self._turned)
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
