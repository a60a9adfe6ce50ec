"""What a manifest comes to: rows, rejected lines, a pointer to read on from, or a refusal.

Values only; what is good is told by ``judge``, how each format is read by the
module named after it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from msgspec import Struct

from retryscrape.manifest.urls import Good

#: Longest key of a rejected line, in characters (DESIGN.md section 4).
KEY_LENGTH = 2_000


class ManifestError(Exception):
    """This is no manifest, or it cannot be read (any further). ``str()`` is for people.

    ``line`` is the first physical line that was not handed out when reading
    broke off in the middle (a damaged archive, a lost connection); None when
    nothing was read at all.
    """

    def __init__(self, sentence: str, *, line: int | None = None) -> None:
        super().__init__(sentence)
        self.line = line


class Row(NamedTuple):
    """One URL of the manifest. ``url`` is the input string, trimmed: the ledger's key.

    A NamedTuple because one is made per line: 0.5 us, a frozen dataclass takes 1.5.

    ``line`` is the 1-based physical line where the record starts, ``target``
    what to request for it. ``fields`` are the other columns; ``batch`` and
    ``prior`` come from a failures feed only (``prior["error_class"]`` is always there then).
    """

    url: str
    line: int
    fields: Mapping[str, Any] | None = None
    batch: str | None = None
    prior: Mapping[str, Any] | None = None
    warning: str | None = None
    target: Good | None = None


class Rejected(Struct, frozen=True, kw_only=True):
    """A line that is no crawlable URL. ``key`` is its raw text, bounded; it may be empty.

    ``batch`` and ``prior`` as in Row: a rejected row that came back in a failures feed.
    """

    key: str
    line: int
    text: str
    reason: str
    batch: str | None = None
    prior: Mapping[str, Any] | None = None


class Continue(Struct, frozen=True, kw_only=True):
    """The last line of a failures feed: ``manifest`` was not read to its end, read on there."""

    manifest: str
    from_line: int
    line: int
    batch: str | None = None


Item = Row | Rejected | Continue


class Options(Struct, frozen=True, kw_only=True):
    """How the user wants a manifest read (the spider arguments of these names)."""

    url_field: str | None = None
    default_scheme: str | None = None
    from_line: int = 1
    include_permanent: bool = False


def rejected_key(item: Rejected, held_by: int | None) -> str:
    """The ledger's key of a rejected line.

    ``held_by`` is the line of the row that has ``item.key`` in this batch
    already (None: no such row). The same line read again keeps its key, as
    does a row of a failures feed, whose own line says nothing.
    """
    own = held_by is None or held_by == item.line or item.prior is not None
    return item.key if item.key and own else f"line:{item.line}"
