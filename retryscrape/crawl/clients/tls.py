"""One layer of TLS over bytes: what arrives goes in, what is to be sent comes out. No sockets.

Not asyncio's own, because the bytes on the wire are counted below it (a proxy's
provider bills them), and because a layer can lie in another one (``https://`` proxies).
"""

from __future__ import annotations

import ssl
from contextlib import suppress

from scrapy.settings import BaseSettings
from scrapy.utils.ssl import _make_ssl_context

_PIECE = 256 * 1024


class Tls:
    """The client's side. ``ready`` after the handshake, ``closed`` after the peer's goodbye.

    Raises :class:`ssl.SSLError` where the peer is none to talk to.
    """

    def __init__(self, context: ssl.SSLContext, host: str) -> None:
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._object = context.wrap_bio(self._in, self._out, server_hostname=host)
        self.ready = self.closed = False

    def feed(self, data: bytes) -> bytes:
        """Take bytes of the wire; the plain ones that could be read. ``b""`` begins."""
        self._in.write(data)
        if not self.ready:
            try:
                self._object.do_handshake()
            except ssl.SSLWantReadError:
                return b""
            self.ready = True
        pieces = []
        with suppress(ssl.SSLWantReadError):
            while piece := self._read():
                pieces.append(piece)
        return b"".join(pieces)

    def send(self, plain: bytes) -> None:
        """Encrypt; what it makes is in :meth:`outgoing`."""
        self._object.write(plain)

    def outgoing(self) -> bytes:
        """What is to be sent now; empty if nothing is."""
        return self._out.read() if self._out.pending else b""

    def certificate(self) -> bytes | None:
        """The peer's certificate, DER."""
        return self._object.getpeercert(binary_form=True)

    def _read(self) -> bytes:
        try:
            piece = self._object.read(_PIECE)
        except ssl.SSLZeroReturnError:
            piece = b""
        self.closed = not piece
        return piece


def make_context(settings: BaseSettings) -> ssl.SSLContext:
    """The context that Scrapy's ``DOWNLOAD_VERIFY_CERTIFICATES``, ``DOWNLOAD_TLS_*`` and
    ``DOWNLOADER_CLIENT_TLS_CIPHERS`` ask for; it offers HTTP/1.1 only."""
    context = _make_ssl_context(settings)
    context.set_alpn_protocols(["http/1.1"])
    # ssl.OP_LEGACY_SERVER_CONNECT (named since 3.12): old servers, as Scrapy's own handler
    context.options |= 0x4
    return context
