"""What a signature can say: the types that the tables beside this file are made of.

No vendor is named here. ``match.py`` knows what the fields mean.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from msgspec import Struct

from retryscrape.policy.outcomes import Kind

CHALLENGE, DENIAL, CAPTCHA, CONSENT = Kind.CHALLENGE, Kind.DENIAL, Kind.CAPTCHA, Kind.CONSENT

#: Visible characters below which a page is little more than its marker, and a denial with
#: its explanation (Cloudflare's and Distil's have some 800).
FEW = 1000
#: And those of a page that is nothing but a script.
NONE = 60


class Statuses(Struct, frozen=True, kw_only=True):
    """The statuses that a signature counts on; both empty: any."""

    least: int = 0
    only: frozenset[int] = frozenset()

    def __contains__(self, status: int) -> bool:
        return status in self.only if self.only else status >= self.least


ANY = Statuses()
FINE = Statuses(only=frozenset(range(200, 300)))
ERROR = Statuses(least=400)
FORBIDDEN = Statuses(only=frozenset({403}))
AUTH = Statuses(only=frozenset({401, 403}))
BUSY = Statuses(only=frozenset({403, 429, 503}))
CLIENT = Statuses(only=frozenset({400, 401, 403, 404, 405, 406, 418, 428, 429}))
DENIED = Statuses(only=frozenset({403, 405, 406, 429, 501, 503}))


class Header(NamedTuple):
    """A header that is evidence: its name (a pattern as of ``fnmatch``) and its value."""

    name: str
    value: str
    vendor: str
    kind: Kind | None
    row: str
    status: Statuses = ANY


class Body(Struct, frozen=True, kw_only=True):
    """A page that is evidence.

    All of ``has`` (lower-case bytes) must be in the page's head part; ``script`` asks
    that the first of them stands inside a script, ``pattern`` must be found too,
    ``visible`` must be among the words that a reader sees, ``headers`` (name pattern,
    value) must match,
    ``titles`` must have the page's title, and fewer than ``few`` characters be visible.
    ``large`` ones count however much text the page has; others that name no ``few`` are
    looked for on good answers only where little is visible: no vendor serves them otherwise.
    """

    vendor: str | None
    kind: Kind | None
    row: str
    has: tuple[bytes, ...]
    script: bool = False
    pattern: re.Pattern[bytes] | None = None
    visible: tuple[str, ...] = ()
    headers: tuple[tuple[str, str], ...] = ()
    titles: frozenset[str] = frozenset()
    few: int | None = None
    large: bool = False
    status: Statuses = ANY


def pattern(pattern: bytes) -> re.Pattern[bytes]:
    return re.compile(pattern, re.IGNORECASE | re.DOTALL)


def element(name: bytes) -> re.Pattern[bytes]:
    """An element with this id, class or name, in any spelling of the attribute."""
    return pattern(
        rb"<[^<>]{0,400}?(?<![\w-])(?:id|class|name)\s*=\s*[\"']?(?:[^\"'<>]{0,100}[\s\"'])?"
        + name
        + rb"(?![\w-])"
    )


class Title(NamedTuple):
    """What a title says. ``strong`` ones count on any status, others on an error only."""

    vendor: str | None
    kind: Kind
    row: str
    strong: bool = False


class Wall(NamedTuple):
    """An address that is evidence, as a redirect's target or as the page's own."""

    pattern: re.Pattern[str]
    vendor: str
    kind: Kind
    row: str
    evidence: str
