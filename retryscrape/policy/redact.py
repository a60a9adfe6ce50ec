"""What must not be shown to people: secrets in URLs and texts, and characters that act.

Pure. The names of proxies are made elsewhere; this is for everything else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import quote

MASK = "***"
# Shorter secrets would blank out innocent words ("a" is in every sentence).
SHORTEST_SECRET = 3

# The authority ends at the first of / ? # (RFC 3986) or \ (as browsers read it);
# the userinfo at its LAST "@": passwords with a raw "@" are common in lists.
_USERINFO = re.compile(r"(?i)\b([a-z][a-z0-9+.-]*:[/\\]{2,})([^/?#\\\s]*)@")


def mask_url(text: str) -> str:
    """``text`` with user and password of every URL in it masked.

    ``http://user:secret@host/`` becomes ``http://u***:***@host/``; a text
    without userinfo comes back as it is.
    """
    if "@" not in text:
        return text
    return _USERINFO.sub(_masked, text)


def mask_text(text: str, secrets: Iterable[str] = ()) -> str:
    """``text`` without any of ``secrets``, as such or percent-encoded, and with URLs masked."""
    # Longest first: a secret may be part of another one.
    for secret in sorted({s for s in secrets if len(s) >= SHORTEST_SECRET}, key=len, reverse=True):
        for form in (secret, quote(secret, safe=""), quote(secret)):
            text = text.replace(form, MASK)
    return mask_url(text)


def _masked(match: re.Match[str]) -> str:
    scheme, userinfo = match.groups()
    user, colon, _ = userinfo.partition(":")
    return f"{scheme}{user[:1].strip('*')}{MASK}{colon + MASK if colon else ''}@"


def plain(text: str, limit: int = 2000) -> str:
    """``text`` on one line as a terminal may show it: masked, and nothing in it acts.

    Control characters, line breaks and direction marks become escapes
    (``\\x1b``, ``\\u202e``); at most ``limit`` characters, then an ellipsis.
    """
    shown = mask_url(text)
    if len(shown) > limit:
        shown = f"{shown[: limit - 1]}…"
    if shown.isprintable():
        return shown
    return "".join(char if char.isprintable() else _escaped(char) for char in shown)


def _escaped(char: str) -> str:
    return char.encode("unicode_escape", "backslashreplace").decode("ascii")
