"""Steps over HTML without parsing it: charsets, tags, and elements whose content is not shown.

For the readers of titles and of visible text, which run on every page; everything here
is linear in the bytes looked at, whatever they are.
"""

from __future__ import annotations

import re
from functools import cache

#: The rest of a tag, quoted values with a ">" in them included. It cannot fail, so that
#: a page of tags without an end costs no second look at any byte.
TAG_REST = rb"(?:[^>=]++|=\s*+(?:\"[^\"]*+(?:\"|\Z)|'[^']*+(?:'|\Z))?+)*+"
#: A tag; group 1 is its end if it has one.
TAG = re.compile(rb"<[a-zA-Z/!?]" + TAG_REST + rb"(?:(>)|\Z)")
#: A tag is no longer than that; data in attributes comes in hundreds of KB.
LONGEST_TAG = 1024 * 1024

#: Without an end tag a browser hides all that follows these; the others end at once.
_TO_THE_END = frozenset({b"script", b"style", b"noscript", b"template", b"iframe"})
_NESTING = frozenset({b"svg", b"template"})
_FOREIGN = frozenset({b"svg", b"math"})
#: End tags of others that are stepped over one by one; a regular expression is slower to
#: begin with, and faster through thousands.
_FEW = 50
#: Elements of a name inside one of that name that are told apart.
_MANY = 5000
_NAME_ENDS = b" \t\n\f\r/>"

#: Charsets in which the byte of "<" need not be one; UTF-16 and -32 are told by their bytes.
_STATEFUL = ("iso-2022", "iso2022", "utf-7", "utf7", "hz")
_WIDE_MARKS = (
    (b"\xff\xfe\x00\x00", "utf-32"),
    (b"\x00\x00\xfe\xff", "utf-32"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
    (b"<\x00\x00\x00", "utf-32-le"),
    (b"\x00\x00\x00<", "utf-32-be"),
    (b"<\x00", "utf-16-le"),
    (b"\x00<", "utf-16-be"),
)
#: What pages begin with whose "<" is not one byte.
WIDE = tuple(mark for mark, _ in _WIDE_MARKS)


def as_utf8(body: bytes, encoding: str | None, most: int) -> tuple[bytes, str | None]:
    """A body in which tags can be found, and its encoding; ``most`` bytes are recoded.

    A declared UTF-16 over other bytes is UTF-8, as browsers have it.
    """
    if body.startswith(WIDE):
        name = next(name for mark, name in _WIDE_MARKS if body.startswith(mark))
        return body[:most].decode(name, "ignore").encode("utf-8", "ignore"), "utf-8"
    if encoding is None:
        return body, None
    declared = encoding.lower().replace("_", "-")
    if declared.startswith(_STATEFUL):
        return decode(body[:most], encoding, "ignore").encode("utf-8", "ignore"), "utf-8"
    if declared.startswith(("utf-16", "utf16", "utf-32", "utf32")):
        return body, "utf-8"
    return body, encoding


def decode(body: bytes, encoding: str | None, errors: str = "strict") -> str:
    """Text in the page's encoding, in UTF-8, or in the superset of latin-1 that browsers use."""
    for name in (encoding, "utf-8"):
        if name is None or name.lower() in ("latin-1", "iso-8859-1", "iso8859-1", "latin1"):
            continue
        try:
            return body.decode(name, errors)
        except (LookupError, ValueError):  # a NUL in a name is a ValueError
            continue
    return body.decode("cp1252", "replace")


def behind(body: bytes, opened: re.Match[bytes], unclosed: set[bytes]) -> int:
    """Where a page goes on after the element, or the comment, that ``opened``.

    Group 1 of the match is the element's name, None for a comment. ``unclosed`` keeps
    the names that have no end tag any more, and must be one set per page.
    """
    if opened[1] is None:
        return _comment_end(body, opened.end())
    name = opened[1].lower()
    start = tag_end(body, opened.start())
    if name in _FOREIGN and body[start - 2 : start] == b"/>":
        return start
    close = -1 if name in unclosed else _close(body, name, start)
    if close < 0:
        unclosed.add(name)
        return len(body) if name in _TO_THE_END else start
    if name in _NESTING:
        close = _outer_close(body, name, start, close)
    end = body.find(b">", close)
    return end + 1 if end >= 0 else len(body)


def tag_end(body: bytes, at: int) -> int:
    """Behind the tag that begins at ``at``."""
    tag = TAG.match(body, at, at + LONGEST_TAG)
    return tag.end() if tag else at + 1


def _comment_end(body: bytes, start: int) -> int:
    """Behind a comment's end; ``<!-->`` and ``<!--->`` are whole comments."""
    if body.startswith((b">", b"->"), start):
        return body.index(b">", start) + 1
    end = body.find(b"-->", start)
    return end + 3 if end >= 0 else len(body)


def _close(body: bytes, name: bytes, at: int) -> int:
    """The next end tag, in any case. A search for ``</`` alone goes over no byte twice."""
    size = len(name)
    at = body.find(b"</", at)
    for _ in range(_FEW):
        if at < 0:
            return -1
        end = at + 2 + size
        if body[at + 2 : end].lower() == name and body[end : end + 1] in _NAME_ENDS:
            return at
        at = body.find(b"</", at + 2)
    found = _close_pattern(name).search(body, at) if at >= 0 else None
    return found.start() if found else -1


@cache
def _close_pattern(name: bytes) -> re.Pattern[bytes]:
    return re.compile(rb"</(?i:" + name + rb")(?=[\s/>]|\Z)")


def _outer_close(body: bytes, name: bytes, start: int, close: int) -> int:
    """The end tag of the outermost of elements inside each other, or the last there is."""
    opening = b"<" + name
    depth = 1
    for _ in range(_MANY):
        depth += body.count(opening, start, close) - 1
        further = _close(body, name, close + 2) if depth > 0 else -1
        if further < 0:
            break
        start, close = close, further
    return close
