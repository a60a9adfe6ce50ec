"""Is this string a URL that can be crawled, and what exactly is to be requested?

One function, no exceptions, no network: names are not resolved here, and what
merely *might* not resolve is fine. ``read`` calls it once a line.
"""

from __future__ import annotations

import ipaddress
import re
from typing import NamedTuple
from urllib.parse import unquote

import idna

#: Longest URL in characters; longer ones are damage, not addresses.
MAX_URL = 65_536

#: Nearly every line of a real manifest: printable ASCII, a host so short that no label is too
#: long, a port that needs no second look. The rest goes the slow way, with the same answers.
_PLAIN = re.compile(
    r"https?://([A-Za-z0-9_-][A-Za-z0-9_.-]{0,62})(:[1-9][0-9]{3})?(?:[/?#][!-~]*)?"
)
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)
#: What follows the colon of ``localhost:8000/a``: the colon is a port's, not a scheme's.
_PORT_FOLLOWS = re.compile(r"[0-9]{1,5}(?:[/?#]|$)")
_NEVER_HOSTS = frozenset({"about", "callto", "data", "fax", "javascript", "mailto", "sms", "tel"})
_AUTHORITY = re.compile(r"//([^/?#]*)(.*)", re.DOTALL)
#: URL parsers drop these silently, so that another URL than the line's would be fetched; a
#: NUL ends strings in C libraries. Other controls have an honest percent-encoding.
_DROPPED = re.compile("[\0\t\r\n]")
#: Ignored by UTS 46: two hosts that look the same. They come from copied documents.
_INVISIBLE = re.compile("[\u00ad\u180e\u200b\u2060\ufeff]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_HOST_CHARS = re.compile(r"[a-z0-9_.-]*")
_DOTS = re.compile("[.\u3002\uff0e\uff61]")
_DEFAULT_PORTS = {"http": 80, "https": 443}


class Good(NamedTuple):
    """A crawlable URL (a NamedTuple: three times cheaper to make than a frozen dataclass).

    ``url`` goes to ``scrapy.Request`` as it is: punycode host, no user and
    password (logs show it). ``host`` is the netloc in lower case without
    userinfo and default port. ``userinfo`` is ``user:password`` as written.
    """

    url: str
    host: str
    userinfo: str | None = None

    @property
    def credentials(self) -> tuple[str, str] | None:
        """User and password, percent-decoded, for an ``Authorization: Basic`` header."""
        if self.userinfo is None:
            return None
        user, _, password = self.userinfo.partition(":")
        return unquote(user), unquote(password)


class Bad(NamedTuple):
    """No crawlable URL. ``reason`` is a short phrase without the URL itself."""

    reason: str


def check_url(text: str, default_scheme: str | None = None) -> Good | Bad:
    """Judge a trimmed input string; never raises.

    ``default_scheme`` (``http`` or ``https``) is what ``h.test/a``,
    ``//h.test/a``, ``localhost:8000/a`` and ``www.h.test`` get; without it
    all four are ``Bad("no scheme")``.
    """
    plain = _PLAIN.fullmatch(text)
    if plain is not None and ".." not in plain[1] and len(text) <= MAX_URL:
        host, port = plain.groups()
        return Good(text, (host + port if port else host).lower())
    if len(text) > MAX_URL:
        return Bad("URL over 64 KB")
    if _SURROGATE.search(text):
        return Bad("not UTF-8")
    if _DROPPED.search(text):
        return Bad("control character")
    return _split(text, default_scheme)


def _split(text: str, default_scheme: str | None) -> Good | Bad:
    """Scheme, authority and rest; RFC 3986 order, stricter than ``urlsplit``."""
    found = _SCHEME.fullmatch(text)
    if found is not None and not _is_host_and_port(found):
        scheme, rest = found[1].lower(), found[2]
        if scheme not in _DEFAULT_PORTS:
            return Bad("unsupported scheme")
    elif default_scheme is None:
        return Bad("no scheme" if text else "empty")
    else:
        scheme, rest = default_scheme, text if text.startswith("//") else f"//{text}"
    parts = _AUTHORITY.fullmatch(rest)
    if parts is None:
        return Bad("no host")
    userinfo, at, address = parts[1].rpartition("@")
    place = _place(address, _DEFAULT_PORTS[scheme])
    if isinstance(place, Bad):
        return place
    return Good(f"{scheme}://{place}{parts[2]}", place, userinfo if at else None)


def _is_host_and_port(found: re.Match[str]) -> bool:
    return found[1].lower() not in _NEVER_HOSTS and _PORT_FOLLOWS.match(found[2]) is not None


def _place(address: str, default_port: int) -> str | Bad:
    """``host`` or ``host:port`` in the one form that is compared, paused and counted."""
    if address.startswith("["):
        inner, bracket, rest = address[1:].partition("]")
        if not bracket or not _is_ipv6(inner) or (rest and not rest.startswith(":")):
            return Bad("bad IPv6 address")
        host: str | Bad = f"[{inner.lower()}]"
        port = rest[1:]
    else:
        name, _, port = address.partition(":")
        host = _host(name)
    if isinstance(host, Bad):
        return host
    digits = port.lstrip("0")
    if not port:
        return host
    if not (port.isascii() and port.isdigit()) or not digits or len(digits) > 5:
        return Bad("bad port")
    number = int(digits)
    if number > 65_535:
        return Bad("bad port")
    return host if number == default_port else f"{host}:{number}"


def _is_ipv6(text: str) -> bool:
    # A zone (%eth0) has no meaning on any machine but the writer's.
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return "%" not in text


def _host(name: str) -> str | Bad:
    """Lower-case ASCII host, or why no resolver could ever be asked for it."""
    if not name:
        return Bad("no host")
    if len(name) > 1_000:  # IDNA is quadratic; nothing this long can pass anyway
        return Bad("host name over 253 characters")
    if "%" in name:
        name = unquote(name, errors="replace")
    if _INVISIBLE.search(name):
        return Bad("invisible character in the host name")
    host = name.lower() if name.isascii() else _punycode(name)
    if host is None or not _HOST_CHARS.fullmatch(host):
        return Bad("bad character in the host name")
    labels = host.removesuffix(".").split(".")
    if not all(labels):
        return Bad("empty label in the host name")
    if max(map(len, labels)) > 63:
        return Bad("label of the host name over 63 characters")
    return host if len(host.removesuffix(".")) <= 253 else Bad("host name over 253 characters")


def _punycode(name: str) -> str | None:
    """UTS 46 mapping, then IDNA 2008 a label at a time; None if the mapping forbids it.

    Browsers also take labels that IDNA 2008 does not (emoji, ``ä_b``): those
    get plain punycode, and the resolver has the last word.
    """
    try:
        mapped = idna.uts46_remap(name, std3_rules=False, transitional=False)
        return ".".join(_label(label) for label in _DOTS.split(mapped))
    except (UnicodeError, ValueError, IndexError):
        return None


def _label(label: str) -> str:
    if label.isascii():
        return label
    try:
        return idna.alabel(label).decode("ascii")
    except idna.IDNAError:
        return "xn--" + label.encode("punycode").decode("ascii")
