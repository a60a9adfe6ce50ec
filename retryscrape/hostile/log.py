"""What arrived: every request at the origin, every connection at a proxy, kept for questions.

In memory, bounded; the request log also as JSON lines in a file.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TextIO

from retryscrape.hostile.wire import Request

#: Entries kept in memory; a benchmark of a million pages must not fill it.
KEEP = 50_000


@dataclass(slots=True)
class Entry:
    """One request: when (monotonic and epoch seconds), and what."""

    at: float
    epoch: float
    request: Request

    def plain(self) -> dict[str, Any]:
        """As JSON can say it."""
        request = self.request
        return {
            "time": self.at,
            "epoch": self.epoch,
            "client": request.client,
            "listener": request.listener,
            "method": request.method,
            "host": request.host,
            "path": request.target,
            "headers": request.pairs,
            "body": request.body.decode("utf-8", "replace"),
        }


@dataclass(slots=True)
class RequestLog:
    """All requests; ``file`` takes them as JSON lines too."""

    file: Path | None = None
    entries: deque[Entry] = field(default_factory=lambda: deque(maxlen=KEEP))
    total: int = 0
    _out: TextIO | None = None

    def add(self, request: Request) -> None:
        """Write down a request that arrived just now."""
        entry = Entry(time.monotonic(), time.time(), request)
        self.entries.append(entry)
        self.total += 1
        if self.file is not None:
            if self._out is None:
                # Line buffered: whoever reads the file while we serve sees whole lines.
                self._out = self.file.open("a", encoding="utf-8", buffering=1)
            self._out.write(json.dumps(entry.plain()) + "\n")

    def find(
        self,
        host: str | None = None,
        path: str | None = None,
        client: str | None = None,
        listener: str | None = None,
    ) -> list[dict[str, Any]]:
        """Matching requests, oldest first.

        ``path`` is compared with path and query; one that ends in ``*`` is a prefix.
        """
        return [entry.plain() for entry in self._matching(host, path, client, listener)]

    def _matching(
        self, host: str | None, path: str | None, client: str | None, listener: str | None
    ) -> Iterator[Entry]:
        for entry in self.entries:
            request = entry.request
            if (
                (host is None or request.host == host)
                and (client is None or request.client == client)
                and (listener is None or request.listener == listener)
                and (path is None or _same(request.target, path))
            ):
                yield entry

    def clear(self) -> None:
        """Forget the past (the file keeps it)."""
        self.entries.clear()
        self.total = 0

    def close(self) -> None:
        """Close the file."""
        if self._out is not None:
            self._out.close()
            self._out = None


def _same(target: str, wanted: str) -> bool:
    return target.startswith(wanted[:-1]) if wanted.endswith("*") else target == wanted


@dataclass(slots=True, kw_only=True)
class Tunnel:
    """One client connection of a proxy, with the bytes of its client's socket.

    ``received`` and ``sent`` are counted from the proxy's side; ``exit`` is the address
    that targets saw; ``requests`` holds method, target and the credentials as decoded.
    ``first`` is the first bytes that arrived.
    """

    proxy: str
    client: str
    exit: str
    at: float = field(default_factory=time.monotonic)
    closed: float | None = None
    received: int = 0
    sent: int = 0
    first: str = ""
    requests: list[dict[str, str | None]] = field(default_factory=list)

    def plain(self) -> dict[str, Any]:
        """As JSON can say it."""
        return asdict(self)
