"""The shape of a table, told from its beginning: delimiter, header, URL column.

Reads no file: ``sniff`` passes the first lines in; ``table`` reads by the answer.
"""

from __future__ import annotations

import contextlib
import csv
from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

from retryscrape.manifest.judge import unwrap
from retryscrape.manifest.urls import Good, check_url

#: Never in a text file: a table of one column, whose commas belong to its URLs.
ONE_COLUMN = "\x1f"

_SAMPLE = 50
#: Fewer lines with a comma than this: the commas are their URLs' own.
_MOST = 0.75


class Shape(Struct, frozen=True, kw_only=True):
    """How to read a table.

    ``columns`` names every column (unique); ``url`` is the index of the one
    with the URLs; records that start on line ``header_line`` or above are no rows.
    """

    delimiter: str
    columns: tuple[str, ...]
    url: int
    header_line: int = 0


class MissingColumn(Struct, frozen=True, kw_only=True):
    """``url_field`` was asked for and the header has no such column."""

    columns: tuple[str, ...]


def find_shape(
    lines: Sequence[str], *, url_field: str | None, default_scheme: str | None, declared: str | None
) -> Shape | MissingColumn | None:
    """The shape of a table that begins with ``lines`` (without line ends); None: no table.

    ``declared`` is the suffix (``.csv``, ``.tsv``) of a file that says it is
    one. Without it only a header with a ``url`` column, or tabs beside a
    URL, make a table: a comma alone may be part of a URL.
    """
    first, hint = _first_line(lines)
    sample = lines[first : first + _SAMPLE]
    if not sample:
        return _one_column(first) if declared else None
    wanted = (url_field or "url").strip().casefold()
    found = _by_header(sample, wanted, hint, first + 1)
    if found is not None:
        return found
    if declared is None:
        beside = "\t" in sample[0] and _first_url(sample[0].split("\t"), None) is not None
        return _by_content(sample, "\t", default_scheme, first) if beside else None
    delimiter = hint or ("\t" if declared == ".tsv" else _delimiter(sample))
    if url_field:
        return MissingColumn(columns=tuple(_names(_records(sample, delimiter)[0])))
    return _by_content(sample, delimiter, default_scheme, first)


def _first_line(lines: Sequence[str]) -> tuple[int, str | None]:
    """Index of the first line of the table, and the delimiter of Excel's ``sep=;`` if any."""
    hint = None
    for index, line in enumerate(lines):
        text = line.strip().strip("\ufeff")
        if text.lower().startswith("sep=") and len(text) == 5:
            hint = text[4]
        elif text.lower() == "sep=":
            hint = "\t"  # sep=TAB, its end trimmed
        elif text and not text.startswith("#"):
            return index, hint
    return len(lines), hint


def _by_header(sample: Sequence[str], wanted: str, hint: str | None, line: int) -> Shape | None:
    best: Shape | None = None
    for delimiter in (hint,) if hint else (ONE_COLUMN, ",", ";", "\t"):
        names = _names(_records(sample, delimiter)[0])
        folded = [name.casefold() for name in names]
        if wanted not in folded or _first_url(names, None) is not None:
            continue
        if best is None or len(names) > len(best.columns):
            best = Shape(
                delimiter=delimiter,
                columns=_unique(names),
                url=folded.index(wanted),
                header_line=line,
            )
    return best


def _by_content(
    sample: Sequence[str], delimiter: str, default_scheme: str | None, first: int
) -> Shape:
    """The first column in which a URL is found; what stands above it is a header."""
    records = _records(sample, delimiter)
    for index, record in enumerate(records):
        column = _first_url(record, default_scheme)
        if column is None:
            continue
        if index and _is_header(records[0], column):
            names = _unique(_names(records[0]))
            return Shape(delimiter=delimiter, columns=names, url=column, header_line=first + 1)
        return Shape(
            delimiter=delimiter, columns=_unique([""] * len(record)), url=column, header_line=first
        )
    return Shape(
        delimiter=delimiter, columns=_unique([""] * len(records[0])), url=0, header_line=first
    )


def _one_column(first: int) -> Shape:
    return Shape(delimiter=ONE_COLUMN, columns=("url",), url=0, header_line=first)


def _is_header(record: Sequence[str], column: int) -> bool:
    """A name stands above the URLs, not an address that merely lacks its scheme."""
    return column < len(record) and not set(record[column]) & set("./:@")


def _first_url(record: Sequence[str], default_scheme: str | None) -> int | None:
    """The column of the first URL; one with a scheme wins over one that could get it."""
    cells = [unwrap(cell.strip().strip("\ufeff")) for cell in record]
    for scheme in dict.fromkeys((None, default_scheme)):
        for column, cell in enumerate(cells):
            looks_like_one = scheme is None or "." in cell or "/" in cell
            if looks_like_one and isinstance(check_url(cell, scheme), Good):
                return column
    return None


def _delimiter(sample: Sequence[str]) -> str:
    """The one that cuts most lines into equally many cells; on a tie the rarer one in URLs."""
    best, best_share = ONE_COLUMN, _MOST
    for delimiter in ",;\t":
        widths = Counter(map(len, _records(sample, delimiter)))
        width, count = widths.most_common(1)[0]
        share = count / widths.total()
        if width > 1 and share >= best_share:
            best, best_share = delimiter, share
    return best


def _records(sample: Sequence[str], delimiter: str) -> list[list[str]]:
    """The sample's records; at least one, the last perhaps cut."""
    records: list[list[str]] = []
    with contextlib.suppress(csv.Error):
        records.extend(
            record
            for record in csv.reader((f"{line}\n" for line in sample), delimiter=delimiter)
            if record
        )
    return records or [[sample[0]]]


def _names(record: Sequence[str]) -> list[str]:
    return [unwrap(cell.strip().strip("\ufeff").strip()) for cell in record]


def _unique(names: Sequence[str]) -> tuple[str, ...]:
    """Every column with a name of its own: ``column_3`` for none, ``note_2`` for the second."""
    taken: dict[str, None] = {}
    for index, name in enumerate(names, start=1):
        unique, n = name or f"column_{index}", 2
        while unique in taken:
            unique, n = f"{name or f'column_{index}'}_{n}", n + 1
        taken[unique] = None
    return tuple(taken)
