"""Chromium's ``net::`` errors as our own faults: one table (probes.md, part B). Pure."""

from __future__ import annotations

import re

from retryscrape.crawl.faults import At, FetchError

TOO_MANY_REDIRECTS = "ERR_TOO_MANY_REDIRECTS"
ABORTED = "ERR_ABORTED"
#: A login is wanted, by an exit or by the target.
LOGIN_WANTED = "ERR_INVALID_AUTH_CREDENTIALS"
#: Chromium's word for an answer >= 400 without a body; behind a proxy also for a refused tunnel.
EMPTY_ANSWER = "ERR_HTTP_RESPONSE_CODE_FAILURE"

_NAME = re.compile(r"(?:net::)?(ERR_[A-Z0-9_]+)")

#: First match wins. The name's beginning, reason, side, and the proxy's status where it is known.
_TABLE: tuple[tuple[str, str, At, int | None], ...] = (
    (LOGIN_WANTED, "connect", At.PROXY, 407),
    ("ERR_UNEXPECTED_PROXY_AUTH", "connect", At.PROXY, 407),
    ("ERR_PROXY_AUTH", "connect", At.PROXY, 407),
    (EMPTY_ANSWER, "connect", At.PROXY, 407),
    ("ERR_PROXY_CERTIFICATE", "tls", At.PROXY, None),
    ("ERR_PROXY", "connect", At.PROXY, None),
    ("ERR_SOCKS_CONNECTION_HOST_UNREACHABLE", "connect", At.UNKNOWN, None),
    ("ERR_SOCKS", "connect", At.PROXY, None),
    ("ERR_MANDATORY_PROXY", "connect", At.PROXY, None),
    ("ERR_NO_SUPPORTED_PROXIES", "scheme", At.PROXY, None),
    # the tunnel's status is not told; the proxy may as well have failed to reach the target
    ("ERR_TUNNEL_CONNECTION_FAILED", "connect", At.UNKNOWN, None),
    ("ERR_NAME_", "dns", At.TARGET, None),
    ("ERR_DNS_", "dns", At.TARGET, None),
    ("ERR_CONNECTION_REFUSED", "connect", At.TARGET, None),
    ("ERR_CONNECTION_FAILED", "connect", At.TARGET, None),
    ("ERR_ADDRESS_", "connect", At.TARGET, None),
    ("ERR_INTERNET_DISCONNECTED", "connect", At.TARGET, None),
    ("ERR_CONNECTION_TIMED_OUT", "timeout", At.UNKNOWN, None),
    ("ERR_TIMED_OUT", "timeout", At.UNKNOWN, None),
    ("ERR_CERT", "tls", At.UNKNOWN, None),
    ("ERR_SSL", "tls", At.UNKNOWN, None),
    ("ERR_BAD_SSL", "tls", At.UNKNOWN, None),
    ("ERR_CONTENT_LENGTH_MISMATCH", "truncated", At.UNKNOWN, None),
    ("ERR_INCOMPLETE_CHUNKED_ENCODING", "truncated", At.UNKNOWN, None),
    ("ERR_CONTENT_DECODING", "decode", At.UNKNOWN, None),
    ("ERR_UNSAFE_PORT", "scheme", At.TARGET, None),
    ("ERR_UNKNOWN_URL_SCHEME", "scheme", At.TARGET, None),
    ("ERR_DISALLOWED_URL_SCHEME", "scheme", At.TARGET, None),
    ("ERR_INVALID_URL", "scheme", At.TARGET, None),
    ("ERR_UNSAFE_REDIRECT", "scheme", At.TARGET, None),
)


def name_of(text: str) -> str:
    """``ERR_...`` out of an error's text, or ``""``."""
    found = _NAME.search(text)
    return found.group(1) if found else ""


def fault_of(text: str, *, bytes: int = 0) -> FetchError:
    """The fault that a navigation's error text stands for; what no row names is a reset."""
    name = name_of(text)
    for prefix, reason, at, status in _TABLE:
        if name.startswith(prefix):
            return FetchError(reason, at, status=status, detail=f"net::{name}", bytes=bytes)
    detail = f"net::{name}" if name else "the navigation failed"
    return FetchError("reset", At.UNKNOWN, detail=detail, bytes=bytes)
