"""Names to addresses: looked up in threads of its own, remembered for a minute."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections import OrderedDict
from contextlib import suppress

#: Seconds, and names. The system's call does not tell how long an answer holds.
KEEP, SIZE = 60.0, 10_000
#: A lookup of a dead name takes 5 to 40 s. asyncio's own pool has 6 threads on 2 cores, and
#: six such names would hold up every other host.
AT_ONCE = 32

Addresses = tuple[str, ...]


class Resolver:
    """``lookup`` gives IPv4 addresses first, as Scrapy uses only those by default: an IPv6
    address without a way to it is commoner than a host without IPv4."""

    def __init__(self) -> None:
        self._room = asyncio.Semaphore(AT_ONCE)
        self._known: OrderedDict[str, tuple[float, Addresses]] = OrderedDict()
        self._asked: dict[str, asyncio.Task[Addresses]] = {}

    async def lookup(self, host: str) -> Addresses:
        """The host's addresses. Raises OSError or UnicodeError where it has none."""
        known = self._known.get(host)
        if known is not None and known[0] > asyncio.get_running_loop().time():
            return known[1]
        asked = self._asked.get(host)
        if asked is None:
            asked = self._asked[host] = asyncio.ensure_future(self._ask(host))
            asked.add_done_callback(lambda done: self._learn(host, done))
        return await asyncio.shield(asked)

    def close(self) -> None:
        """Wait for nobody: what is under way ends by itself, or with the process."""
        for asked in self._asked.values():
            asked.cancel()

    async def _ask(self, host: str) -> Addresses:
        async with self._room:
            answer: asyncio.Future[Addresses] = asyncio.get_running_loop().create_future()
            # A daemon: a pool's threads are waited for when Python ends, and a stop has
            # no 40 s for a name that nobody needs any more.
            threading.Thread(
                target=_answer, args=(host, answer), name=f"dns {host}", daemon=True
            ).start()
            return await answer

    def _learn(self, host: str, done: asyncio.Task[Addresses]) -> None:
        self._asked.pop(host, None)
        if done.cancelled() or done.exception() is not None:
            return
        self._known[host] = (done.get_loop().time() + KEEP, done.result())
        self._known.move_to_end(host)
        if len(self._known) > SIZE:
            self._known.popitem(last=False)


def _answer(host: str, answer: asyncio.Future[Addresses]) -> None:
    """In a thread: look up, and tell the loop, which may have ended meanwhile."""
    found: Addresses | Exception
    try:
        found = _addresses(host)
    except (OSError, UnicodeError) as error:
        found = error
    with suppress(RuntimeError):
        answer.get_loop().call_soon_threadsafe(_settle, answer, found)


def _settle(answer: asyncio.Future[Addresses], found: Addresses | Exception) -> None:
    if answer.done():
        return
    if isinstance(found, Exception):
        answer.set_exception(found)
    else:
        answer.set_result(found)


def _addresses(host: str) -> Addresses:
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    found.sort(key=lambda entry: entry[0] is not socket.AF_INET)
    return tuple(dict.fromkeys(str(entry[4][0]) for entry in found))
