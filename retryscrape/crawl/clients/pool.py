"""Connections at rest, for the next request of the same way. Bounded in number and time."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Hashable

from retryscrape.crawl.clients.connection import Connection

#: Seconds that a connection may rest. Servers close sooner (Node 5 s, nginx 75 s), and
#: that is noticed; this bounds what a run leaves open at hosts that it is done with.
IDLE = 30.0


class Pool:
    """At most ``size`` resting connections; the one that rested longest goes first."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._resting: OrderedDict[Connection, tuple[Hashable, float]] = OrderedDict()
        self._by_key: dict[Hashable, list[Connection]] = {}
        self._sweep: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._resting)

    def take(self, key: Hashable) -> Connection | None:
        """The connection that rested the shortest, taken out; None if there is none."""
        resting = self._by_key.get(key)
        if not resting:
            return None
        connection = resting[-1]
        self._forget(connection)
        return connection

    def give(self, key: Hashable, connection: Connection) -> None:
        """Let a connection rest."""
        now = asyncio.get_running_loop().time()
        self._resting[connection] = (key, now + IDLE)
        self._by_key.setdefault(key, []).append(connection)
        connection.on_lost = self._forget
        if len(self._resting) > self._size:
            self._drop(next(iter(self._resting)))
        if self._sweep is None:
            self._sweep = asyncio.get_running_loop().call_at(now + IDLE, self._expire)

    def close(self) -> None:
        """Close all."""
        for connection in list(self._resting):
            self._drop(connection)
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None

    def _expire(self) -> None:
        loop = asyncio.get_running_loop()
        self._sweep = None
        while self._resting:
            connection, (_, until) = next(iter(self._resting.items()))
            if until > loop.time():
                self._sweep = loop.call_at(until, self._expire)
                return
            self._drop(connection)

    def _drop(self, connection: Connection) -> None:
        self._forget(connection)
        connection.abort()

    def _forget(self, connection: Connection) -> None:
        found = self._resting.pop(connection, None)
        if found is None:
            return
        key = found[0]
        connection.on_lost = None
        resting = self._by_key[key]
        resting.remove(connection)
        if not resting:
            del self._by_key[key]
