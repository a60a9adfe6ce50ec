"""Names to addresses: looked up in threads of its own, remembered for a minute."""

from __future__ import annotations

import asyncio
import socket
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor

#: Seconds, and names. The system's call does not tell how long an answer holds.
KEEP, SIZE = 60.0, 10_000
#: A lookup of a dead name takes 5 to 40 s. asyncio's own pool has 6 threads on 2 cores, and
#: six such names would hold up every other host.
THREADS = 32


class Resolver:
    """``lookup`` gives IPv4 addresses first, as Scrapy uses only those by default: an IPv6
    address without a way to it is commoner than a host without IPv4."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="retryscrape-dns")
        self._known: OrderedDict[str, tuple[float, tuple[str, ...]]] = OrderedDict()
        self._asked: dict[str, asyncio.Future[tuple[str, ...]]] = {}

    async def lookup(self, host: str) -> tuple[str, ...]:
        """The host's addresses. Raises OSError or UnicodeError where it has none."""
        loop = asyncio.get_running_loop()
        known = self._known.get(host)
        if known is not None and known[0] > loop.time():
            return known[1]
        asked = self._asked.get(host)
        if asked is None:
            asked = loop.run_in_executor(self._threads, _addresses, host)
            self._asked[host] = asked
            asked.add_done_callback(lambda done: self._learn(host, done))
        return await asyncio.shield(asked)

    def close(self) -> None:
        """Take no more; what is under way ends by itself."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _learn(self, host: str, done: asyncio.Future[tuple[str, ...]]) -> None:
        self._asked.pop(host, None)
        if done.cancelled() or done.exception() is not None:
            return
        self._known[host] = (done.get_loop().time() + KEEP, done.result())
        self._known.move_to_end(host)
        if len(self._known) > SIZE:
            self._known.popitem(last=False)


def _addresses(host: str) -> tuple[str, ...]:
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    found.sort(key=lambda entry: entry[0] is not socket.AF_INET)
    return tuple(dict.fromkeys(str(entry[4][0]) for entry in found))
