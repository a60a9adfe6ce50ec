"""A URL's parts as a client needs them: pure text, no sockets."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

_PORTS = {"http": 80, "https": 443, "socks5": 1080, "socks5h": 1080}

_NOT_IN_A_LINE = re.compile(r"[^\x21-\x7e]")


@dataclass(frozen=True, slots=True)
class Address:
    """Where a URL leads: ``host`` has no brackets, ``netloc`` no user, ``target`` no fragment."""

    scheme: str
    host: str
    port: int
    netloc: str
    target: str


def address_of(url: str) -> Address:
    """The parts of an absolute URL. Raises ValueError with a sentence where it has no host."""
    parts = urlsplit(url)
    host = parts.hostname
    if not host:
        raise ValueError("the URL has no host")
    if parts.scheme not in _PORTS:
        raise ValueError(f"no client for {parts.scheme}://")
    port = parts.port or _PORTS[parts.scheme]
    path = parts.path or "/"
    target = f"{path}?{parts.query}" if parts.query else path
    if _NOT_IN_A_LINE.search(target) or _NOT_IN_A_LINE.search(parts.netloc):
        raise ValueError("the URL has characters that must be percent-encoded")
    return Address(parts.scheme, host, port, parts.netloc.rpartition("@")[2], target)


def without_userinfo(url: str) -> str:
    """The URL without user, password and fragment; the same string if it has none."""
    if "@" not in url and "#" not in url:
        return url
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], fragment=""))
