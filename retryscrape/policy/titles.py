"""The title of a page, normalised, out of a bounded part of it.

In the head or before the body, not inside an svg, a comment, a script or the like:
an icon called "Access denied" is no title.
"""

from __future__ import annotations

import html
import re

#: Bytes that are looked at: titles behind 300 KB of styles exist (block_pages.md, 3).
HEAD = 400 * 1024
#: A title is cut there.
LONGEST = 1000

#: What a title may stand in, or what ends the head. Elements whose content is no markup
#: are stepped over as a whole.
_STEPS = re.compile(
    rb"<!--.*?(?:-->|\Z)"
    rb"|<(script|style|noscript|template|svg|math|iframe|textarea|object)\b[^>]*>.*?(?:</\1\s*>|\Z)"
    rb"|<(body)\b"
    rb"|<title\b[^>]*>(.*?)(?:</title\s*>|(?=<(?:/head|body|meta|link|script|style)\b)|\Z)",
    re.IGNORECASE | re.DOTALL,
)
_TAG = re.compile(r"<[^>]*>")
_ASCII = str.maketrans(
    {
        "\u2018": "'",
        "\u2019": "'",
        "\u201b": "'",
        "\u02bc": "'",
        "\u201c": '"',
        "\u201d": '"',
        "\u2026": "...",
        "\u00a0": " ",
        "\u200b": None,
        "\ufeff": None,
        "\u00ad": None,
        "\u2013": "-",
        "\u2014": "-",
    }
)


def title_of(body: bytes, encoding: str | None = None) -> str | None:
    """The first title, normalised; None without one. Never raises.

    ``body`` may be the beginning of a page. Markup is undone, entities are decoded,
    white space collapsed, case folded, quotes and the ellipsis made ASCII.
    """
    head = as_ascii(body[:HEAD])
    for found in _STEPS.finditer(head):
        if found[2] is not None:
            return None
        if found[3] is not None:
            return normalise(decode(found[3][:LONGEST], encoding)) or None
    return None


def normalise(text: str) -> str:
    """A title as the signatures have it."""
    plain = html.unescape(_TAG.sub("", text)).translate(_ASCII)
    return " ".join(plain.split()).casefold()


def as_ascii(body: bytes) -> bytes:
    """UTF-16 and UTF-32 as UTF-8, so that tags can be found; everything else as it is."""
    for mark, name in ((b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16")):
        if body.startswith(mark):
            return body.decode(name, "replace").encode("utf-8", "replace")
    return body


def decode(body: bytes, encoding: str | None) -> str:
    """Text in the page's encoding, in UTF-8, or in the superset of latin-1 that browsers use."""
    for name in (encoding, "utf-8"):
        try:
            return body.decode(name or "utf-8")
        except (LookupError, UnicodeError):
            continue
    return body.decode("cp1252", "replace")
