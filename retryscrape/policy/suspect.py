"""The same page under many URLs of a host that should differ: a block page nobody knows yet.

What counts as the same, and how many are too many. Memory is bounded, nothing is fetched.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterable
from hashlib import blake2b

from msgspec import Struct, field

from retryscrape.policy.contents import Content, content_of
from retryscrape.policy.markup import decode
from retryscrape.policy.outcomes import Page
from retryscrape.policy.text import plain_text

#: So many URLs with one page are suspicious. Two or three are everyday: a front page
#: under several names, sold-out products.
SAME = 5
#: Pages that are remembered, the latest seen; URLs that are told apart beyond the first.
PAGES, URLS = 10_000, 50_000
#: Characters of text that are compared (a longer page is told by every byte of it), and
#: that a page must have to be told by them alone.
_TEXT, _ENOUGH = 8_000, 200
_SAMPLE = 160
#: Bodies whose text is kept, in case that the same bytes come again (8 KB each).
_BODIES = 64
#: Suspicious pages that are passed over when one has to be forgotten.
_PATIENCE = 8

# Request ids, addresses, dates and times: what a block page changes each time. Short
# numbers stay, they are what tells real pages apart ("item 7", "page 12").
_VARIES = re.compile(
    r"(?<![0-9a-z])(?:"
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[t ][0-9:.]{5,})?z?|[0-9]{1,3}(?:\.[0-9]{1,3}){3}"
    r"|[0-9a-f][0-9a-f:.\-]{6,}[0-9a-f]|[0-9a-z]{16,})(?![0-9a-z])"
)
_DIGITS = re.compile(r"[0-9]")
#: Length of the shortest text that _VARIES finds: an address like 1.1.1.1.
_SHORTEST = 7
_TITLE = re.compile(rb"<title[^>]{0,200}>([^<]{0,300})", re.IGNORECASE)
_HEAD = 16_384


class Row(Struct, frozen=True, kw_only=True):
    """A row of the ledger: batch and key."""

    batch: str
    url: str


class Suspect(Struct, frozen=True, kw_only=True):
    """A suspicious page: ``urls`` is how many showed it, ``first`` are up to SAME - 1 rows
    that got through before it was noticed, ``text`` is how it begins."""

    host: str
    digest: str
    urls: int
    first: tuple[Row, ...]
    text: str


class _Seen(Struct):
    first: list[Row] = field(default_factory=list)
    urls: int = 0
    text: str = ""
    known: bool = False


def title_of(page: Page) -> str:
    """The title of an HTML page, without what block pages change in it each time."""
    found = _TITLE.search(page.body, 0, _HEAD)
    return _settled(decode(found[1], page.encoding).lower()) if found else ""


def looks_of(page: Page) -> str:
    """What the same page under two URLs shares at first sight, for a hundredth of the cost
    of its text: its title, and how many tags it has."""
    return f"{page.body.count(b'<')} {title_of(page)}"


def body_text(page: Page) -> str | None:
    """What is compared of an HTML page; None for one that is told by every byte."""
    text = plain_text(page.body, page.encoding, limit=_TEXT)
    if len(text) >= _TEXT:
        return None
    # a picture or a script under hardly any text: the markup tells such pages apart
    return text if len(text) >= _ENOUGH else decode(page.body[:_TEXT], page.encoding).lower()


def digest_of(page: Page, text: str | None) -> str:
    """The same for pages that differ in nothing but their own address, ids and times."""
    data = page.body
    if text is not None:
        data = _settled(text.replace(page.url.lower(), "#")).encode("utf-8", "replace")
    return blake2b(data, digest_size=12).hexdigest()


def _settled(text: str) -> str:
    # Word by word: the expression over the whole text takes ten times as long.
    return " ".join(
        word if len(word) < _SHORTEST or word.isalpha() else _VARIES.sub(_masked, word)
        for word in text.split()
    )


def _masked(found: re.Match[str]) -> str:
    return "#" if len(_DIGITS.findall(found[0])) >= 2 else found[0]


class Suspects:
    """Counts pages by host. ``known`` are (host, digest) of pages that earlier runs noticed:
    the first URL that shows one of them is one too many.

    A page's text is looked at only when its title, with as many tags, came before on its
    host: on ordinary sites that is seldom so.
    """

    def __init__(self, known: Iterable[tuple[str, str]] = (), *, pages: int = PAGES) -> None:
        self._pages = pages
        self._seen: OrderedDict[tuple[str, str], _Seen] = OrderedDict()
        #: the row that showed a title first, until it is counted with the second
        self._titles: OrderedDict[tuple[str, str], Row | None] = OrderedDict()
        #: text and digest of the last bodies in which their URL does not stand
        self._bodies: OrderedDict[bytes, tuple[str | None, str]] = OrderedDict()
        self._hosts: set[str] = set()
        self._urls: set[int] = set()
        self.know(known)

    def know(self, known: Iterable[tuple[str, str]]) -> None:
        """Pages that earlier runs noticed."""
        for host, digest in known:
            self._entry((host, digest)).known = True
            self._hosts.add(host)

    def look(self, host: str, row: Row, page: Page) -> int:
        """Take note of a good page; how many URLs of its host have shown it if that is
        suspicious, else 0. Looking twice for one row counts once."""
        html = content_of(page) is Content.HTML
        before = self._titled((host, looks_of(page)), row) if html else None
        if before == row and host not in self._hosts:
            return 0
        text, digest = self._read(page) if html else (None, digest_of(page, None))
        key = (host, digest)
        seen = self._entry(key)
        if before is not None and before != row and not seen.known:
            self._count(seen, key, before)
        self._count(seen, key, row)
        if not seen.text:
            shown = text if text is not None else decode(page.body[:_SAMPLE], page.encoding)
            seen.text = " ".join(shown[:_SAMPLE].split())
        return max(seen.urls, 1) if seen.known or seen.urls >= SAME else 0

    def _read(self, page: Page) -> tuple[str | None, str]:
        """Text and digest; a body that came before to the byte is not read again (a twentieth
        of the time: a block page that nobody knows comes thousands of times)."""
        key = blake2b(page.body, digest_size=16).digest() + (page.encoding or "").encode()
        found = self._bodies.get(key)
        text = body_text(page) if found is None else found[0]
        own = text is not None and page.url.lower() in text
        if found is not None and not own:
            return found
        made = text, digest_of(page, text)
        if not own:
            self._bodies[key] = made
            if len(self._bodies) > _BODIES:
                self._bodies.popitem(last=False)
        return made

    def _titled(self, title: tuple[str, str], row: Row) -> Row | None:
        """The row itself if its title is new, the first row that had it if this is the
        second (their pages are taken to be the same), else None."""
        if title not in self._titles:
            self._titles[title] = row
            if len(self._titles) > self._pages:
                self._titles.popitem(last=False)
            return row
        self._titles.move_to_end(title)
        first = self._titles[title]
        if first is not None and first != row:
            self._titles[title] = None
        return first

    def _count(self, seen: _Seen, key: tuple[str, str], row: Row) -> None:
        if row in seen.first:
            return
        if len(seen.first) < SAME - 1 and not seen.known:
            seen.first.append(row)
            seen.urls += 1
        elif self._new((*key, row)):
            seen.urls += 1

    def found(self) -> list[Suspect]:
        """What is suspicious by now, the most frequent first."""
        listed = [
            Suspect(
                host=host,
                digest=digest,
                urls=seen.urls,
                first=tuple(seen.first),
                text=seen.text,
            )
            for (host, digest), seen in self._seen.items()
            if seen.urls >= SAME or (seen.known and seen.urls)
        ]
        return sorted(listed, key=lambda page: -page.urls)

    def _entry(self, key: tuple[str, str]) -> _Seen:
        seen = self._seen.get(key)
        if seen is None:
            seen = self._seen[key] = _Seen()
            if len(self._seen) > self._pages:
                self._forget()
        else:
            self._seen.move_to_end(key)
        return seen

    def _forget(self) -> None:
        """The page that was not seen for longest; a suspicious one only among many."""
        for _ in range(_PATIENCE):
            key, seen = next(iter(self._seen.items()))
            if seen.urls < SAME and not seen.known:
                break
            self._seen.move_to_end(key)
        self._seen.popitem(last=False)

    def _new(self, showing: tuple[str, str, Row]) -> bool:
        """Whether this URL has not been counted; beyond URLS of them nobody knows."""
        mark = hash(showing)
        if mark in self._urls:
            return False
        if len(self._urls) < URLS:
            self._urls.add(mark)
        return True
