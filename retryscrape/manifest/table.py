"""CSV and TSV by Python's csv module, one record at a time, whatever the quotes do.

A quote that is never closed would make the module swallow the rest of the
file as one cell: here it costs its own line and nothing else.
"""

from __future__ import annotations

import csv
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

from retryscrape.manifest.judge import judge, printable, rejected, unwrap
from retryscrape.manifest.lines import Cut
from retryscrape.manifest.rows import ManifestError, Options, Rejected, Row
from retryscrape.manifest.shape import Shape
from retryscrape.manifest.urls import Good, check_url

#: Characters a record may have: the csv module's own default limit for a field.
MAX_RECORD = 131_072
MAX_LINE = MAX_RECORD

#: Where cells beyond the header go.
EXTRA = "extra"


def read_table(
    lines: Iterable[tuple[int, str]], shape: Shape, options: Options
) -> Iterator[Row | Rejected]:
    """Rows and rejected records, in order; ``fields`` holds the other columns as text."""
    start = max(options.from_line, shape.header_line + 1)
    feeder = _Feeder(lines)
    for line, cells, raw in _records(feeder, shape.delimiter):
        if line < start:
            continue
        if isinstance(cells, str):
            yield rejected(raw, line, cells)
        elif raw.strip():
            item = _row(cells, raw, line, shape, options)
            if item is not None:
                yield item


def _row(
    cells: list[str], raw: str, line: int, shape: Shape, options: Options
) -> Row | Rejected | None:
    url = cells[shape.url] if shape.url < len(cells) else ""
    url = unwrap(url.strip().strip("\ufeff"))
    if not url:
        return rejected("", line, "no URL in its column", raw=raw)
    if raw.lstrip().startswith("#") and not isinstance(check_url(url), Good):
        return None  # a comment; "#1,http://h/" is a row all the same
    warning = None
    if not raw.isascii() and any("\udc80" <= char <= "\udcff" for char in raw):
        # Spreadsheets in the West still save this way; the URL itself must be UTF-8.
        warning = "columns are not UTF-8, read as Windows-1252"
    fields = _fields(cells if raw.isascii() and "\0" not in raw else list(map(_text, cells)), shape)
    return judge(url, line, options.default_scheme, raw=raw, fields=fields or None, warning=warning)


def _fields(cells: list[str], shape: Shape) -> dict[str, Any]:
    fields: dict[str, Any] = dict(zip(shape.columns, cells, strict=False))
    fields.pop(shape.columns[shape.url], None)
    beyond = cells[len(shape.columns) :]
    if any(beyond):
        name = EXTRA
        while name in shape.columns:
            name += "_"
        fields[name] = beyond
    return fields


def _text(cell: str) -> str:
    """A cell that any database can store."""
    raw = cell.encode("utf-8", "surrogateescape")
    try:
        return printable(raw.decode())
    except UnicodeDecodeError:
        return printable(raw.decode("cp1252", "replace"))


class _TooLong(Exception):
    """The record has a line that was cut, or more text than a record may have."""


class _Feeder:
    """Physical lines for ``csv.reader``, which remembers those of the current record."""

    def __init__(self, lines: Iterable[tuple[int, str]]) -> None:
        self._lines = iter(lines)
        self._again: deque[tuple[int, str]] = deque()
        self.taken: list[tuple[int, str]] = []
        self._size = 0
        self.at_end = False

    def begin(self) -> None:
        self.taken, self._size, self.at_end = [], 0, False

    def give_back(self) -> None:
        """All lines of the record but its first will be read again."""
        self._again.extendleft(reversed(self.taken[1:]))

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        item = self._again.popleft() if self._again else next(self._lines, None)
        if item is None:
            self.at_end = True
            raise StopIteration
        self.taken.append(item)
        self._size += len(item[1]) + 1
        if self._size >= MAX_RECORD or isinstance(item[1], Cut):
            raise _TooLong
        return item[1] + "\n"


def _records(feeder: _Feeder, delimiter: str) -> Iterator[tuple[int, list[str] | str, str]]:
    """(line where it starts, cells or why there are none, raw text), record by record.

    Strict, so that two stray quotes far apart do not make one cell of all that is between them.
    """
    reader = csv.reader(feeder, delimiter=delimiter, strict=True)
    while True:
        feeder.begin()
        try:
            cells: list[str] | str = next(reader)
            raw = "\n".join(text for _, text in feeder.taken)
        except StopIteration:
            return
        except ManifestError as error:
            # Reading on must begin with the record, not in the middle of it.
            error.line = feeder.taken[0][0] if feeder.taken else error.line
            raise
        except (_TooLong, csv.Error):
            cells, raw = _first_alone(feeder, delimiter), feeder.taken[0][1]
            feeder.give_back()
        yield feeder.taken[0][0], cells, raw


def _first_alone(feeder: _Feeder, delimiter: str) -> list[str] | str:
    """What the first line of an unreadable record is without the others."""
    _, text = feeder.taken[0]
    if isinstance(text, Cut):
        return "line over 128 KB"
    if len(feeder.taken) > 1 or feeder.at_end:
        return "quote is never closed"
    try:
        return next(csv.reader([text], delimiter=delimiter))  # lenient: "a"b is a cell too
    except csv.Error as error:
        return f"no valid CSV ({error})"
