"""The client's side of a proxy: bytes counted, and its leaving noticed at once.

No rule of any proxy lives here.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

from retryscrape.hostile.log import Tunnel
from retryscrape.hostile.wire import End, Request, finish, parse_head

#: One read; also the most that is buffered in each direction. Bytes.
PIECE = 65_536
Begin = Callable[[asyncio.StreamReader, asyncio.StreamWriter], asyncio.Task[None]]


class Client:
    """The client's side of one connection, counted. Fits ``wire.Channel``."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, note: Tunnel):
        self._reader, self._writer, self.note = reader, writer, note

    async def head(self) -> Request | None:
        """The next request's head; None at the end, or if it is no HTTP."""
        try:
            raw = await self._reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError as error:
            self._received(error.partial)
            return None
        except asyncio.LimitOverrunError:
            return None
        self._received(raw)
        return parse_head(raw[:-4])

    async def first(self) -> bytes:
        """Whatever comes first, HTTP or not."""
        data = await self._reader.read(PIECE)
        self._received(data)
        return data

    async def body(self, size: int) -> bytes:
        """So many bytes of a request's body."""
        data = await self._reader.readexactly(size)
        self._received(data)
        return data

    async def pieces(self) -> AsyncIterator[bytes]:
        """Everything from now on."""
        while data := await self._reader.read(PIECE):
            self._received(data)
            yield data

    def _received(self, data: bytes) -> None:
        if not self.note.received:
            self.note.first = data[:80].decode("latin-1")
        self.note.received += len(data)

    def write(self, data: bytes) -> None:
        """Part of ``Channel``."""
        self.note.sent += len(data)
        self._writer.write(data)

    async def drain(self) -> None:
        """Part of ``Channel``."""
        await self._writer.drain()

    async def gone(self) -> None:
        """Part of ``Channel``."""
        async for _ in self.pieces():
            pass

    def end(self, how: End) -> None:
        """Part of ``Channel``."""
        finish(self._writer.transport, how)


class ClientProtocol(asyncio.StreamReaderProtocol):
    """Streams that notice at once when the client leaves, even in the middle of a wait."""

    def __init__(self, begin: Begin) -> None:
        self._work: asyncio.Task[None] | None = None

        def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self._work = begin(reader, writer)

        super().__init__(asyncio.StreamReader(limit=PIECE), connected)

    def eof_received(self) -> bool:
        """No half-closed clients: the transport closes, and ``connection_lost`` follows."""
        super().eof_received()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._work is not None:
            self._work.cancel()
