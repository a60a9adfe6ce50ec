"""The plain rung's client on asyncio: requests in, responses and faults out.

No library, because none of those tried tells all that must be told apart (whose side,
which step, what the proxy said to CONNECT, bytes on the wire); ``benchmarks/clients.py``
has the figures.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.http import Response

from retryscrape.crawl.clients.base import BYTES, Proxy, build_response
from retryscrape.crawl.clients.connection import Connection, Exchange
from retryscrape.crawl.clients.dial import Dialler, Way, way_of
from retryscrape.crawl.clients.http1 import request_head
from retryscrape.crawl.clients.pool import Pool
from retryscrape.crawl.clients.resolver import Resolver
from retryscrape.crawl.clients.tls import make_context
from retryscrape.crawl.clients.urls import Address, target_of
from retryscrape.crawl.clients.watch import Watch
from retryscrape.crawl.faults import FetchError

#: Asked twice they do no harm (RFC 9110, 9.2.2); others never go over a rested connection.
_REPEATABLE = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})


class AsyncioClient:
    """A :class:`~.base.Client`. Needs a running asyncio loop (Scrapy's asyncio reactor has one)."""

    def __init__(self, crawler: Crawler) -> None:
        settings = crawler.settings
        self._crawler = crawler
        self._bind = _bind_address(settings.get("DOWNLOAD_BIND_ADDRESS"))
        self._fail_on_dataloss = settings.getbool("DOWNLOAD_FAIL_ON_DATALOSS")
        self._resolver = Resolver()
        self._dialler = Dialler(make_context(settings), self._resolver)
        self._pool = Pool(max(64, 2 * settings.getint("CONCURRENT_REQUESTS")))

    async def fetch(
        self,
        request: Request,
        *,
        proxy: Proxy | None,
        timeout: float,  # noqa: ASYNC109 -- the interface of base.Client
        fresh: bool,
        max_size: int,
        warn_size: int,
    ) -> Response:
        """See :meth:`.base.Client.fetch`."""
        deadline = asyncio.get_running_loop().time() + timeout
        request.meta[BYTES] = 0
        address = target_of(request.url)
        bind = _bind_address(request.meta.get("bindaddress")) or self._bind
        way = way_of(address, proxy, bind)
        message = _message(request, address, proxy)
        watch = Watch(self._crawler, request, max_size, warn_size)
        rested = self._pool.take(way) if not fresh and request.method in _REPEATABLE else None
        if rested is not None:
            try:
                return await self._ask(rested, message, request, watch, way, deadline)
            except FetchError as fault:
                # The peer closed it while our request was on its way to it: that is
                # nobody's fault, and a new connection has the answer.
                if fault.reason != "reset" or watch.begun:
                    raise
        connection = await self._dial(request, way, deadline)
        keep = None if fresh else way
        return await self._ask(connection, message, request, watch, keep, deadline)

    async def close(self) -> None:
        """Close the resting connections; those in use end with their fetches."""
        self._pool.close()
        self._resolver.close()

    async def _dial(self, request: Request, way: Way, deadline: float) -> Connection:
        try:
            return await self._dialler.dial(way, deadline)
        except FetchError as fault:
            request.meta[BYTES] += fault.bytes
            raise

    async def _ask(
        self,
        connection: Connection,
        message: bytes,
        request: Request,
        watch: Watch,
        keep: Way | None,
        deadline: float,
    ) -> Response:
        """One exchange; the connection rests afterwards where ``keep`` says for what."""
        before = 0 if connection.fresh else connection.bytes
        exchange = Exchange(request.method, watch)
        late = FetchError("timeout", connection.side, detail="no end of the answer in time")
        timer = asyncio.get_running_loop().call_at(deadline, exchange.fail, late)
        flags = None
        try:
            await connection.perform(message, exchange)
        except FetchError as fault:
            connection.abort()
            if fault.reason != "truncated" or self._must_be_whole(request):
                fault.bytes = connection.bytes - before
                raise
            flags = ["dataloss"]
        except BaseException:
            connection.abort()
            raise
        finally:
            timer.cancel()
            request.meta[BYTES] += connection.bytes - before
        if exchange.partial:
            flags = ["partial"]
        response = _response(request, exchange, connection, flags)
        self._put_back(connection, exchange, keep)
        return watch.final(response)

    def _must_be_whole(self, request: Request) -> bool:
        return bool(request.meta.get("download_fail_on_dataloss", self._fail_on_dataloss))

    def _put_back(self, connection: Connection, exchange: Exchange, keep: Way | None) -> None:
        answer = exchange.answer
        if keep is None or connection.lost or not answer.keep_alive or answer.surplus:
            connection.abort()
        else:
            self._pool.give(keep, connection)


def _response(
    request: Request, exchange: Exchange, connection: Connection, flags: list[str] | None
) -> Response:
    answer = exchange.answer
    return build_response(
        request,
        status=answer.status,
        headers=answer.headers,
        body=answer.body,
        flags=flags,
        protocol=f"HTTP/{answer.version.decode('ascii')}",
        ip_address=connection.peer,
        certificate=connection.certificate,
    )


def _message(request: Request, address: Address, proxy: Proxy | None) -> bytes:
    """The request as it leaves; absolute where a proxy must know where it goes."""
    target, extra = address.target, None
    if proxy is not None and address.scheme == "http":
        target, extra = f"http://{address.netloc}{target}", proxy.authorization
    headers = list(_header_lines(request))
    if extra is not None:
        headers.append((b"Proxy-Authorization", extra))
    body = request.body
    return request_head(request.method, target, address.netloc, headers, body) + body


def _header_lines(request: Request) -> Iterator[tuple[bytes, bytes]]:
    for name, values in request.headers.items():
        if name.lower() != b"proxy-authorization":
            for value in values:
                yield name, value


def _bind_address(value: str | tuple[str, int] | None) -> tuple[str, int] | None:
    """Scrapy's setting and meta key: an address, or one with a port."""
    if not value:
        return None
    return (value, 0) if isinstance(value, str) else (value[0], value[1])
