"""What kind of manifest is this? Told from its name and its first kilobytes.

Refuses what is none before any row is handed out. Reads no file itself.
"""

from __future__ import annotations

import codecs
import re
from enum import StrEnum

from msgspec import Struct

from retryscrape.manifest.names import refusal, split_name
from retryscrape.manifest.rows import Options
from retryscrape.manifest.shape import ONE_COLUMN, MissingColumn, Shape, find_shape

#: How much of the file is looked at, in bytes.
HEAD = 65_536


class Format(StrEnum):
    """How the lines are read."""

    TEXT = "text"
    TABLE = "table"
    JSONLINES = "jsonlines"


class Layout(Struct, frozen=True, kw_only=True):
    """``encoding`` is a codec that takes its own BOM; ``shape`` is there for tables.

    Rows of a text begin below ``header_line``.
    """

    format: Format
    encoding: str
    shape: Shape | None = None
    header_line: int = 0


#: UTF-32 first: its little-endian BOM begins with that of UTF-16.
_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)

#: First bytes of what people pass by mistake, and what to tell them.
_MAGIC = (
    (b"%PDF-", "this is a PDF, not a list of URLs"),
    (b"PK\x03\x04", "this is a zip archive or a spreadsheet file; save it as CSV (UTF-8)"),
    (b"PK\x05\x06", "this is an empty zip archive"),
    (b"\xd0\xcf\x11\xe0", "this is an old Office file; save it as CSV (UTF-8)"),
    (b"\x89PNG", "this is an image"),
    (b"\xff\xd8\xff", "this is an image"),
    (b"GIF8", "this is an image"),
    (b"SQLite format 3\0", "this is a SQLite database"),
    (b"\x7fELF", "this is a program"),
    (b"PAR1", "this is a Parquet file; export it as CSV or JSON lines"),
    (b"\x1f\x8b", "it is compressed twice"),
    (b"BZh", "it is compressed twice"),
    (b"\xfd7zXZ\0", "it is compressed twice"),
    (b"\x28\xb5\x2f\xfd", "it is compressed twice"),
    (b"7z\xbc\xaf\x27\x1c", "this is a 7-Zip archive"),
    (b"Rar!", "this is a RAR archive"),
)
_TABLES = (".csv", ".tsv")
_MARKUP = re.compile(rb"\s*<(?:!doctype|html|\?xml|urlset|!--)", re.IGNORECASE)
_JSON_ARRAY = re.compile(r"\[\s*(?:[{\"\[]|$)")
_JSON_OBJECT = re.compile(r"\{\s*(?:\"|\}|$)")
#: Control characters that no text has; NUL among them. Line ends, tabs and ESC are not.
_CONTROLS = bytes(code for code in range(32) if code not in b"\t\n\x0b\x0c\r\x1b")


def sniff(head: bytes, source: str, options: Options) -> Layout:
    """The layout of a file that begins with ``head``; raises ManifestError if it is none."""
    encoding = next((codec for bom, codec in _BOMS if head.startswith(bom)), None)
    if encoding is None:
        _refuse_binary(head, source)
        encoding = "utf-8"
    lines = _first_lines(head, encoding)
    _, suffix = split_name(source)
    first = next((text for text in map(_stripped, lines) if text and text[0] != "#"), "")
    if (suffix == ".json" and first.startswith("[")) or _JSON_ARRAY.match(first):
        raise refusal(source, "this is a JSON array; use JSON lines (one object a line)")
    if first == "{":
        raise refusal(source, "this is a JSON document; use JSON lines (one object a line)")
    if suffix in (".jsonl", ".json") or source.lower().endswith(".ndjson"):
        return Layout(format=Format.JSONLINES, encoding=encoding)
    if _JSON_OBJECT.match(first):
        return Layout(format=Format.JSONLINES, encoding=encoding)
    return _text_or_table(lines, suffix, source, encoding, options)


def _text_or_table(
    lines: list[str], suffix: str, source: str, encoding: str, options: Options
) -> Layout:
    shape = find_shape(
        lines,
        url_field=options.url_field,
        default_scheme=options.default_scheme,
        declared=suffix if suffix in _TABLES else None,
    )
    if isinstance(shape, MissingColumn):
        names = ", ".join(shape.columns)[:200]
        raise refusal(source, f"no column {options.url_field!r}; its first line has: {names}")
    if shape is None:
        return Layout(format=Format.TEXT, encoding=encoding)
    if suffix not in _TABLES and shape.delimiter == ONE_COLUMN:
        # A list under the heading "url": comments and brackets are those of a text.
        return Layout(format=Format.TEXT, encoding=encoding, header_line=shape.header_line)
    return Layout(format=Format.TABLE, encoding=encoding, shape=shape)


def _refuse_binary(head: bytes, source: str) -> None:
    for magic, what in _MAGIC:
        if head.startswith(magic):
            raise refusal(source, what)
    if _MARKUP.match(head):
        raise refusal(source, "this is HTML or XML, not a list of URLs")
    half = len(head) // 2
    if half and max(head[0::2].count(0), head[1::2].count(0)) > half * 0.4:
        raise refusal(source, "this looks like UTF-16 without a BOM; save it as UTF-8")
    # One NUL in a text is one bad line; many control characters and NULs are no text.
    controls = len(head) - len(head.translate(None, _CONTROLS))
    if controls * 10 > len(head) and (b"\0" in head or not _is_utf8(head)):
        raise refusal(source, "this is binary data, not a list of URLs")


def _first_lines(head: bytes, encoding: str) -> list[str]:
    """The lines of the head; one that the head cuts in two only if it is the first."""
    text = head.decode(encoding, "surrogateescape" if encoding == "utf-8" else "replace")
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    lines = text.split("\n")
    return lines[:-1] if len(head) >= HEAD and len(lines) > 1 else lines


def _stripped(line: str) -> str:
    return line.strip().strip("\ufeff")


def _is_utf8(head: bytes) -> bool:
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)  # its end may be cut
    except UnicodeDecodeError:
        return False
    return True
