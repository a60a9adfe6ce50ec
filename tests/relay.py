"""A relay on loopback in front of the PostgreSQL of the tests, for connections that are lost.

``postgres_relay`` gives a ``Relay``: its URL has a password, and ``cut`` loses what is
connected and refuses what comes, until ``mend``.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest
from sqlalchemy import URL, make_url

__all__ = ["PASSWORD", "Relay", "postgres_relay"]

#: In the URL as it must be written there: what no output may show, in either form.
PASSWORD = "s3cret/Pa ss"


class Relay:
    """One relay, with a loop of its own in a thread."""

    def __init__(self, server: str) -> None:
        self._to = make_url(server)
        self._loop = asyncio.new_event_loop()
        self._open: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port: int = free.getsockname()[1]
        #: what the server calls the connections that come through here
        self.name = f"relay{self._port}"
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.mend()

    @property
    def url(self) -> str:
        query = {name: value for name, value in self._to.query.items() if name != "host"}
        query["application_name"] = self.name
        there = URL.create(
            "postgresql",
            self._to.username,
            self._to.password or PASSWORD,
            "127.0.0.1",
            self._port,
            self._to.database,
            query,
        )
        return there.render_as_string(hide_password=False)

    def cut(self) -> None:
        """Lose every connection, and take none."""
        self._do(self._cut())

    def mend(self) -> None:
        """Take connections (again)."""
        self._do(self._mend())

    def close(self) -> None:
        self.cut()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _do(self, work) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    async def _mend(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port)

    async def _cut(self) -> None:
        if self._server is not None:
            self._server.close()
        for writer in list(self._open):
            writer.transport.abort()
        self._open.clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        folder = self._to.query.get("host")
        if folder:
            path = f"{folder}/.s.PGSQL.{self._to.port or 5432}"
            there = await asyncio.open_unix_connection(path)
        else:
            there = await asyncio.open_connection(self._to.host, self._to.port or 5432)
        self._open |= {writer, there[1]}
        await asyncio.gather(_pass_on(reader, there[1]), _pass_on(there[0], writer))
        self._open -= {writer, there[1]}


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


@pytest.fixture
def postgres_relay(postgres_url: str) -> Iterator[Relay]:
    relay = Relay(postgres_url)
    yield relay
    relay.close()
