"""A host that is down: found out by comparing, left alone, asked by one probe at a time.

One state machine per host; what pauses a host that is up (429, blocks) is hosts.py's.
"""

from __future__ import annotations

import math
from enum import Enum

from msgspec import Struct, field

#: Faults in a row, each of another URL, that make a host count as down.
URLS, EXITS = 3, 2
#: Seconds before each probe of a host that is down.
PROBES = (1.0, 2.0, 4.0, 8.0)
#: Faults in a row, after the probes were given up, that pause the host for good.
LAST_FAULTS = 20
#: At once, after the first answers; from here on the host counts as up again.
RELEASE_FROM, RELEASED_AT = 2, 32


class Phase(Enum):
    """Where a host stands."""

    UP = "up"
    #: nothing leaves before ``until``; then one probe at a time
    DOWN = "down"
    #: it answered: 2, 4, 8 ... requests at once
    RELEASING = "releasing"
    #: the probes failed: no more pauses, one request at a time, no retries
    GIVEN_UP = "given up"


class Breaker(Struct):
    """Of one host. Times are epoch seconds; ``exits_needed`` is 1 where only one is there."""

    exits_needed: int = EXITS
    phase: Phase = Phase.UP
    until: float = 0.0
    faults: int = 0
    urls: set[str] = field(default_factory=set)
    exits: set[str | None] = field(default_factory=set)
    failed_probes: int = 0
    #: when the host went down; requests that left before and are still under way
    #: are no probes
    began: float = 0.0
    stale: int = 0
    probe_out: bool = False
    at_once: int = 0

    @property
    def idle(self) -> bool:
        """Whether there is nothing to remember."""
        return self.phase is Phase.UP and not self.faults

    def due(self, now: float, in_flight: int) -> float:
        """When a request may leave: 0, an epoch second, or infinity while a probe is out."""
        probing = max(0, in_flight - self.stale)
        if self.phase is Phase.DOWN:
            if now < self.until:
                return self.until
            return math.inf if probing else 0.0
        if self.phase is Phase.GIVEN_UP:
            return math.inf if probing else 0.0
        if self.phase is Phase.RELEASING:
            return math.inf if probing >= self.at_once else 0.0
        return 0.0

    def sent(self, now: float) -> None:
        """A request leaves."""
        self.probe_out = self.phase is Phase.DOWN and now >= self.until

    def returned(self, in_flight: int) -> None:
        """A request is back; ``in_flight`` are left. Those from before come back first."""
        self.stale = min(max(0, self.stale - 1), in_flight)

    def answered(self) -> None:
        """The host sent an answer, whatever it says."""
        self.faults = self.failed_probes = 0
        self.urls.clear()
        self.exits.clear()
        if self.phase is Phase.RELEASING:
            self.at_once *= 2
            if self.at_once >= RELEASED_AT:
                self.phase = Phase.UP
        elif self.phase is not Phase.UP:
            self.phase, self.at_once, self.until = Phase.RELEASING, RELEASE_FROM, 0.0

    def fault(
        self, url: str, exit_id: str | None, now: float, in_flight: int, started: float | None
    ) -> bool:
        """No answer came. True if the host is now to be paused for good.

        A request that ``started`` before the host went down tells nothing new; where
        that is not known, whatever fails while no probe is out is taken for one.
        """
        before = started is not None and started < self.began
        if self.phase is Phase.DOWN and (now < self.until or not self.probe_out or before):
            return False
        self.faults += 1
        if len(self.urls) < URLS:
            self.urls.add(url)
        if len(self.exits) < self.exits_needed:
            self.exits.add(exit_id)
        if self.phase is Phase.DOWN:
            self._probe_failed(now, in_flight)
        elif self.phase is Phase.GIVEN_UP:
            return self.faults >= LAST_FAULTS
        elif self._shown():
            self._go_down(now, in_flight)
        return False

    def restart(self, until: float) -> None:
        """After the long pause, which ends at ``until``, probes begin anew."""
        self.phase, self.until, self.probe_out = Phase.DOWN, until, False
        self.faults = self.failed_probes = self.stale = 0

    def _shown(self) -> bool:
        direct = self.exits == {None}
        return len(self.urls) >= URLS and (direct or len(self.exits) >= self.exits_needed)

    def _go_down(self, now: float, in_flight: int) -> None:
        self.phase, self.probe_out = Phase.DOWN, False
        self.began, self.until = now, now + PROBES[self.failed_probes]
        self.stale = in_flight

    def _probe_failed(self, now: float, in_flight: int) -> None:
        self.failed_probes += 1
        if self.failed_probes >= len(PROBES):
            self.phase, self.faults = Phase.GIVEN_UP, 0
        else:
            self._go_down(now, in_flight)
