"""When a host may be asked: pauses after 429s and blocks, and while it is down.

One small state per host that is under way or has something to remember; hosts with
neither are forgotten. How long a server asked for is retry_after.py's matter.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from typing import NamedTuple, Protocol

from msgspec import Struct, field

from retryscrape.policy.backoff import doubled, throttle_pause
from retryscrape.policy.breaker import Breaker, Phase

#: A host's throttle level is forgiven after this many times its last pause, in seconds at least.
QUIET_TIMES, QUIET_LEAST = 2.0, 60.0

THROTTLED, BLOCKED, DOWN = "throttled", "blocked", "host down"


class Pause(NamedTuple):
    """``until`` is an epoch second, ``reason`` a short text for people."""

    until: float
    reason: str


class HostRules(Struct, frozen=True, kw_only=True):
    """Seconds, and counts; see the settings of the same names. ``exits_needed`` is how
    many exits must show that a host is down (1 if there is only one)."""

    throttle_base: float = 30.0
    retry_after_cap: float = 3600.0
    host_blocks: int = 3
    host_pause: float = 3600.0
    exits_needed: int = 2
    most_hosts: int = 50_000

    @property
    def longest(self) -> float:
        """Seconds that a pause takes at most."""
        return max(self.retry_after_cap, self.host_pause)


class HostRow(NamedTuple):
    """What is kept of a host between runs."""

    host: str
    paused_until: float | None
    pause_reason: str | None
    blocks: int


class HostRowLike(Protocol):
    """Any row with these columns (the ledger's hosts table)."""

    @property
    def host(self) -> str: ...
    @property
    def paused_until(self) -> float | None: ...
    @property
    def pause_reason(self) -> str | None: ...
    @property
    def blocks(self) -> int: ...


class _Host(Struct):
    breaker: Breaker
    in_flight: int = 0
    pause: Pause | None = None
    #: when the last pause for a 429 began, and 429s without Retry-After so far
    throttled_at: float = -math.inf
    level: int = 0
    blocks: int = 0
    #: paused for blocks: the next answers decide, one request at a time
    probing: bool = False

    @property
    def idle(self) -> bool:
        """Nothing under way, nothing to remember."""
        return not (self.in_flight or self.pause or self.level or self.blocks) and (
            self.breaker.idle
        )


class Hosts(Struct):
    """All hosts of a run. ``now`` is epoch seconds throughout."""

    rules: HostRules
    rng: random.Random
    _hosts: dict[str, _Host] = field(default_factory=dict)

    # --- may a request leave ---------------------------------------------------

    def due(self, host: str, now: float) -> float:
        """0 if a request may leave now, the epoch second from which it may, or infinity
        while a probe is under way (ask again when something has returned)."""
        state = self._hosts.get(host)
        if state is None:
            return 0.0
        if state.pause is not None and state.pause.until > now:
            return state.pause.until
        if state.probing and state.in_flight:
            return math.inf
        return state.breaker.due(now, state.in_flight)

    def sent(self, host: str, now: float) -> None:
        """A request to the host leaves."""
        state = self._state(host)
        state.in_flight += 1
        state.breaker.sent(now)

    def returned(self, host: str, now: float) -> None:
        """It is back, whatever it brought."""
        state = self._hosts.get(host)
        if state is None:
            return
        state.in_flight = max(0, state.in_flight - 1)
        state.breaker.returned(state.in_flight)
        self._forget_if_idle(host, state, now)

    def pause_of(self, host: str, now: float | None = None) -> Pause | None:
        """The host's pause; with ``now`` only if it is not over."""
        state = self._hosts.get(host)
        if state is None:
            return None
        pause = state.pause
        if state.breaker.phase is Phase.DOWN and (
            pause is None or pause.until < state.breaker.until
        ):
            pause = Pause(state.breaker.until, DOWN)
        return pause if pause and (now is None or pause.until > now) else None

    # --- 429 and 503 with Retry-After ------------------------------------------

    def throttled(
        self, host: str, now: float, retry_after: float | None, *, started: float | None = None
    ) -> float:
        """Pause a host that asked for it; the epoch second at which the pause ends.

        ``retry_after`` in seconds; None or 0 names no wait: our own backoff, doubled
        each time. ``started`` is when the request left. Many 429s in flight are one
        event: requests from before the pause began lengthen it only if they ask to.
        """
        state = self._state(host)
        until = state.pause.until if state.pause else 0.0
        if retry_after:
            wait = min(retry_after, self.rules.retry_after_cap)
        elif self._same_event(state, now, started):
            return max(until, now)
        else:
            self._forgive(state, now)
            wait = throttle_pause(
                state.level,
                base=self.rules.throttle_base,
                cap=self.rules.retry_after_cap,
                rng=self.rng,
            )
            state.level += 1
        if not self._same_event(state, now, started):
            state.throttled_at = now
        if now + wait > until:
            state.pause = Pause(now + wait, f"{THROTTLED}: {wait:.0f} s")
        return max(until, now + wait)

    def _same_event(self, state: _Host, now: float, started: float | None) -> bool:
        """Whether the request left before the present or last pause began."""
        if started is not None:
            return started <= state.throttled_at
        return state.pause is not None and now < state.pause.until

    def _forgive(self, state: _Host, now: float) -> None:
        """After quiet the level starts anew."""
        last = doubled(
            self.rules.throttle_base, max(0, state.level - 1), self.rules.retry_after_cap
        )
        ended = state.pause.until if state.pause else state.throttled_at
        if now - ended > max(QUIET_LEAST, QUIET_TIMES * last):
            state.level = 0

    # --- blocks ----------------------------------------------------------------

    def blocked(self, host: str, now: float) -> Pause | None:
        """A URL ended blocked on the last rung (count each URL once). The pause, if
        that was one in a row too many, or if the probe after a pause met the same."""
        state = self._state(host)
        if state.pause and state.pause.until > now and state.pause.reason.startswith(BLOCKED):
            return state.pause  # it was under way when the pause began
        state.blocks += 1
        if state.blocks < self.rules.host_blocks and not state.probing:
            return None
        state.probing = True
        until = now + self.rules.host_pause
        if state.pause is None or state.pause.until < until:
            state.pause = Pause(until, f"{BLOCKED}: {state.blocks} URLs in a row")
        return state.pause

    def keep_away(self, host: str, until: float, reason: str) -> Pause:
        """Pause a host, unless it is paused for longer already. ``until`` is an epoch second."""
        state = self._state(host)
        if state.pause is None or state.pause.until < until:
            state.pause = Pause(until, reason)
        return state.pause

    def blocks(self, host: str) -> int:
        """URLs in a row that ended blocked."""
        state = self._hosts.get(host)
        return state.blocks if state else 0

    # --- answers and faults ----------------------------------------------------

    def answered(self, host: str, now: float, *, good: bool = True) -> None:
        """The host answered. ``good``: ok or gone, which also ends a row of blocks."""
        state = self._hosts.get(host)
        if state is None:
            return
        state.breaker.answered()
        if state.pause is not None and state.pause.reason == DOWN:
            state.pause = None
        if good:
            state.blocks, state.probing = 0, False
        self._forget_if_idle(host, state, now)

    def fault(
        self,
        host: str,
        url: str,
        exit_id: str | None,
        now: float,
        *,
        started: float | None = None,
    ) -> Pause | None:
        """No answer came (connect, reset, timeout). The pause, if the host is down."""
        state = self._state(host)
        if state.breaker.fault(url, exit_id, now, state.in_flight, started):
            until = now + self.rules.host_pause
            state.pause = Pause(until, DOWN)
            state.breaker.restart(until)
        return self.pause_of(host, now)

    def gave_up(self, host: str) -> bool:
        """Whether the probes have failed: no more retries for this host in this pass."""
        state = self._hosts.get(host)
        if state is None:
            return False
        paused_down = state.pause is not None and state.pause.reason == DOWN
        return state.breaker.phase is Phase.GIVEN_UP or paused_down

    # --- between runs ----------------------------------------------------------

    def snapshot(self) -> list[HostRow]:
        """Rows for the ledger's hosts table: pauses and blocks, not what is under way."""
        return [
            HostRow(
                host,
                state.pause.until if state.pause else None,
                state.pause.reason if state.pause else None,
                state.blocks,
            )
            for host, state in self._hosts.items()
            if state.pause or state.blocks
        ]

    def restore(self, rows: Iterable[HostRowLike], now: float) -> None:
        """Take up pauses and counts of an earlier run, or of another worker: pauses counted
        from now at the latest, for a clock may have run ahead."""
        for row in rows:
            if not row.paused_until and not row.blocks:
                continue
            state = self._state(row.host)
            state.blocks = row.blocks
            if not row.paused_until:
                continue
            reason = row.pause_reason or "paused"
            until = min(row.paused_until, now + self.rules.longest)
            state.pause = Pause(until, reason)
            state.probing = reason.startswith(BLOCKED)
            if reason == DOWN:
                state.breaker.restart(until)

    # --- memory ----------------------------------------------------------------

    def _state(self, host: str) -> _Host:
        state = self._hosts.get(host)
        if state is None:
            if len(self._hosts) >= self.rules.most_hosts:
                self._drop_one()
            state = self._hosts[host] = _Host(Breaker(self.rules.exits_needed))
        return state

    def _drop_one(self) -> None:
        """The oldest host with nothing under way gives its place, one without a pause first."""
        quiet = [host for host, state in self._hosts.items() if not state.in_flight]
        plain = (host for host in quiet if self._hosts[host].pause is None)
        oldest = next(plain, quiet[0] if quiet else None)
        if oldest is not None:
            del self._hosts[oldest]

    def _forget_if_idle(self, host: str, state: _Host, now: float) -> None:
        if state.pause and state.pause.until + QUIET_LEAST < now:
            self._forgive(state, now)
            if not state.level and not state.probing and state.breaker.phase is not Phase.DOWN:
                state.pause = None
        if state.idle:
            del self._hosts[host]
