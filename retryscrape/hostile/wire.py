"""HTTP/1.1 as bytes: requests read, replies written as a list of acts.

A scenario says what happens on the wire as values (send, wait, cut ...); nothing here
knows scenarios, and nothing but ``perform`` touches a connection.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from http import HTTPStatus
from typing import Any, Protocol
from urllib.parse import parse_qsl

#: No misbehaviour outlives this: a test that forgets a hanging connection still ends. Seconds.
PATIENCE = 120.0
HTML = "text/html; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Send:
    """Write these bytes."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Wait:
    """Do nothing for so many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Drip:
    """Write ``data`` in pieces of ``size`` bytes, one ``every`` so many seconds."""

    data: bytes
    size: int
    every: float


@dataclass(frozen=True, slots=True)
class Flood:
    """Write ``data`` over and over until the peer leaves."""

    data: bytes


class End(Enum):
    """How a connection ends; a reply without one keeps it alive."""

    CLOSE = "close"
    RESET = "reset"
    HANG = "hang"


Act = Send | Wait | Drip | Flood | End
Reply = tuple[Act, ...]


class Channel(Protocol):
    """What ``perform`` needs of a connection."""

    def write(self, data: bytes) -> None: ...
    async def drain(self) -> None: ...
    async def gone(self) -> None: ...
    def end(self, how: End) -> None: ...


@dataclass(kw_only=True)
class Request:
    """One request as it arrived. ``client`` is the peer's address, ``raw`` the head's bytes."""

    method: str
    target: str
    raw: bytes
    client: str = ""
    listener: str = ""
    secure: bool = False
    body: bytes = b""
    params: dict[str, str] = field(default_factory=dict)

    @cached_property
    def path(self) -> str:
        """The path without the query, as sent."""
        return self.target.partition("?")[0]

    @cached_property
    def pairs(self) -> list[tuple[str, str]]:
        """All header fields as sent, in order."""
        lines = self.raw.decode("latin-1").split("\r\n")[1:]
        fields = (line.partition(":") for line in lines if line)
        return [(name, value.strip()) for name, _, value in fields]

    @cached_property
    def headers(self) -> dict[str, str]:
        """Header values by lower-case name (the last of repeated ones)."""
        return {name.lower(): value for name, value in self.pairs}

    @cached_property
    def host(self) -> str:
        """The host's name in lower case, without the port."""
        name = self.headers.get("host", "").lower()
        return name.rpartition(":")[0] if name[-1:].isdigit() and ":" in name else name

    @cached_property
    def cookies(self) -> dict[str, str]:
        """Cookies by name."""
        crumbs = (crumb.strip().partition("=") for crumb in self.header("cookie").split(";"))
        return {name: value for name, _, value in crumbs if name}

    def header(self, name: str) -> str:
        """The value of a header, or ``""``."""
        return self.headers.get(name, "")


def parse_head(raw: bytes) -> Request | None:
    """Read a request's head (without its blank line); None if it is no HTTP."""
    line, _, _ = raw.partition(b"\r\n")
    parts = line.decode("latin-1").split(" ")
    if len(parts) != 3 or not parts[2].startswith("HTTP/1."):
        return None
    request = Request(method=parts[0], target=parts[1], raw=raw)
    if "?" in request.target:
        query = request.target.partition("?")[2]
        request.params = dict(parse_qsl(query, keep_blank_values=True))
    return request


def head(status: int, headers: Iterable[tuple[str, str]], reason: str | None = None) -> bytes:
    """The bytes of a response's head, blank line included."""
    lines = [f"HTTP/1.1 {status} {phrase(status) if reason is None else reason}"]
    lines += [f"{name}: {value}" for name, value in headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1", "replace")


def phrase(status: int) -> str:
    """The usual reason phrase; ``Odd`` for a status that has none."""
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Odd"


def answer(
    body: bytes | str = b"",
    status: int = 200,
    kind: str | None = HTML,
    headers: Mapping[str, str] | Iterable[tuple[str, str]] = (),
    *,
    close: bool = False,
    reason: str | None = None,
) -> Reply:
    """An ordinary, correctly framed reply. ``kind`` is the content type, None for none."""
    data = body.encode() if isinstance(body, str) else body
    fields = [("Content-Type", kind)] if kind is not None else []
    fields += headers.items() if isinstance(headers, Mapping) else headers
    if status >= 200 and status not in (204, 304):
        fields.append(("Content-Length", str(len(data))))
    if close:
        fields.append(("Connection", "close"))
    sent = Send(head(status, fields, reason) + data)
    return (sent, End.CLOSE) if close else (sent,)


async def perform(reply: Reply, channel: Channel) -> bool:
    """Carry a reply out; whether the connection may serve another request."""
    for act in reply:
        match act:
            case Send(data):
                channel.write(data)
                await channel.drain()
            case Wait(seconds):
                await asyncio.sleep(min(seconds, PATIENCE))
            case Drip(data, size, every):
                for start in range(0, len(data), size):
                    channel.write(data[start : start + size])
                    await asyncio.sleep(every)
            case Flood(data):
                await _flood(data, channel)
                return False
            case End.HANG:
                await _patiently(channel)
                return False
            case End():
                channel.end(act)
                return False
    return True


async def _flood(data: bytes, channel: Channel) -> None:
    """Write until the peer leaves (``drain`` raises then) or patience ends."""
    async with asyncio.timeout(PATIENCE):
        while True:
            channel.write(data)
            # The loop must run, or nobody learns that the peer has left.
            await asyncio.sleep(0)
            await channel.drain()


async def _patiently(channel: Channel) -> None:
    try:
        async with asyncio.timeout(PATIENCE):
            await channel.gone()
    except TimeoutError:
        channel.end(End.CLOSE)


def finish(transport: asyncio.BaseTransport, how: End) -> None:
    """Close a transport after what was written; or at once, with a TCP reset."""
    if how is not End.RESET:
        transport.close()
        return
    sock: Any = transport.get_extra_info("socket")
    if sock is not None and sock.fileno() >= 0:
        # Linger of zero seconds is what makes the kernel send RST and not FIN.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    if isinstance(transport, asyncio.WriteTransport):
        transport.abort()
