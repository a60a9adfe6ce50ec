"""Messages between the crawl and the browser's process: pickles, their length before them.

Both ends are ours, of one version, and alone on their socket. What the messages are is
``orders``'.
"""

from __future__ import annotations

import asyncio
import pickle
import socket
import struct
from contextlib import suppress
from typing import Any

_LENGTH = struct.Struct(">Q")
#: Bytes that are taken in before anybody reads them: more than most pages.
_LIMIT = 2**20


class Link:
    """One end."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def open(cls, end: socket.socket) -> Link:
        """Take over a connected socket."""
        return cls(*await asyncio.open_connection(sock=end, limit=_LIMIT))

    def send(self, message: object) -> None:
        """Send it, unless the other end is gone: ``read`` tells of that."""
        if not self._writer.is_closing():
            data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
            self._writer.write(_LENGTH.pack(len(data)))
            self._writer.write(data)

    async def read(self) -> Any:
        """The next message; None when the other end is gone, or has ended its side."""
        try:
            (length,) = _LENGTH.unpack(await self._reader.readexactly(_LENGTH.size))
            return pickle.loads(await self._reader.readexactly(length))  # noqa: S301 - ours
        except (asyncio.IncompleteReadError, OSError):
            return None

    def end(self) -> None:
        """Nothing more will be sent; what comes can still be read."""
        with suppress(OSError):
            self._writer.write_eof()

    async def close(self) -> None:
        """Send what is left, and close."""
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()
