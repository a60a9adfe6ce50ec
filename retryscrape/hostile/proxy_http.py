"""What a proxy reads from a request, how it rewrites it, and what it says for itself. Pure."""

from __future__ import annotations

import base64
import binascii
from contextlib import suppress
from urllib.parse import urlsplit

from retryscrape.hostile.wire import Reply, Request, answer

_HOP = ("proxy-authorization", "proxy-connection")


def decode_basic(header: str) -> str | None:
    """User and password of a Basic header, as UTF-8 or Latin-1; None without one."""
    scheme, _, code = header.partition(" ")
    if scheme.lower() != "basic":
        return None
    with suppress(binascii.Error, ValueError):
        raw = base64.b64decode(code, validate=True)
        try:
            return raw.decode()
        except UnicodeDecodeError:
            return raw.decode("latin-1")
    return header


def target_of(request: Request) -> tuple[str, int]:
    """Host and port that a request is for."""
    try:
        if request.method == "CONNECT":
            parts = urlsplit("//" + request.target)
            return parts.hostname or "", parts.port or 443
        parts = urlsplit(request.target)
        return parts.hostname or request.host, parts.port or 80
    except ValueError:
        return "", 0


def origin_form(request: Request) -> bytes:
    """The request as an origin wants it: path only, without what was for the proxy."""
    parts = urlsplit(request.target)
    target = request.target.partition(parts.netloc)[2] if parts.netloc else request.target
    target = target.partition("#")[0]
    lines = [f"{request.method} {target if target.startswith('/') else '/' + target} HTTP/1.1"]
    lines += [f"{name}: {value}" for name, value in request.pairs if name.lower() not in _HOP]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def is_last(request: Request) -> bool:
    """Whether the client wants the connection closed after this one."""
    return "close" in (request.header("connection") + request.header("proxy-connection")).lower()


def needs_auth() -> Reply:
    """407, and the connection stays open for another try."""
    ask = {"Proxy-Authenticate": 'Basic realm="proxy"'}
    return answer("credentials please\n", 407, "text/plain", ask)


def bad_gateway(why: str) -> Reply:
    """502 with a reason, as a proxy says it."""
    return answer(f"proxy: {why}\n", 502, "text/plain", {"Via": "1.1 hostile"})


def unreachable(why: str, host: str) -> Reply:
    """Why a name led nowhere: ``unknown`` or ``outside`` (see ``names``)."""
    if why == "unknown":
        return bad_gateway(f"could not resolve {host}")
    return answer("proxy: not allowed\n", 403, "text/plain", {"Via": "1.1 hostile"})
