"""Listeners and the origin's protocol: connections in, replies carried out.

Knows bytes and sockets; what to answer is asked of a function. A listener can go down
and come back on its port, as a host in an outage does.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from retryscrape.hostile.wire import End, Reply, Request, Send, answer, finish, parse_head, perform

#: Longest head and body that are read, bytes.
MAX_HEAD, MAX_BODY = 65_536, 4_000_000
Responder = Callable[[Request], Reply | Coroutine[Any, Any, Reply]]


class Origin(asyncio.Protocol):
    """One client's connection to the origin."""

    def __init__(self, respond: Responder, listener: Listener, greeting: Reply | None = None):
        self._respond, self._listener, self._greeting = respond, listener, greeting
        self._buffer = b""
        self._task: asyncio.Task[None] | None = None
        self._flowing, self._left = asyncio.Event(), asyncio.Event()
        self._flowing.set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._client: str = (transport.get_extra_info("peername") or ("",))[0]
        self._listener.connections.add(transport)
        if self._greeting is not None:
            self._start(self._greeting)

    def connection_lost(self, exc: Exception | None) -> None:
        self._listener.connections.discard(self._transport)
        self._left.set()
        self._flowing.set()
        if self._task is not None:
            self._task.cancel()

    def pause_writing(self) -> None:
        self._flowing.clear()

    def resume_writing(self) -> None:
        self._flowing.set()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        self._serve()

    def _serve(self) -> None:
        """Answer what is complete in the buffer, one request after the other."""
        while self._task is None and self._buffer and not self._transport.is_closing():
            request = self._next()
            if request is None:
                return
            reply = self._respond(request)
            if isinstance(reply, tuple) and len(reply) == 1 and isinstance(reply[0], Send):
                # The way of nearly every page: no task, one write.
                self._write(request, reply[0].data)
            else:
                self._start(reply, request)

    def _next(self) -> Request | None:
        """Take one whole request off the buffer; None if there is none yet."""
        raw, found, rest = self._buffer.partition(b"\r\n\r\n")
        if not found and len(raw) < MAX_HEAD and _maybe_http(raw):
            return None
        request = parse_head(raw) if found else None
        length = request.header("content-length") if request else ""
        if request is None or (length and not (length.isdigit() and int(length) <= MAX_BODY)):
            self._buffer = b""
            self._start(answer("no HTTP that we speak\n", 400, "text/plain", close=True))
            return None
        size = int(length or 0)
        if len(rest) < size:
            return None
        request.body, self._buffer = rest[:size], rest[size:]
        request.client, request.listener = self._client, self._listener.name
        request.secure = self._listener.tls is not None
        return request

    def _write(self, request: Request, data: bytes) -> None:
        if request.method == "HEAD":
            data = data[: data.find(b"\r\n\r\n") + 4]
        self._transport.write(data)
        if request.header("connection").lower() == "close":
            self._transport.close()

    def _start(
        self, reply: Reply | Coroutine[Any, Any, Reply], request: Request | None = None
    ) -> None:
        self._task = asyncio.get_running_loop().create_task(self._perform(reply, request))

    async def _perform(
        self, reply: Reply | Coroutine[Any, Any, Reply], request: Request | None
    ) -> None:
        try:
            acts = reply if isinstance(reply, tuple) else await reply
            again = await perform(acts, self)
        except (ConnectionError, TimeoutError):
            again = False
            self._transport.abort()
        self._task = None
        if again and request is not None and request.header("connection").lower() == "close":
            self._transport.close()
        elif again:
            self._serve()

    def write(self, data: bytes) -> None:
        """Part of ``Channel``."""
        self._transport.write(data)

    async def drain(self) -> None:
        """Part of ``Channel``: wait until the peer has taken enough of it."""
        await self._flowing.wait()
        if self._left.is_set():
            raise ConnectionResetError

    async def gone(self) -> None:
        """Part of ``Channel``: wait until the peer has left."""
        await self._left.wait()

    def end(self, how: End) -> None:
        """Part of ``Channel``."""
        finish(self._transport, how)


def _maybe_http(raw: bytes) -> bool:
    """Whether the beginning of a head may become one (a TLS hello does not)."""
    return raw[:1].isalpha() or not raw.strip()


@dataclass(slots=True, eq=False)
class Listener:
    """A port that can be open, refuse, and open again. ``port`` 0 takes a free one."""

    name: str
    address: str
    factory: Callable[[], asyncio.Protocol]
    port: int = 0
    tls: ssl.SSLContext | None = None
    connections: set[asyncio.BaseTransport] = field(default_factory=set)
    _held: socket.socket | None = None
    _server: asyncio.Server | None = None
    _opening: asyncio.Task[None] | None = None

    def hold(self) -> socket.socket:
        """Keep the port, refuse connections. Raises OSError if it is taken."""
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            # So that the port can be bound again beside its old connections' remains.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind((self.address, self.port))
        except OSError:
            sock.close()
            raise
        sock.setblocking(False)
        self.port = sock.getsockname()[1]
        self._held = sock
        return sock

    async def open(self) -> None:
        """Begin to accept."""
        sock = self._held or self.hold()
        self._held = None
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self.factory, sock=sock, ssl=self.tls, backlog=1024)

    def down(self, seconds: float) -> None:
        """Refuse and drop everything, and come back after so many seconds."""
        self._stop()
        self.hold()
        self._opening = asyncio.get_running_loop().create_task(self._return(seconds))

    async def up(self) -> None:
        """End an outage now."""
        if self._opening is not None:
            self._opening.cancel()
            self._opening = None
        if self._server is None:
            await self.open()

    async def _return(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await self.open()

    def _stop(self) -> None:
        if self._opening is not None:
            self._opening.cancel()
            self._opening = None
        if self._server is not None:
            self._server.close()
            self._server = None
        if self._held is not None:
            self._held.close()
            self._held = None
        for transport in list(self.connections):
            finish(transport, End.RESET)

    def close(self) -> None:
        """Give the port up."""
        self._stop()
