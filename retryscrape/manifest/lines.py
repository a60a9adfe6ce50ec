"""Bytes to physical lines: encodings and line ends, nothing of what a line says.

Only LF, CRLF and CR end a line: ``str.splitlines`` would also cut URLs at
U+2028 and ``\\x0b`` (field case A6). Holds one block at a time.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator
from typing import BinaryIO

from retryscrape.manifest.rows import ManifestError

BLOCK = 65_536
#: What is kept of a line that is too long: enough for its key in the ledger.
_CUT = 2_000


class Cut(str):
    """The beginning of a line that was too long to be kept."""

    __slots__ = ()


def read_blocks(stream: BinaryIO) -> Iterator[bytes]:
    """The stream, block by block.

    ``read1`` where there is one: it hands out what a slow pipe or a damaged
    archive has given so far, where ``read`` would wait, or lose it to the error.
    """
    read = getattr(stream, "read1", stream.read)
    while block := read(BLOCK):
        yield block


def to_utf8(blocks: Iterable[bytes], encoding: str) -> Iterator[bytes]:
    """Blocks of UTF-16 or UTF-32 as UTF-8; what cannot be decoded becomes an invalid byte."""
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    for block in blocks:
        yield _encode(decoder.decode(block))
    yield _encode(decoder.decode(b"", final=True))


def _encode(text: str) -> bytes:
    return text.replace("\ufffd", "\udcff").encode("utf-8", "surrogateescape")


def split_lines(blocks: Iterable[bytes], limit: int) -> Iterator[tuple[int, str]]:
    """(1-based number, text without its line end); longer than ``limit`` characters: a Cut.

    A ManifestError of ``blocks`` gets the line that was not handed out any more.

    Bytes that are no UTF-8 become lone surrogates (PEP 383), so that a bad
    line stays one line and whoever reads it can tell.
    """
    number, rest = 0, b""
    try:
        for block in blocks:
            head, newline, rest = _at_last_newline(rest + block)
            for text in _decode(head) if newline else ():
                number += 1
                yield number, text if len(text) <= limit else Cut(text[:_CUT])
            if len(rest) > 4 * limit:
                # At most 4 bytes make a character: still too long, and memory stays bounded.
                rest = rest[: 4 * limit + 1] + (b"\r" if rest.endswith(b"\r") else b"")
    except ManifestError as error:
        error.line = number + 1
        raise
    if rest := rest.removesuffix(b"\r"):
        text = rest.decode("utf-8", "surrogateescape")
        yield number + 1, text if len(text) <= limit else Cut(text[:_CUT])


def _at_last_newline(data: bytes) -> tuple[bytes, bytes, bytes]:
    """Complete lines, the last newline, the beginning of the next line.

    A CR at the very end may be half of a CRLF: it waits for the next block.
    """
    held = b""
    if data.endswith(b"\r"):
        data, held = data[:-1], b"\r"
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    head, newline, rest = data.rpartition(b"\n")
    return head, newline, rest + held


def _decode(head: bytes) -> list[str]:
    return head.decode("utf-8", "surrogateescape").split("\n")
