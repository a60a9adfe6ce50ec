"""What a reader of a page sees: how much of it, and which words.

Bounded, and over as soon as enough was seen: it runs on every page.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

from retryscrape.policy.titles import as_ascii, decode

#: Bytes of a page that are looked at for text.
MOST = 2 * 1024 * 1024

#: Bytes that tags are taken out of at once.
STRETCH = 2 * 1024
#: Elements whose content nobody sees, and comments.
_UNSEEN = re.compile(
    rb"<(?:!--|(?i:(script|style|noscript|template|svg|head|iframe|object|canvas|audio|video)\b))"
)
_TAG = re.compile(rb"<[a-zA-Z/!?][^>]*>?")
_CONTINUATION = bytes(range(0x80, 0xC0))


def _pieces(body: bytes) -> Iterator[bytes]:
    """The text without its tags, a stretch at a time.

    Unseen elements are stepped over by ``find``: a regular expression that steps through
    scripts is ten times slower (measured on heads of 10 KB).
    """
    at, size = 0, len(body)
    while at < size:
        unseen = _UNSEEN.search(body, at, at + STRETCH)
        end = unseen.start() if unseen else min(size, at + STRETCH)
        if not unseen and end < size:  # not in the middle of a tag
            end = max(body.rfind(b"<", at, end), at) or end
            end = end if end > at else min(size, at + STRETCH)
        yield _TAG.sub(b" ", body[at:end])
        at = _closing(body, unseen) if unseen else end


def _closing(body: bytes, opened: re.Match[bytes]) -> int:
    """Where the text goes on after the unseen element or comment that ``opened``."""
    name = opened[1]
    if name is None:
        end = body.find(b"-->", opened.end())
        return end + 3 if end >= 0 else len(body)
    end = body.find(b"</" + name, opened.end())
    if end < 0:
        found = re.compile(rb"</" + name, re.IGNORECASE).search(body, opened.end())
        end = found.start() if found else len(body)
    close = body.find(b">", end)
    return close + 1 if close >= 0 else len(body)


def visible_text(body: bytes, encoding: str | None = None, *, enough: int) -> int:
    """The number of visible characters, counted no further than ``enough``.

    Runs of white space count as one character, an entity as one. Never raises.
    """
    single = bool(encoding) and not str(encoding).lower().replace("-", "").startswith("utf8")
    seen = 0
    for piece in _pieces(as_ascii(body[:MOST])):
        words = b" ".join(piece.split())
        if not words:
            continue
        if b"&" in words:
            words = html.unescape(words.decode("latin-1")).encode("utf-8", "replace")
            words = b" ".join(words.replace(b"\xc2\xa0", b" ").split())
        seen += len(words) if single else len(words.translate(None, _CONTINUATION))
        if seen >= enough:
            return enough
    return seen


def plain_text(body: bytes, encoding: str | None = None, *, limit: int) -> str:
    """The visible text in lower case, words one space apart, at most ``limit`` characters."""
    parts: list[str] = []
    size = 0
    for piece in _pieces(as_ascii(body[:MOST])):
        text = " ".join(html.unescape(decode(piece, encoding)).split())
        if text:
            parts.append(text)
            size += len(text) + 1
            if size >= limit:
                break
    return " ".join(parts)[:limit].lower()
