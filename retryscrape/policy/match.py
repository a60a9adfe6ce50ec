"""Finds the signature that a page matches: what the fields of ``signatures`` mean.

In the order of DESIGN.md section 5.1: headers, body markers, titles. Work is bounded:
a page's head part is looked at, once in lower case, and each regular expression runs
only where its plain words were found.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from functools import cached_property

from msgspec import Struct

from retryscrape.policy import signatures as data
from retryscrape.policy.markup import as_utf8
from retryscrape.policy.outcomes import Kind, Page
from retryscrape.policy.text import plain_text, visible_text
from retryscrape.policy.titles import title_of

#: Bytes of a page that are looked at. A challenge's marker stands in its head; block
#: pages that hide behind their styles (Reddit: 100 KB) come as errors.
PREFIX, ERROR_PREFIX = 128 * 1024, 512 * 1024


class Match(Struct, frozen=True):
    """What was found: ``vendor``, ``kind``, and the evidence as a short machine word."""

    vendor: str | None
    kind: Kind | None
    evidence: str
    reason: str


class Look:
    """A page under examination; what is costly is worked out once, when it is asked for."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.status = page.status
        self._words: dict[bytes, bool] = {}
        size = ERROR_PREFIX if page.status >= 400 else PREFIX
        self.body, self.encoding = as_utf8(page.body[:size], page.encoding, size)

    @cached_property
    def lower(self) -> bytes:
        """The head part in ASCII lower case."""
        return self.body.lower()

    @cached_property
    def title(self) -> str | None:
        """The normalised title."""
        return title_of(self.page.body, self.page.encoding)

    @cached_property
    def words(self) -> str:
        """What a reader sees, in lower case."""
        return plain_text(self.body, self.encoding, limit=20_000)

    @property
    def full(self) -> bool:
        """Whether as much is visible as on an ordinary page."""
        return self.seen >= data.FEW

    @cached_property
    def seen(self) -> int:
        """Visible characters, counted no further than any signature asks."""
        return visible_text(self.page.body, self.page.encoding, enough=data.FEW)

    def fewer_than(self, few: int) -> bool:
        """Whether fewer characters than ``few`` are visible."""
        if few <= data.FEW or not self.full:
            return self.seen < few
        return visible_text(self.page.body, self.page.encoding, enough=few) < few

    def has(self, word: bytes) -> bool:
        """Whether the head part has ``word``, which is in lower case."""
        found = self._words.get(word)
        if found is None:
            found = word in self.lower or (b" " in word and self._reads(word))
            self._words[word] = found
        return found

    def _reads(self, phrase: bytes) -> bool:
        """Whether a reader sees ``phrase``, which lines, tags or entities part in the source."""
        return (self.status >= 400 or not self.full) and phrase.decode() in self.words


def header_match(look: Look) -> Match | None:
    """The first decisive header."""
    for name, values in look.page.headers.items():
        rows = _BY_NAME.get(name)
        if rows is None:
            if not name.startswith(_BEGINNINGS):
                continue
            rows = [row for row in _PATTERNED if fnmatchcase(name, row.name)]
        for row in rows:
            if look.status not in row.status:
                continue
            for value in values:
                if _VALUES[row.value].fullmatch(value.strip()):
                    shown = f"{name}: {value[:60]}"
                    return _match(look, row.vendor, row.kind, f"header:{name}", shown)
    return None


def body_match(look: Look, rows: Iterable[data.Body]) -> Match | None:
    """The first decisive body marker."""
    for row in rows:
        if _may(look, row) and all(map(look.has, row.has)) and _whole(look, row):
            word = row.has[0].decode()
            return _match(look, row.vendor, row.kind, f"body:{word}", f"the page has {word!r}")
    return None


def _may(look: Look, row: data.Body) -> bool:
    """What costs nothing, or was worked out before: most rows end here on a good page."""
    if look.status not in row.status or (row.titles and look.title not in row.titles):
        return False
    if row.few is None:
        return row.large or look.status >= 400 or not look.full
    return row.few > data.FEW or look.fewer_than(row.few)


def _whole(look: Look, row: data.Body) -> bool:
    """Whether the rest of a row matches too, where its words were found."""
    if row.headers and not all(_has_header(look.page, *pair) for pair in row.headers):
        return False
    if row.pattern is not None and row.pattern.search(look.body) is None:
        return False
    if row.script and not _in_script(look.lower, row.has[0]):
        return False
    if row.few is not None and not look.fewer_than(row.few):
        return False
    return all(phrase in look.words for phrase in row.visible)


def title_match(look: Look) -> Match | None:
    """A title: exact ones on any status, weaker ones on an error."""
    title = look.title
    if not title:
        return None
    found = data.TITLES.get(title)
    if found is None or not (found.strong or look.status >= 400):
        found = _weaker(title, look.status)
    if found is None or (found.vendor is None and look.status == 401):  # F7: it is a 401
        return None
    vendor = found.vendor or _beside(look.page)
    return _match(look, vendor, found.kind, f"title:{title[:80]}", f"titled {title[:80]!r}")


def _weaker(title: str, status: int) -> data.Title | None:
    if status < 400:
        return None
    if 400 <= status < 500 and title in data.NOT_ON_5XX:
        return data.NOT_ON_5XX[title]
    return next((row for part, row in data.TITLE_PARTS if part in title), None)


def _beside(page: Page) -> str | None:
    """The vendor whose header stands beside a title that names none."""
    for name, pattern, vendor in data.TITLE_SIGNS:
        if _has_header(page, name, pattern):
            return vendor
    return None


def wall_match(address: str, evidence: str) -> Match | None:
    """An address that is a vendor's wall."""
    for wall in data.WALLS:
        if wall.pattern.search(address):
            return Match(
                wall.vendor,
                wall.kind,
                f"{evidence}:{wall.evidence}",
                f"{wall.vendor} wall ({wall.evidence})",
            )
    return None


def _match(look: Look, vendor: str | None, kind: Kind | None, evidence: str, shown: str) -> Match:
    for pattern, narrowed in data.KINDS.get(vendor or "", ()):
        if kind is None and pattern.search(look.body):
            kind = narrowed
    what = {None: "block page", Kind.CHALLENGE: "challenge", Kind.DENIAL: "denial"}
    name = f"{vendor} {what.get(kind, kind)}" if vendor else str(what.get(kind, kind))
    return Match(vendor, kind, evidence, f"{name} ({shown})")


def _has_header(page: Page, name: str, pattern: str) -> bool:
    names = [name] if name in page.headers else fnmatch.filter(page.headers, name)
    value_of = _VALUES[pattern]
    return any(value_of.fullmatch(value.strip()) for name in names for value in page.headers[name])


def _in_script(lower: bytes, word: bytes) -> bool:
    """Whether some occurrence of ``word`` stands inside a script that runs.

    Not in an article's text, nor in the JSON of an article. Each script is looked at
    once: the word may come 40,000 times.
    """
    at = lower.find(word)
    while at >= 0:
        opened = lower.rfind(b"<script", 0, at)
        if opened >= 0 and lower.find(b"</script", opened, at) < 0:
            tag = lower[opened : min(lower.find(b">", opened), opened + 1000)]
            if b"json" not in tag:
                return True
        further = lower.find(b"<script", at)
        at = lower.find(word, further) if further >= 0 else -1
    return False


_BY_NAME: Mapping[str, list[data.Header]] = {
    name: [row for row in data.HEADERS if row.name == name]
    for name in {row.name for row in data.HEADERS if "*" not in row.name}
}
_PATTERNED = [row for row in data.HEADERS if "*" in row.name]
#: What names that are patterns begin with, so that other headers cost one comparison.
_BEGINNINGS = tuple({row.name.partition("*")[0] for row in _PATTERNED})
_PATTERNS = (
    {row.value for row in data.HEADERS}
    | {pair[1] for row in data.BODIES for pair in row.headers}
    | {sign[1] for sign in data.TITLE_SIGNS}
)
_VALUES = {pattern: re.compile(pattern, re.IGNORECASE | re.DOTALL) for pattern in _PATTERNS}

#: Rows that can match an answer that is no error, and those that can when it has much text:
#: most of the work is saved on good pages.
_GOOD = tuple(row for row in data.BODIES if any(code in row.status for code in range(200, 300)))
_GOOD_AND_FULL = tuple(row for row in _GOOD if row.large or (row.few or 0) > data.FEW)


def rows_for(look: Look) -> tuple[data.Body, ...]:
    """The rows of ``signatures.BODIES`` that this page can match."""
    if look.status >= 300:
        return data.BODIES
    return _GOOD_AND_FULL if look.full else _GOOD
