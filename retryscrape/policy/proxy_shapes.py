"""The shapes in which proxies are written down: one entry's text in, its parts out.

``host:port``, ``user:pass@host:port``, ``host:port:user:pass``, ``user:pass:host:port``,
``host:port@user:pass``. No files, schemes or attributes here (proxies.py).
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

SHAPES = "expected host:port, with user:password@ before it or :user:password after it"

_HOST = r"\[[^\[\]]*\]|[^:\[\]@/\s]+"
_HOST_PORT = re.compile(rf"({_HOST}):([0-9]+)", re.ASCII)
_HOST_FIRST = re.compile(rf"({_HOST}):([0-9]+):([^:]*)(?::(.*))?", re.ASCII | re.DOTALL)
_HOST_LAST = re.compile(rf"([^:]*):(.*):({_HOST}):([0-9]+)", re.ASCII | re.DOTALL)
_LABEL = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")


class Address(NamedTuple):
    """A valid address. ``sure`` says how much the host looks like one: 3 an IP address
    or localhost, 2 a dotted name, 1 a single word that could be a user name as well."""

    host: str
    port: int
    sure: int


class Parts(NamedTuple):
    """An entry taken apart. ``written`` is the userinfo as it stood there."""

    host: str
    port: int
    username: str | None
    password: str
    written: str


def take_apart(entry: str) -> Parts | str:
    """The parts of an entry without its scheme, or a sentence saying what is wrong.

    User and password may hold any character; percent-escapes are decoded in
    every shape (a literal ``%41`` is written ``%2541``). Where two readings are
    possible the one whose host looks more like a host wins, the first shape on a tie.
    """
    readings = list(_readings(entry))
    if not readings:
        return _what_is_wrong(entry)
    address, user, password, written = max(readings, key=lambda reading: reading[0].sure)
    if user is None or (not user and not password):
        return Parts(address.host, address.port, None, "", "")
    username, secret = _decoded(user), _decoded(password)
    if ":" in username:
        return "a user name cannot hold a colon"
    if any(ord(letter) < 32 or ord(letter) == 127 for letter in username + secret):
        return "the credentials hold a control character"
    return Parts(address.host, address.port, username, secret, written)


_Reading = tuple[Address, str | None, str, str]


def _readings(entry: str) -> Iterator[_Reading]:
    """Every way to read the entry, in the order of preference."""
    userinfo, at, rest = entry.rpartition("@")
    end = _address(rest)
    if end and at:
        user, _, password = userinfo.partition(":")
        yield end, user, password, userinfo
    elif end:
        yield end, None, "", ""
    # An IP address and a port in front are no user name and password, whatever follows.
    first = _HOST_FIRST.fullmatch(entry)
    start = first and _address(f"{first[1]}:{first[2]}")
    if first and start and (not (at and end) or start.sure == 3):
        written = entry[first.end(2) + 1 :]
        yield start, first[3], first[4] or "", written
    if not (at and end):
        yield from _host_last(entry)
    left, _, right = entry.partition("@")
    swapped = _address(left)
    if at and swapped and (not end or swapped.sure == 3):
        user, _, password = right.partition(":")
        yield swapped, user, password, right


def _host_last(entry: str) -> Iterator[_Reading]:
    last = _HOST_LAST.fullmatch(entry)
    address = last and _address(f"{last[3]}:{last[4]}")
    if last and address:
        yield address, last[1], last[2], entry[: last.end(2)]


def _address(text: str) -> Address | None:
    match = _HOST_PORT.fullmatch(text.rstrip("/,"))
    if not match or not 1 <= int(match[2][:6]) <= 65535 or len(match[2]) > 5:
        return None
    host = _host(match[1])
    return host and Address(host[0], int(match[2]), host[1])


def _host(text: str) -> tuple[str, int] | None:
    """A host as it is connected to, and how sure it is one; None if it is impossible."""
    if text.startswith("["):
        try:
            return str(ipaddress.IPv6Address(text[1:-1])), 3
        except ValueError:
            return None
    try:
        name = text.rstrip(".").encode("idna").decode() if not text.isascii() else text.rstrip(".")
    except UnicodeError:
        return None
    labels = name.lower().split(".")
    if len(name) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        return None
    if labels[-1].isdigit():
        try:
            return str(ipaddress.IPv4Address(name)), 3
        except ValueError:
            return None
    sure = 3 if labels == ["localhost"] else 2 if len(labels) > 1 else 1
    return ".".join(labels), sure


def _decoded(text: str) -> str:
    """Percent-escapes decoded; text that would not be UTF-8 then was meant as it stands."""
    try:
        return unquote_to_bytes(text).decode()
    except UnicodeError:
        return text


def _what_is_wrong(entry: str) -> str:
    """A sentence without any of the entry's content: it may hold a password."""
    rest = entry.rpartition("@")[2]
    if rest.count(":") > 1 and re.fullmatch(r"[0-9A-Fa-f:.]+", rest) and "::" in rest:
        return "an IPv6 address needs brackets, [::1]:8080"
    match = re.fullmatch(rf"({_HOST})(:[0-9]*)?", rest)
    if match is None:
        return SHAPES
    if _host(match[1]) is None:
        return "the host is no valid name or address"
    if not match[2] or match[2] == ":":
        return "the port is missing"
    return "the port is not between 1 and 65535"
