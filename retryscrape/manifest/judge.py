"""From the string found in a manifest to a Row or a Rejected: one rule for all formats.

Where the string was found is the formats' matter (``text``, ``table``, ``jsonlines``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from retryscrape.manifest.rows import KEY_LENGTH, Rejected, Row
from retryscrape.manifest.urls import Bad, check_url

_PAIRS = frozenset({'""', "''", "<>", "“”", "‘’", "``"})


def judge(
    url: str,
    line: int,
    default_scheme: str | None,
    *,
    raw: str | None = None,
    fields: Mapping[str, Any] | None = None,
    batch: str | None = None,
    prior: Mapping[str, Any] | None = None,
    warning: str | None = None,
) -> Row | Rejected:
    """``url`` is the trimmed input string, ``raw`` the line that a rejection shows."""
    target = check_url(url, default_scheme)
    if isinstance(target, Bad):
        return rejected(url, line, target.reason, raw=raw, batch=batch, prior=prior)
    if "{" in url and ("{{" in url or "{%" in url):
        warning = "template braces in the URL"
    return Row(url, line, fields, batch, prior, warning, target)


def rejected(
    key: str,
    line: int,
    reason: str,
    *,
    raw: str | None = None,
    batch: str | None = None,
    prior: Mapping[str, Any] | None = None,
) -> Rejected:
    """A Rejected whose texts any database can store. ``raw`` defaults to ``key``."""
    return Rejected(
        key=_bounded(key).strip(),
        line=line,
        text=_bounded(key if raw is None else raw),
        reason=reason,
        batch=batch,
        prior=prior,
    )


def _bounded(text: str) -> str:
    return printable(text[:KEY_LENGTH])[:KEY_LENGTH]


def unwrap(text: str) -> str:
    """``text`` without the one pair of quotes or angle brackets around it."""
    if len(text) > 1 and text[0] + text[-1] in _PAIRS:
        return text[1:-1].strip()
    return text


def printable(text: str) -> str:
    """``text`` without NULs and lone surrogates: PostgreSQL refuses the first, UTF-8 the second.

    U+DC80 to U+DCFF stand for a byte each that was no UTF-8 (PEP 383): ``\\xe4``.
    """
    if text.isascii() and "\0" not in text:
        return text
    return "".join(map(_shown, text))


def _shown(char: str) -> str:
    code = ord(char)
    if code == 0:
        return "\\x00"
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    return f"\\u{code:04x}" if 0xD800 <= code <= 0xDFFF else char
