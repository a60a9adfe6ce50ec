"""The way in: an open manifest to rows, rejected lines and pointers, on demand.

Nothing is held but the block and the line at hand: a million lines need no
more memory than ten.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from typing import BinaryIO

from msgspec.structs import replace

from retryscrape.manifest import jsonlines, table, text
from retryscrape.manifest.judge import judge, unwrap
from retryscrape.manifest.lines import read_blocks, split_lines, to_utf8
from retryscrape.manifest.names import batch_name, refusal
from retryscrape.manifest.rows import (
    Continue,
    Item,
    ManifestError,
    Options,
    Rejected,
    Row,
    rejected_key,
)
from retryscrape.manifest.sniff import HEAD, Format, Layout, sniff
from retryscrape.manifest.source import digest, hashed_whole, open_manifest, why

__all__ = [
    "Continue",
    "Item",
    "ManifestError",
    "Rejected",
    "Row",
    "batch_name",
    "digest",
    "hashed_whole",
    "open_manifest",
    "read_rows",
    "read_urls",
    "rejected_key",
]

#: Enough to tell the format; a slow pipe is not waited for any longer.
_ENOUGH = 4_096


def read_rows(
    stream: BinaryIO,
    *,
    name: str,
    url_field: str | None = None,
    default_scheme: str | None = None,
    from_line: int = 1,
    include_permanent: bool = False,
) -> Iterator[Item]:
    """Rows, rejected lines and pointers of an open manifest, in its order.

    ``name`` is the manifest as given: its suffix counts, messages say it.
    Records that start above ``from_line`` are skipped. Permanent rows of a
    failures feed are handed out too (the caller decides); only its rejected
    ones are judged again under ``include_permanent`` alone.

    Raises ManifestError at once if this is no manifest, and from the iterator
    (with ``line``, to read on from) if the stream breaks off.
    """
    options = Options(
        url_field=url_field,
        default_scheme=default_scheme,
        from_line=from_line,
        include_permanent=include_permanent,
    )
    blocks = _blocks(stream, name)
    head = b""
    for block in blocks:
        head += block
        if len(head) >= _ENOUGH:
            break
    return _items(_chain(head, blocks), sniff(head[:HEAD], name, options), options)


def _blocks(stream: BinaryIO, name: str) -> Iterator[bytes]:
    try:
        yield from read_blocks(stream)
    except Exception as error:  # gzip, lzma, zstd, sockets: each has errors of its own
        raise refusal(name, f"cannot be read any further: {why(error, name)}") from error


def _chain(head: bytes, blocks: Iterator[bytes]) -> Iterator[bytes]:
    # The codecs of UTF-16 and UTF-32 take their own BOM off.
    yield head.removeprefix(codecs.BOM_UTF8)
    yield from blocks


def _items(blocks: Iterator[bytes], layout: Layout, options: Options) -> Iterator[Item]:
    utf8 = blocks if layout.encoding == "utf-8" else to_utf8(blocks, layout.encoding)
    if layout.format is Format.TABLE and layout.shape is not None:
        return table.read_table(split_lines(utf8, table.MAX_LINE), layout.shape, options)
    if layout.format is Format.JSONLINES:
        return jsonlines.read_jsonlines(split_lines(utf8, jsonlines.MAX_LINE), options)
    below = replace(options, from_line=max(options.from_line, layout.header_line + 1))
    return text.read_text(split_lines(utf8, text.MAX_LINE), below)


def read_urls(urls: str, *, default_scheme: str | None = None) -> Iterator[Row | Rejected]:
    """The URLs of a ``urls=`` argument, separated by white space; ``line`` counts them from 1."""
    for number, word in enumerate(urls.split(), start=1):
        url = unwrap(word.removesuffix(","))
        if url:
            yield judge(url, number, default_scheme, raw=word)
