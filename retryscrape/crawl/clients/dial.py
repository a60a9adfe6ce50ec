"""A new connection: to the target, or to the proxy and through it.

Which step fails says on whose side the fault is. The lookup and the connection to a
proxy, and its answer to CONNECT, are the proxy's; what happens behind it may be either's.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import os
import socket
import ssl
from typing import NamedTuple

from retryscrape.crawl.clients.base import Proxy
from retryscrape.crawl.clients.connection import Connection, Exchange
from retryscrape.crawl.clients.http1 import request_head
from retryscrape.crawl.clients.resolver import Resolver
from retryscrape.crawl.clients.urls import Address, address_of
from retryscrape.crawl.faults import At, FetchError

#: Seconds for the TCP connection. Undici allows 10; Linux repeats its SYN after 1, 3 and 7.
CONNECT = 10.0
#: Errors of this machine, which are nobody else's fault.
_OURS = frozenset({errno.EMFILE, errno.ENFILE, errno.EADDRNOTAVAIL, errno.EADDRINUSE})
_PROXY_SCHEMES = frozenset({"http", "https"})


class Way(NamedTuple):
    """How a request leaves: connections of equal ways can stand in for each other."""

    scheme: str
    host: str
    port: int
    proxy: str | None
    authorization: bytes | None
    bind: tuple[str, int] | None


def way_of(address: Address, proxy: Proxy | None, bind: tuple[str, int] | None) -> Way:
    """The way to an address."""
    url = proxy.url if proxy else None
    authorization = proxy.authorization if proxy else None
    if url and address.scheme == "http":
        # told in each request where it goes: one connection to the proxy serves all hosts
        return Way("http", "", 0, url, authorization, bind)
    return Way(address.scheme, address.host, address.port, url, authorization, bind)


class Dialler:
    """Opens connections; keeps none."""

    def __init__(self, context: ssl.SSLContext, resolver: Resolver) -> None:
        self._context, self._resolver = context, resolver

    async def dial(self, way: Way, deadline: float) -> Connection:
        """A connection on which a request to the target can be sent, by ``deadline`` (the
        loop's time). Raises FetchError."""
        first = _proxy_address(way.proxy) if way.proxy else None
        connection = Connection(At.PROXY if first else At.TARGET)
        host, port = (first.host, first.port) if first else (way.host, way.port)
        addresses = await self._lookup(host, connection.side, deadline)
        await _connect(connection, addresses, port, way, deadline)
        try:
            async with asyncio.timeout_at(deadline):
                await self._prepare(connection, way, first)
        except TimeoutError:
            connection.abort()
            side = At.UNKNOWN if first else At.TARGET
            detail = "no tunnel or TLS in time"
            raise FetchError("timeout", side, detail=detail, bytes=connection.bytes) from None
        except BaseException:
            connection.abort()
            raise
        return connection

    async def _prepare(self, connection: Connection, way: Way, first: Address | None) -> None:
        """TLS to the proxy, the tunnel, TLS to the target: as many as there are."""
        early = b""
        if first is not None:
            if first.scheme == "https":
                await connection.start_tls(self._context, first.host)
            if way.scheme == "https":
                early = await _tunnel(connection, way)
            connection.side = At.UNKNOWN
        if way.scheme == "https":
            await connection.start_tls(self._context, way.host, early)

    async def _lookup(self, host: str, side: At, deadline: float) -> tuple[str, ...]:
        if _is_address(host):
            return (host,)
        try:
            async with asyncio.timeout_at(_within(CONNECT, deadline)):
                return await self._resolver.lookup(host)
        except TimeoutError:
            raise FetchError("dns", side, detail="no answer in time") from None
        except (OSError, UnicodeError) as error:
            raise FetchError("dns", side, detail=_said(error)) from None


async def _connect(
    connection: Connection, addresses: tuple[str, ...], port: int, way: Way, deadline: float
) -> None:
    side = connection.side
    try:
        await _first_that_answers(connection, addresses, port, way, deadline)
    except TimeoutError:
        raise FetchError("connect", side, detail="no connection in time") from None
    except OSError as error:
        side = At.UNKNOWN if error.errno in _OURS else side
        raise FetchError("connect", side, detail=_said(error)) from None


async def _first_that_answers(
    connection: Connection, addresses: tuple[str, ...], port: int, way: Way, deadline: float
) -> None:
    """Each address in its turn, none longer than its part of the time."""
    loop = asyncio.get_running_loop()
    for left in range(len(addresses), 0, -1):
        try:
            async with asyncio.timeout_at(_within(CONNECT / len(addresses), deadline)):
                await loop.create_connection(
                    lambda: connection, addresses[-left], port, local_addr=way.bind
                )
            return
        except OSError:  # TimeoutError is one
            if left == 1:
                raise


def _within(seconds: float, deadline: float) -> float:
    return min(deadline, asyncio.get_running_loop().time() + seconds)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


async def _tunnel(connection: Connection, way: Way) -> bytes:
    """Ask the proxy for a tunnel; what it sent after its yes."""
    host = f"[{way.host}]" if ":" in way.host else way.host
    where = f"{host}:{way.port}"
    headers = [(b"Proxy-Authorization", way.authorization)] if way.authorization else []
    exchange = Exchange("CONNECT")
    await connection.perform(request_head("CONNECT", where, where, headers, b""), exchange)
    answer = exchange.answer
    if not 200 <= answer.status < 300:
        detail = "the proxy refused the tunnel"
        raise FetchError(
            "connect", At.PROXY, status=answer.status, detail=detail, bytes=connection.bytes
        )
    connection.fresh = True
    return answer.surplus


def _proxy_address(url: str) -> Address:
    try:
        address = address_of(url)
    except ValueError:
        raise FetchError("unavailable", At.PROXY, detail="the proxy's URL has no host") from None
    if address.scheme not in _PROXY_SCHEMES:
        detail = f"no {address.scheme} proxies on this rung"
        raise FetchError("unavailable", At.PROXY, detail=detail)
    return address


def _said(error: OSError | UnicodeError) -> str:
    """The system's words, without an address in them."""
    if isinstance(error, UnicodeError):
        return "the host's name is none"
    if isinstance(error, socket.gaierror) or error.errno is None:
        return error.strerror or type(error).__name__
    return os.strerror(error.errno)
