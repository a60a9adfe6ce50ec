"""What a client of the plain rung is, and what all of them share. No sockets here.

A client fetches one request once. It follows no redirect, keeps no cookie, decodes
no body, reads no proxy from the environment and retries nothing that the target
may have seen.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address
from typing import Any, Protocol

from scrapy import Request
from scrapy.http import Headers, Response
from scrapy.responsetypes import responsetypes

#: ``Request.meta`` key: bytes on the wire of this attempt, both ways, headers included.
BYTES = "retryscrape_bytes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Proxy:
    """An exit as a client needs it.

    ``id`` is its redacted name, ``url`` is ``scheme://host:port`` without credentials,
    ``authorization`` the exact value of the ``Proxy-Authorization`` header.
    """

    id: str
    url: str
    authorization: bytes | None = field(default=None, repr=False)


class Client(Protocol):
    """One way of fetching a request."""

    async def fetch(
        self,
        request: Request,
        *,
        proxy: Proxy | None,
        timeout: float,  # noqa: ASYNC109 -- a pooled client times by handle, not by task
        fresh: bool,
        max_size: int,
        warn_size: int,
    ) -> Response:
        """The answer to ``request``, its body as it came.

        ``timeout`` is in seconds and for the whole attempt; ``fresh`` asks for a
        connection of its own; ``max_size`` and ``warn_size`` are in bytes, 0 for none.
        A body whose end only the closed connection told has the flag ``partial``.
        Sets ``request.meta["retryscrape_bytes"]``, also where it fails. Raises
        :class:`~retryscrape.crawl.faults.FetchError` for every fault of the network.
        """
        ...

    async def close(self) -> None:
        """Close every connection. No ``fetch`` may be called afterwards."""
        ...


def build_response(
    request: Request,
    *,
    status: int,
    headers: Headers | Iterable[tuple[bytes, bytes]],
    body: bytes,
    flags: list[str] | None = None,
    protocol: str | None = None,
    ip_address: IPv4Address | IPv6Address | None = None,
    certificate: Any = None,
) -> Response:
    """The response, of the class that Scrapy chooses by headers, URL and body."""
    if not isinstance(headers, Headers):
        headers = scrapy_headers(headers)
    kind = responsetypes.from_args(headers=headers, url=request.url, body=body)
    response = kind(
        url=request.url,
        status=status,
        body=body,
        flags=flags,
        request=request,
        protocol=protocol,
        ip_address=ip_address,
        certificate=certificate,
    )
    # not as an argument: it would be copied, which costs more than all the rest here
    response.headers = headers
    return response


#: Header names as Scrapy spells them. Bounded: a site may make names up.
_SPELLED: dict[bytes, bytes] = {}
_SPELLED_SIZE = 4096


def scrapy_headers(lines: Iterable[tuple[bytes, bytes]]) -> Headers:
    """``Headers(lines)``, in a third of the time: the values are bytes already, and names
    come again. It was the dearest part of a response (a test compares the two)."""
    headers = Headers()
    for name, value in lines:
        spelled = _SPELLED.get(name)
        if spelled is None:
            spelled = name.title()
            if len(_SPELLED) < _SPELLED_SIZE:
                _SPELLED[name] = spelled
        dict.setdefault(headers, spelled, []).append(value)
    return headers
