"""One connection: bytes counted at the wire, layers of TLS, one exchange at a time.

It knows nothing of proxies, pools or Scrapy: whoever drives it says on whose
``side`` a fault would be now.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any

from retryscrape.crawl.clients.http1 import Answer, End
from retryscrape.crawl.clients.tls import Tls
from retryscrape.crawl.faults import At, FetchError


class Exchange:
    """A request that is under way: its answer, and who waits for it.

    ``watch`` is called after each piece of the answer from its head on; it raises
    FetchError to give up, and returns True to leave the rest unread.
    """

    __slots__ = ("answer", "done", "partial", "watch")

    def __init__(self, method: str, watch: Callable[[Answer], bool] | None = None) -> None:
        self.answer = Answer(method)
        self.watch = watch
        self.partial = False
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def take(self, data: bytes) -> None:
        answer = self.answer
        answer.feed(data)
        if answer.headed and self.watch is not None and not answer.bad and self.watch(answer):
            answer.keep_alive = False
            self.finish()
        elif answer.done:
            self.finish()

    def finish(self) -> None:
        if not self.done.done():
            self.done.set_result(None)

    def fail(self, fault: FetchError) -> None:
        if not self.done.done():
            self.done.set_exception(fault)


class Connection(asyncio.Protocol):
    """``bytes`` counts both directions; ``lost`` is set when nothing can be sent any more."""

    def __init__(self, side: At) -> None:
        self.side = side
        self.bytes = 0
        self.lost = False
        self.fresh = True
        self.on_lost: Callable[[Connection], None] | None = None
        self._layers: list[Tls] = []
        self._handshake: asyncio.Future[None] | None = None
        self._exchange: Exchange | None = None
        self._transport: asyncio.Transport | None = None
        self._peer: IPv4Address | IPv6Address | None = None
        self._certificate: bytes | None = None

    async def start_tls(self, context: ssl.SSLContext, host: str, early: bytes = b"") -> None:
        """Put a layer of TLS on top. Raises FetchError ``tls`` or ``reset``."""
        self._handshake = asyncio.get_running_loop().create_future()
        try:
            layer = Tls(context, host)
        except ValueError:
            raise self._fault("dns", "the host's name is none") from None
        self._layers.append(layer)
        self._incoming(early, len(self._layers) - 1)
        if self.lost:
            self._fail("reset", "closed before the TLS handshake")
        await self._handshake
        self._handshake = None
        self._certificate = layer.certificate()

    async def perform(self, data: bytes, exchange: Exchange) -> None:
        """Send a request, and wait for the end of its answer. Raises FetchError."""
        self._exchange = exchange
        if self.lost:
            self._fail("reset", "the connection was closed")
        else:
            self._send(data, len(self._layers))
        try:
            await exchange.done
        finally:
            self._exchange = None
            self.fresh = False

    @property
    def peer(self) -> IPv4Address | IPv6Address | None:
        """The address at the other end (the proxy's where there is one)."""
        if self._peer is None and self._transport is not None:
            name = self._transport.get_extra_info("peername")
            self._peer = ip_address(name[0].partition("%")[0]) if name else None
        return self._peer

    @property
    def certificate(self) -> bytes | None:
        """The certificate of the outermost host, DER; None without TLS."""
        return self._certificate

    def abort(self) -> None:
        """Close now, and say no goodbye."""
        self.lost = True
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: Any) -> None:
        """asyncio's: the connection is there."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """asyncio's: bytes of the wire."""
        self.bytes += len(data)
        self._incoming(data, 0)

    def connection_lost(self, exc: Exception | None) -> None:
        """asyncio's: the peer closed (no ``exc``), or reset."""
        self.lost = True
        self._ended(clean=exc is None)
        if self.on_lost is not None:
            self.on_lost(self)

    def _incoming(self, data: bytes, first: int) -> None:
        """Bytes for the layer at ``first`` and those above it, then for the exchange."""
        for index in range(first, len(self._layers)):
            layer = self._layers[index]
            try:
                data = layer.feed(data)
            except ssl.SSLError as error:
                self._pass_on(layer, index)
                self._fail("tls", _sentence(error))
                return
            self._pass_on(layer, index)
            if layer is self._layers[-1] and layer.ready and self._handshake is not None:
                _resolve(self._handshake)
            if not data:
                if layer.closed:
                    self._ended(clean=True)
                return
        if data:
            self._deliver(data)
        if self._layers and self._layers[-1].closed:
            self._ended(clean=True)

    def _deliver(self, data: bytes) -> None:
        exchange = self._exchange
        if exchange is None:
            # nothing was asked: a server that talks now is about to close, or confused
            self.abort()
            return
        try:
            exchange.take(data)
        except FetchError as fault:
            exchange.fail(fault)
            self.abort()
            return
        if exchange.answer.bad:
            self._fail("decode", exchange.answer.bad)

    def _pass_on(self, layer: Tls, index: int) -> None:
        data = layer.outgoing()
        if data:
            self._send(data, index)

    def _send(self, data: bytes, above: int) -> None:
        """Through the layers below ``above``, and out."""
        try:
            for layer in reversed(self._layers[:above]):
                layer.send(data)
                data = layer.outgoing()
        except ssl.SSLError as error:
            self._fail("tls", _sentence(error))
            return
        self.bytes += len(data)
        if self._transport is not None and not self.lost:
            self._transport.write(data)

    def _ended(self, *, clean: bool) -> None:
        self.lost = True
        if self._handshake is not None:
            self._fail("reset", "closed during the TLS handshake")
        exchange = self._exchange
        if exchange is None:
            self.abort()
            return
        end = exchange.answer.eof(clean=clean)
        exchange.partial = end is End.PARTIAL
        if end is End.NOTHING:
            self._fail("reset", "closed without an answer" if clean else "reset by the peer")
        elif end is End.TRUNCATED:
            self._fail("truncated", f"closed after {exchange.answer.size} bytes of the body")
        else:
            exchange.finish()

    def _fail(self, reason: str, detail: str) -> None:
        fault = self._fault(reason, detail)
        if self._handshake is not None and not self._handshake.done():
            self._handshake.set_exception(fault)
        if self._exchange is not None:
            self._exchange.fail(fault)
        self.abort()

    def _fault(self, reason: str, detail: str) -> FetchError:
        return FetchError(reason, self.side, detail=detail, bytes=self.bytes)


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _sentence(error: ssl.SSLError) -> str:
    """What OpenSSL says, without its file and line."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate: {error.verify_message}"
    return (error.reason or "TLS failed").lower().replace("_", " ")
