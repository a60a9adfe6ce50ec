"""Forwarding proxies on loopback, each leaving from an address of its own.

Absolute-form http and CONNECT. What a kind does wrong is data (``proxy_kinds``); how a
request is read and rewritten is in ``proxy_http``.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from contextlib import suppress
from urllib.parse import quote
from zlib import crc32

from retryscrape.hostile.framing import Framing
from retryscrape.hostile.log import Tunnel
from retryscrape.hostile.names import Names
from retryscrape.hostile.proxy_client import PIECE, Client, ClientProtocol
from retryscrape.hostile.proxy_http import (
    bad_gateway,
    decode_basic,
    is_last,
    needs_auth,
    origin_form,
    target_of,
    unreachable,
)
from retryscrape.hostile.proxy_kinds import INJECTED, ProxySpec
from retryscrape.hostile.server import Listener
from retryscrape.hostile.wire import End, Reply, Request, perform

_TUNNELLED = b"HTTP/1.1 200 Connection established\r\n\r\n"
#: Seconds to connect to a target.
_CONNECT = 10.0
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Proxy:
    """One proxy at work. ``source`` is the address that it leaves from."""

    def __init__(self, spec: ProxySpec, names: Names, source: str, log: deque[Tunnel]) -> None:
        self.spec, self.source = spec, source
        self._kind, self._names, self._log = spec.behaviour(), names, log
        self._served = self._connections = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self.listener = Listener(f"proxy:{spec.name}", "127.0.0.1", self._protocol)

    async def start(self) -> None:
        """Take a port, and listen on it unless the proxy is dead."""
        self.listener.hold()
        if self._kind.listens:
            await self.listener.open()

    async def close(self) -> None:
        """End all connections."""
        self.listener.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def reset(self) -> None:
        """As new: alive again, nothing counted."""
        self._served = self._connections = 0
        if self._kind.listens:
            await self.listener.up()

    @property
    def url(self) -> str:
        """The proxy as a line of a proxies file, credentials percent-encoded."""
        user, password = quote(self.spec.user, safe=""), quote(self.spec.password, safe="")
        pair = f"{user}:{password}@" if self.spec.user or self.spec.password else ""
        return f"http://{pair}127.0.0.1:{self.listener.port}"

    def _protocol(self) -> asyncio.Protocol:
        return ClientProtocol(self.begin)

    def begin(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> asyncio.Task[None]:
        """Serve a connection in a task, which ends when its client leaves."""
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One client's connection, whatever becomes of it."""
        note = Tunnel(
            proxy=self.spec.name, client=writer.get_extra_info("peername")[0], exit=self._exit()
        )
        self._log.append(note)
        self.listener.connections.add(writer.transport)
        client = Client(reader, writer, note)
        try:
            await self._talk(client)
            client.end(End.CLOSE)
        except (ConnectionError, TimeoutError, asyncio.IncompleteReadError):
            client.end(End.RESET)
        finally:
            note.closed = time.monotonic()
            self.listener.connections.discard(writer.transport)
            if not writer.is_closing():
                writer.transport.abort()

    def _exit(self, user: str | None = None) -> str:
        """The address that the next connection leaves from."""
        if self._kind.exits == "connection":
            self._connections += 1
            number = self._connections
        elif self._kind.exits == "user" and user is not None:
            number = crc32(user.encode()) % 60_000
        else:
            return self.source
        return f"127.0.{2 + number // 250 % 250}.{1 + number % 250}"

    async def _talk(self, client: Client) -> None:
        kind = self._kind
        if kind.greets is not None:
            await perform(kind.greets, client)
            return
        if self.spec.kind == "socks":
            await client.first()
            await perform(kind.answers or (), client)
            return
        upstream: dict[tuple[str, int], Streams] = {}
        try:
            while (request := await client.head()) is not None:
                if not await self._one(request, client, upstream):
                    return
        finally:
            for _, writer in upstream.values():
                writer.transport.abort()

    async def _one(
        self, request: Request, client: Client, upstream: dict[tuple[str, int], Streams]
    ) -> bool:
        """One request; whether the connection goes on."""
        user = self._note(request, client)
        if self._kind.exits == "user":
            client.note.exit = self._exit(user)
        tunnel = request.method == "CONNECT"
        reply = self._instead(request, tunnel)
        if reply is None and self._kind.delay:
            await asyncio.sleep(self._kind.delay)
        if reply is not None:
            await _body(request, client)
            return await perform(reply, client)
        if self._worn_out():
            client.end(End.RESET)
            return False
        host, port = target_of(request)
        address = self._names.find(host, port)
        if isinstance(address, str):
            return await perform(unreachable(address, host), client)
        if tunnel:
            await self._tunnel(client, address)
            return False
        return await self._forward(request, client, address, upstream)

    def _note(self, request: Request, client: Client) -> str:
        """Write the request down; the user's name."""
        given = decode_basic(request.header("proxy-authorization"))
        client.note.requests.append(
            {"method": request.method, "target": request.target, "credentials": given}
        )
        return (given or "").partition(":")[0]

    def _instead(self, request: Request, tunnel: bool) -> Reply | None:
        """What is answered instead of forwarding, if anything."""
        kind, spec = self._kind, self.spec
        given = decode_basic(request.header("proxy-authorization"))
        wanted = f"{spec.user}:{spec.password}"
        if kind.auth and (not kind.accepts or given != wanted):
            return needs_auth()
        if kind.injects and target_of(request)[0] in spec.hosts:
            return INJECTED if not tunnel else unreachable("outside", "blocked here")
        return (kind.tunnels or kind.answers) if tunnel else kind.answers

    def _worn_out(self) -> bool:
        """Count a request; after the last one the port refuses, for a while or for good."""
        if self._kind.dies is None:
            return False
        self._served += 1
        if self._served <= self._kind.dies:
            return False
        self._served = 0
        self.listener.down(self._kind.recovers or 1e9)
        return True

    async def _open(self, client: Client, address: tuple[str, int]) -> Streams | None:
        """A connection to the target; None, and 502 said, if there is none."""
        local = (client.note.exit, 0)
        try:
            async with asyncio.timeout(_CONNECT):
                return await asyncio.open_connection(*address, local_addr=local, limit=PIECE)
        except OSError:
            await perform(bad_gateway("could not connect"), client)
            return None

    async def _tunnel(self, client: Client, address: tuple[str, int]) -> None:
        streams = await self._open(client, address)
        if streams is None:
            return
        reader, writer = streams
        client.write(_TUNNELLED)
        up = asyncio.get_running_loop().create_task(_pump(client, writer))
        try:
            await self._pass_on(reader, client, None)
        finally:
            up.cancel()
            await asyncio.gather(up, return_exceptions=True)
            writer.transport.abort()

    async def _forward(
        self,
        request: Request,
        client: Client,
        address: tuple[str, int],
        upstream: dict[tuple[str, int], Streams],
    ) -> bool:
        """Send the request on and its answer back; whether the connection may be used again."""
        streams = upstream.pop(address, None)
        if streams is None or streams[0].at_eof():
            streams = await self._open(client, address)
        if streams is None:
            return True
        reader, writer = streams
        framing = Framing(request.method)
        try:
            writer.write(origin_form(request) + await _body(request, client))
            await self._pass_on(reader, client, framing)
        except BaseException:
            writer.transport.abort()
            raise
        if framing.done and not reader.at_eof():
            upstream[address] = streams
        else:
            writer.transport.abort()
        return framing.done and not is_last(request)

    async def _pass_on(
        self, reader: asyncio.StreamReader, client: Client, framing: Framing | None
    ) -> None:
        """Carry an answer to the client, until it ends or is cut. A reset is passed on as one."""
        left = self._kind.cut
        while data := await reader.read(PIECE):
            if left is not None:
                data, left = data[:left], left - len(data)
            client.write(data)
            await client.drain()
            if left is not None and left <= 0:
                return
            if framing is not None:
                framing.feed(data)
                if framing.done:
                    return


async def _body(request: Request, client: Client) -> bytes:
    """The request's body, read."""
    size = request.header("content-length")
    return await client.body(int(size)) if size.isdigit() else b""


async def _pump(client: Client, writer: asyncio.StreamWriter) -> None:
    """Carry what the client says to the target."""
    async for data in client.pieces():
        writer.write(data)
        await writer.drain()
    with suppress(OSError, RuntimeError):
        writer.write_eof()
