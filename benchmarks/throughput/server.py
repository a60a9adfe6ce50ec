"""The server of the measurements: made to cost little, so that the crawlers are measured.

Says its port; answers until standard input ends. The path says what comes:
``/KILOBYTES/NUMBER`` a page, ``/json/NUMBER`` a record of 1 KB, ``/fault/NUMBER`` a 503
once, then the page, ``/script/NUMBER`` a page of 13 KB that a script makes. Absolute request lines
make it a forwarding proxy of itself.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]

#: Hosts of the workload with many, and the addresses that play the proxies.
HOSTS = [f"127.0.1.{number}" for number in range(1, 201)]
PROXIES = [f"127.0.2.{number}" for number in range(1, 9)]

_HEAD = (
    b"HTTP/1.1 %d OK\r\nServer: bench\r\nDate: Thu, 01 Jan 2026 00:00:00 GMT\r\n"
    b"Content-Type: %b\r\nCache-Control: no-cache\r\nVary: Accept-Encoding\r\n"
    b"Content-Length: %d\r\n\r\n"
)
_PARAGRAPH = b"<p>Some words about number %d, and <a href='/'>a link</a> that leads on.</p>\n"


def _answer(body: bytes, kind: bytes = b"text/html; charset=utf-8", status: int = 200) -> bytes:
    return _HEAD % (status, kind, len(body)) + body


@lru_cache(2048)
def page(kilobytes: int, number: int) -> bytes:
    """A page of its own: another title and other words than its neighbours'."""
    line = _PARAGRAPH % number
    text = line * (kilobytes * 1024 // len(line))
    return _answer(
        b"<!doctype html><html><head><title>Page %d</title></head><body>%b</body></html>"
        % (number, text)
    )


@lru_cache(2048)
def scripted(number: int) -> bytes:
    """Nothing without a browser; in one, the page of 13 KB."""
    line = (_PARAGRAPH % number).strip().decode()
    count = 13 * 1024 // len(_PARAGRAPH % number)
    return _answer(
        f"<!doctype html><html><head><title>Page {number}</title></head><body><div id=app></div>"
        f"<script>app.innerHTML = {json.dumps(line)}.repeat({count}) + 'made by script'</script></body></html>".encode()
    )


@lru_cache(2048)
def record(number: int) -> bytes:
    """A JSON answer of about 1 KB."""
    value = {"id": number, "name": f"Record {number}", "text": "word " * 180}
    return _answer(json.dumps(value).encode(), b"application/json")


class Server(asyncio.Protocol):
    """Answers each request, relative or absolute."""

    _failed: set[bytes] = set()  # noqa: RUF012 -- all connections' own

    def connection_made(self, transport: Any) -> None:
        self.transport, self.rest = transport, b""

    def data_received(self, data: bytes) -> None:
        *heads, self.rest = (self.rest + data).split(b"\r\n\r\n")
        for head in heads:
            self.transport.write(self._reply(head.split(b" ", 2)[1]))

    def _reply(self, target: bytes) -> bytes:
        kind, _, number = target.rpartition(b"/")
        kind = kind.rpartition(b"/")[2]
        if not number.isdigit():  # robots.txt, and what a browser asks for by itself
            return _answer(b"", b"text/plain", 404)
        if kind == b"json":
            return record(int(number))
        if kind == b"script":
            return scripted(int(number))
        if kind == b"fault" and number not in self._failed:
            self._failed.add(number)
            return _answer(b"busy", b"text/plain", 503)
        return page(13 if kind == b"fault" else int(kind), int(number) + 100_000)


@contextmanager
def running(*pinned: str) -> Iterator[int]:
    """The server in a process of its own, started by the command ``pinned`` (``taskset`` and
    the like) if there is one: gives its port."""
    command = [*pinned, sys.executable, "-m", "benchmarks.throughput.server"]
    server = subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert server.stdin is not None
    assert server.stdout is not None
    try:
        yield int(server.stdout.readline())
    finally:
        server.stdin.close()
        server.wait()


async def serve() -> None:
    """On one port of all the addresses, until standard input ends."""
    loop = asyncio.get_running_loop()
    for left in reversed(range(50)):
        first = await loop.create_server(Server, "127.0.0.1", 0)
        port = first.sockets[0].getsockname()[1]
        try:
            await loop.create_server(Server, [*HOSTS, *PROXIES], port)
            break
        except OSError:  # a connection of a moment ago holds the port on one of the addresses
            first.close()
            if not left:
                raise
    print(port, flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(serve())
