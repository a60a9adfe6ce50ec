"""Plain text: one URL a line, comments, quotes. README.md states this grammar.

Blank lines are skipped. ``#`` begins a comment at the start of a line or after
white space; glued to a URL it is a fragment. White space around the URL, one
trailing comma, then one pair of quotes or angle brackets are removed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from retryscrape.manifest.judge import judge, rejected, unwrap
from retryscrape.manifest.lines import Cut
from retryscrape.manifest.rows import Options, Rejected, Row

#: Characters a line may have.
MAX_LINE = 65_536

_COMMENT = re.compile(r"(?:^|\s)#")


def read_text(lines: Iterable[tuple[int, str]], options: Options) -> Iterator[Row | Rejected]:
    """Rows and rejected lines, in order; a line at a time."""
    scheme, from_line = options.default_scheme, options.from_line
    for number, text in lines:
        if number < from_line:
            continue
        if isinstance(text, Cut):
            yield rejected(text, number, "line over 64 KB")
            continue
        stripped = _without_comment(text)
        if not stripped:
            continue
        url = unwrap(stripped.removesuffix(",").rstrip())
        if url:
            yield judge(url, number, scheme, raw=text)
        else:
            yield rejected(text, number, "no URL")


def _without_comment(text: str) -> str:
    if "#" in text:
        comment = _COMMENT.search(text)
        if comment is not None:
            text = text[: comment.start()]
    return text.strip().strip("\ufeff")
