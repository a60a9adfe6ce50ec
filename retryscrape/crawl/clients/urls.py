"""A URL's parts as a client needs them: pure text, no sockets."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import urlsplit

from retryscrape.crawl.faults import At, FetchError

_PORTS = {"http": 80, "https": 443, "socks5": 1080, "socks5h": 1080}
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#\\]*)([^#]*)")
_NOT_IN_A_LINE = re.compile(r"[^\x21-\x7e]")


class Address(NamedTuple):
    """Where a URL leads: ``host`` has no brackets, ``target`` no fragment, ``netloc`` neither
    a user nor the scheme's own port (what browsers say in ``Host``)."""

    scheme: str
    host: str
    port: int
    netloc: str
    target: str


def address_of(url: str) -> Address:
    """The parts of an absolute URL. Raises ValueError with a sentence where it has no host."""
    parts = _URL.match(url)
    if parts is None:
        raise ValueError("the URL has no host")
    scheme, netloc, target = parts.groups()
    if _NOT_IN_A_LINE.search(target):
        raise ValueError("the URL has characters that must be percent-encoded")
    scheme, host, port, netloc = _place(scheme, netloc)
    if not target.startswith("/"):
        target = f"/{target}"
    return Address(scheme, host, port, netloc, target)


def target_of(url: str) -> Address:
    """The parts of a URL to fetch. Raises FetchError ``scheme`` where that cannot be."""
    try:
        address = address_of(url)
    except ValueError as error:
        raise FetchError("scheme", At.TARGET, detail=str(error)) from None
    if address.scheme not in {"http", "https"}:
        raise FetchError("scheme", At.TARGET, detail=f"no client for {address.scheme}")
    return address


def without_userinfo(url: str) -> str:
    """The URL without user, password and fragment; the same string if it has none."""
    url, _, _ = url.partition("#")
    parts = _URL.match(url) if "@" in url else None
    if parts is None or "@" not in parts[2]:
        return url
    return f"{parts[1]}://{parts[2].rpartition('@')[2]}{parts[3]}"


@lru_cache(4096)
def _place(scheme: str, netloc: str) -> tuple[str, str, int, str]:
    """Scheme, host, port and netloc; the same few come again and again."""
    scheme, netloc = scheme.lower(), netloc.rpartition("@")[2]
    if scheme not in _PORTS:
        raise ValueError(f"no client for {scheme}://")
    if _NOT_IN_A_LINE.search(netloc):
        raise ValueError("the URL's host has characters that no host has")
    parts = urlsplit(f"//{netloc}")
    host, port = parts.hostname, parts.port or _PORTS[scheme]
    if not host:
        raise ValueError("the URL has no host")
    netloc = f"[{host}]" if ":" in host else host
    return scheme, host, port, netloc if port == _PORTS[scheme] else f"{netloc}:{port}"
