"""Scrapy's own HTTP/1.1 handler as a client: its errors become ours by a table.

What it cannot do, and :mod:`.asyncio_client` can (measured on Scrapy 2.19): a proxy
that closes during CONNECT is noticed only when the timeout is over; bytes are counted
without TLS and chunk framing; SOCKS and ``https://`` proxies are refused; the
names of response headers lose their order.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from OpenSSL import SSL
from scrapy import Request, exceptions
from scrapy.core.downloader.handlers.http11 import HTTP11DownloadHandler, TunnelError
from scrapy.crawler import Crawler
from scrapy.http import Headers, Response
from service_identity import VerificationError
from twisted.internet import error as tx_errors
from twisted.web._newclient import ParseError

from retryscrape.crawl.clients.base import BYTES, Proxy
from retryscrape.crawl.clients.urls import target_of, without_userinfo
from retryscrape.crawl.faults import At, FetchError

#: By class, first match wins, over the exception, its cause and what they collect.
#: Nearest to the wire first: "connection lost" is also said where TLS failed.
_REASONS: Mapping[type[BaseException], str] = {
    exceptions.DownloadCancelledError: "too_large",
    exceptions.ResponseDataLossError: "truncated",
    SSL.Error: "tls",
    VerificationError: "tls",
    ParseError: "decode",
    exceptions.CannotResolveHostError: "dns",
    exceptions.DownloadConnectionRefusedError: "connect",
    exceptions.UnsupportedURLSchemeError: "scheme",
    UnicodeError: "dns",
    # Before DownloadTimeoutError, which wraps it: the connection was never made.
    tx_errors.TimeoutError: "connect",
    exceptions.DownloadTimeoutError: "timeout",
    tx_errors.ConnectError: "connect",
    tx_errors.ConnectionDone: "reset",
    tx_errors.ConnectionLost: "reset",
    exceptions.DownloadFailedError: "reset",
}

#: With a proxy set, the handler itself looks up and connects to nothing but the proxy.
_OF_THE_PROXY = frozenset({"dns", "connect"})

_TUNNEL_STATUS = re.compile(r"'status': (\d{3})")


class Http11Client:
    """A :class:`~.base.Client` over :class:`HTTP11DownloadHandler`. Needs a reactor."""

    def __init__(self, crawler: Crawler) -> None:
        self._pooled = HTTP11DownloadHandler(crawler)
        self._fresh = HTTP11DownloadHandler(crawler)
        # There is no public way to ask for a new connection. A pool that keeps none
        # gives one each time (and asks the peer to close it).
        self._fresh._pool.persistent = False

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
        """See :meth:`.base.Client.fetch`; the exceptions are named above."""
        target_of(request.url)  # the handler raises a ValueError of its own kind for each
        _refuse_schemes(proxy)
        sent = _as_handler_wants(request, proxy, timeout, max_size, warn_size)
        handler = self._fresh if fresh else self._pooled
        request.meta[BYTES] = size = _request_size(sent)
        try:
            response = await handler.download_request(sent)
        except Exception as error:
            fault = _fault(error, proxy, size)
            if fault is None:
                raise
            raise fault from None
        request.meta["download_latency"] = sent.meta.get("download_latency", 0.0)
        request.meta[BYTES] = size + _response_size(response)
        return response if response.url == request.url else response.replace(url=request.url)

    async def close(self) -> None:
        """Close the connections of both pools."""
        await self._pooled.close()
        await self._fresh.close()


def _refuse_schemes(proxy: Proxy | None) -> None:
    """The handler would speak HTTP to a SOCKS port, and plainly to a TLS one."""
    scheme = proxy.url.partition("://")[0].lower() if proxy else "http"
    if scheme != "http":
        detail = f"the http11 client cannot use {scheme}:// proxies"
        raise FetchError("unavailable", At.PROXY, detail=detail)


def _as_handler_wants(
    request: Request, proxy: Proxy | None, timeout: float, max_size: int, warn_size: int
) -> Request:
    """A copy: the handler reads all its parameters from meta and headers."""
    sent = request.replace(url=without_userinfo(request.url))
    sent.meta.update(
        proxy=proxy.url if proxy else None,
        download_timeout=timeout,
        download_maxsize=max_size,
        download_warnsize=warn_size,
    )
    sent.headers.pop(b"Proxy-Authorization", None)
    if proxy and proxy.authorization:
        sent.headers[b"Proxy-Authorization"] = proxy.authorization
    return sent


def _fault(error: Exception, proxy: Proxy | None, size: int) -> FetchError | None:
    """The error in our words; None for what is no fault of the network."""
    if isinstance(error, TunnelError):
        status = _TUNNEL_STATUS.search(str(error))
        reason = "connect" if status else "decode"
        code = int(status[1]) if status else None
        return FetchError(reason, At.PROXY, status=code, detail="CONNECT refused", bytes=size)
    seen = list(_causes(error))
    for kind, reason in _REASONS.items():
        if found := next((one for one in seen if isinstance(one, kind)), None):
            detail = f"{type(found).__name__}: {found}"[:200]
            return FetchError(reason, _side(reason, proxy), detail=detail, bytes=size)
    return None


def _side(reason: str, proxy: Proxy | None) -> At:
    if proxy is None or reason == "too_large":
        return At.TARGET
    return At.PROXY if reason in _OF_THE_PROXY else At.UNKNOWN


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """The exception, its causes, and what Twisted's collecting ones hold."""
    while error is not None:
        yield error
        for failure in getattr(error, "reasons", None) or ():
            yield from _causes(getattr(failure, "value", None))
        error = error.__cause__


def _request_size(request: Request) -> int:
    return len(request.url) + len(" HTTP/1.1\r\n") + _size(request.headers) + len(request.body)


def _response_size(response: Response) -> int:
    return len("HTTP/1.1 200 OK\r\n") + _size(response.headers) + len(response.body)


def _size(headers: Headers) -> int:
    lines = sum(len(name) + len(value) + 4 for name, values in headers.items() for value in values)
    return lines + 2
