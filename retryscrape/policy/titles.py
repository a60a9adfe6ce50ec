"""The title of a page, normalised, out of a bounded part of it.

In the head or before the body, not inside an svg, a comment, a script or the like:
an icon called "Access denied" is no title.
"""

from __future__ import annotations

import html
import re

from retryscrape.policy.markup import TAG_REST, as_utf8, behind, decode, tag_end

#: Bytes that are looked at: titles behind 300 KB of styles exist (block_pages.md, 3).
HEAD = 512 * 1024
#: Elements and comments that are stepped over.
MOST_STEPS = 5000
#: A title is cut there.
LONGEST = 1000

#: The first letters are asked for by themselves: half of the time is saved.
_STOPS = (
    rb"(?=[sSnNtTiIbBfF])"
    rb"(?i:(script|style|noscript|template|svg|iframe|textarea|body|frameset|title))(?=[\s/>])"
)
#: Tags and text that have nothing to say, in one step: a third of the time of a step each.
_PLAIN = re.compile(
    rb"(?:[^<]++|<(?!!--|" + _STOPS + rb")(?:[a-zA-Z/!?]" + TAG_REST + rb"(?:>|\Z))?+)*+"
)
_STOP = re.compile(rb"<(?:!--|" + _STOPS + rb")")
#: What ends a title; where its end tag is missing, what never stands in one.
_END = re.compile(
    rb"(</title)\b|</?(?:html|head|body|meta|link|base|script|style)\b", re.IGNORECASE
)
_ANY_TAG = re.compile(rb"</?[a-zA-Z]|<!")
_TAG = re.compile(r"</?[a-zA-Z!][^>]*>")
_ASCII = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019\u201b\u02bc\u2032", "'"),
        **dict.fromkeys("\u201c\u201d\u201f\u2033", '"'),
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014", "-"),
        **dict.fromkeys("\u200b\u200c\u200d\u2060\ufeff\u00ad"),
        "\u2026": "...",
    }
)


def title_of(body: bytes, encoding: str | None = None) -> str | None:
    """The first title, normalised; None without one. Never raises.

    ``body`` may be the beginning of a page. Markup is undone, entities are decoded,
    white space collapsed, case folded, quotes and the ellipsis made ASCII.
    """
    body, encoding = as_utf8(body, encoding, 2 * HEAD)
    at = 0
    unclosed: set[bytes] = set()
    for _ in range(MOST_STEPS):
        plain = _PLAIN.match(body, at, HEAD)
        stop = _STOP.match(body, plain.end() if plain else at)
        name = stop[1].lower() if stop and stop[1] else None
        if stop is None or name in (b"body", b"frameset"):
            return None
        if name == b"title":
            return normalise(decode(_content(body, stop.start()), encoding)) or None
        at = behind(body, stop, unclosed)
        if at >= HEAD:
            return None
    return None


def normalise(text: str) -> str:
    """A title as the signatures have it."""
    plain = html.unescape(_TAG.sub("", text)).translate(_ASCII)
    return " ".join(plain.split()).casefold()


def _content(body: bytes, at: int) -> bytes:
    start = tag_end(body, at)
    limit = start + LONGEST
    end = _END.search(body, start, limit)
    if end is None or end[1] is None:
        end = _ANY_TAG.search(body, start, limit)
    return body[start : end.start() if end else limit]
