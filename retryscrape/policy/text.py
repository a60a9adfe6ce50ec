"""What a reader of a page sees: how much of it, and which words.

Bounded, and over as soon as enough was seen: it runs on every page.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from itertools import islice

from retryscrape.policy.markup import TAG, WIDE, as_utf8, behind, decode, tag_end

#: Bytes outside scripts, styles and the like that are looked at, and bytes in all.
MOST, MOST_IN_ALL = 512 * 1024, 16 * 1024 * 1024
#: What each unseen element counts as, in bytes: a page may consist of nothing else.
_STEP_COST = 128

#: Encodings in which a byte that looks like an ASCII letter is one.
_ONE_BYTE_LETTERS = frozenset({"utf-8", "utf8", "ascii", "us-ascii", "iso-8859-1", "windows-1252"})
_NO_LETTERS = bytes(byte for byte in range(256) if not 0x21 <= byte <= 0x7E)
_FIRST_STRETCHES = 3

#: Bytes that tags are taken out of at once.
_STRETCH = 2 * 1024
#: Elements whose content nobody sees, and comments. Of a head only the title has text
#: left: its end tag may be missing, and need not be looked for.
_UNSEEN = re.compile(
    rb"<(?=[!sSnNtTiIoOcCaAvV])(?:!--|"
    rb"(?i:(script|style|noscript|template|svg|title|iframe|object|canvas|audio|video))(?=[\s/>]))"
)
#: A tag without "<" or ">" in its values: a third of the work of ``TAG``.
_PLAIN_TAG = re.compile(rb"<[a-zA-Z/!?][^>]*+>")
#: A tag of which a stretch has only the beginning.
_CUT_TAG = re.compile(rb"<(?:[a-zA-Z/!?]|\Z)")


def visible_text(body: bytes, encoding: str | None = None, *, enough: int) -> int:
    """The number of visible characters, counted no further than ``enough``.

    A tag parts words; runs of white space count as one character, an entity as one.
    Never raises.
    """
    if _surely(body, encoding, enough):
        return max(enough, 0)
    seen = 0
    for words in _words(body, encoding):
        seen += len(words)
        if seen >= enough:
            return max(enough, 0)
    return seen


def _surely(body: bytes, encoding: str | None, enough: int) -> bool:
    """Whether the first stretches have as many letters of ASCII: on most pages they do, and
    nothing is decoded for it."""
    if (encoding or "utf-8").lower() not in _ONE_BYTE_LETTERS or body.startswith(WIDE):
        return False
    seen = 0
    for piece in islice(_pieces(body), _FIRST_STRETCHES):
        if b"&" in piece:
            return False  # an entity is one character, however long
        seen += len(piece.translate(None, _NO_LETTERS))
        if seen >= enough:
            return True
    return False


def plain_text(body: bytes, encoding: str | None = None, *, limit: int) -> str:
    """The visible text in lower case, words one space apart, at most ``limit`` characters."""
    parts: list[str] = []
    size = 0
    for words in _words(body, encoding):
        parts.append(words)
        size += len(words)
        if size >= limit:
            break
    return "".join(parts)[: max(limit, 0)].lower()


def _words(body: bytes, encoding: str | None) -> Iterator[str]:
    """The visible text, white space collapsed, in pieces that join without a separator."""
    body, encoding = as_utf8(body, encoding, 2 * MOST)
    begun = parted = False
    for piece in _pieces(body):
        text = decode(piece, encoding)
        if "&" in text:
            text = html.unescape(text)
        words = " ".join(text.split())
        if words:
            yield f" {words}" if begun and (parted or text[0].isspace()) else words
            begun, parted = True, text[-1].isspace()
        else:
            parted = parted or bool(text)


def _pieces(body: bytes) -> Iterator[bytes]:
    """The text with a space for each tag, a stretch at a time.

    Unseen elements are stepped over by ``find``: a regular expression that steps through
    scripts is ten times slower (measured on heads of 10 KB).
    """
    at, seen, size = 0, 0, min(len(body), MOST_IN_ALL)
    unclosed: set[bytes] = set()
    while at < size and seen < MOST:
        end = _character_start(body, min(size, at + _STRETCH))
        unseen = _UNSEEN.search(body, at, end)
        if unseen:
            end = unseen.start()
        parts = _split(body[at:end])
        seen += end - at + _STEP_COST
        cut = _CUT_TAG.search(parts[-1]) if b"<" in parts[-1] else None
        if cut is not None:
            start = end - len(parts[-1]) + cut.start()
            parts[-1] = parts[-1][: cut.start()]
            at = start if start > at else tag_end(body, start)
        elif unseen:
            at = behind(body, unseen, unclosed)
            parts.append(b"")
        else:
            at = end
        yield b" ".join(parts)


def _split(stretch: bytes) -> list[bytes]:
    """The texts between the tags, the beginning of a cut tag at the end of the last."""
    parts = _PLAIN_TAG.split(stretch)
    tags = len(parts) - 1
    plain = stretch.count(b">") == tags == stretch.count(b"<") - parts[-1].count(b"<")
    return parts if plain else _split_exactly(stretch)


def _split_exactly(stretch: bytes) -> list[bytes]:
    parts: list[bytes] = []
    at = 0
    for tag in TAG.finditer(stretch):
        if tag[1] is None:
            break
        parts.append(stretch[at : tag.start()])
        at = tag.end()
    return [*parts, stretch[at:]]


def _character_start(body: bytes, at: int) -> int:
    """An offset that parts no UTF-8 character: ``at``, or up to 3 bytes before."""
    if at < len(body):
        for back in range(min(at, 4)):
            if not 0x80 <= body[at - back] < 0xC0:
                return at - back
    return at
