"""Strict decompression: what was cut, and what is no such thing, is told apart.

Scrapy's own hands on what it could decode of half a gzip stream, as a 200 without a
flag (measured, field case E6). No headers here, and no charsets.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import brotli
import zstandard
from msgspec import Struct


class Fault(Struct, frozen=True, kw_only=True):
    """Why a body could not be decoded: ``truncated``, ``decode`` or ``too_large``."""

    reason: str
    detail: str = ""


#: Compressed bytes given to a decoder at once. zlib makes at most 1,032 bytes of one;
#: a zstd block of 4 bytes can mean 128 KB, so its steps are smaller: 8 MB at most.
_STEP, _ZSTD_STEP = 4 * 1024, 256

#: Words found under Content-Encoding that name no compression.
_NO_CODING = frozenset(
    {"", "identity", "none", "binary", "7bit", "8bit", "utf-8", "utf8", "aws-chunked"}
)
#: Bytes that no text has in it.
_CONTROLS = bytes(sorted(set(range(32)) - {*b"\t\n\f\r\x1b"}))

_GZIP_MAGIC = (b"\x1f\x8b",)
_ZSTD_MAGIC = (b"\x28\xb5\x2f\xfd", *(bytes([n]) + b"\x2a\x4d\x18" for n in range(0x50, 0x60)))

#: One stream of a body from an offset on, with room for so many bytes (None: any): its
#: pieces, and at last, as an int, the offset behind its end.
_Stream = Callable[[bytes, int, "int | None"], "Iterator[bytes | int]"]


class _TooLargeError(Exception):
    pass


class _TruncatedError(Exception):
    pass


def decode_body(body: bytes, encodings: Sequence[str], max_size: int) -> bytes | Fault:
    """The body without its content encodings, which were applied in the order given.

    ``max_size`` in bytes bounds what any decoder makes, 0 for no limit. A word that is
    no compression is passed over where the body is text, as browsers do. Never raises.
    """
    for name in reversed([word.strip().lower() for word in encodings]):
        if name in _NO_CODING or not body:
            continue
        decoder = _DECODERS.get(name)
        if decoder is None and not is_text(body):
            return Fault(reason="decode", detail=f"unknown content encoding {name[:40]!r}")
        if decoder is None:
            continue
        decoded = _guarded(decoder, body, max_size)
        if isinstance(decoded, Fault):
            return decoded
        body = decoded
    return body


def is_text(body: bytes) -> bool:
    """Whether the body begins like text in any charset that extends ASCII."""
    start = body[:1024]
    return len(start.translate(None, _CONTROLS)) == len(start)


def _guarded(
    decoder: Callable[[bytes, int | None], bytes], body: bytes, max_size: int
) -> bytes | Fault:
    try:
        return decoder(body, max_size if max_size > 0 else None)
    except _TooLargeError:
        return Fault(reason="too_large", detail=f"over {max_size} bytes decompressed")
    except _TruncatedError:
        return Fault(reason="truncated", detail="the compressed stream has no end")
    except (zlib.error, brotli.error, zstandard.ZstdError, MemoryError) as error:
        return Fault(reason="decode", detail=str(error)[:100])


def _all(stream: _Stream, magic: tuple[bytes, ...], body: bytes, room: int | None) -> bytes:
    """Every stream of the body; what follows one and is no stream is left away."""
    parts: list[bytes] = []
    at = 0
    while at == 0 or body.startswith(magic, at):
        for piece in stream(body, at, room):
            if isinstance(piece, int):
                at = piece
                break
            parts.append(piece)
            if room is not None:
                room -= len(piece)
                if room < 0:
                    raise _TooLargeError
        else:
            raise _TruncatedError
    return b"".join(parts)


def _inflate(wbits: int, body: bytes, at: int, room: int | None) -> Iterator[bytes | int]:
    stream = zlib.decompressobj(wbits)
    for start in range(at, len(body), _STEP):
        part = stream.decompress(body[start : start + _STEP], 0 if room is None else room + 1)
        room = room and room - len(part)
        yield part
        if stream.eof:
            yield min(start + _STEP, len(body)) - len(stream.unused_data)


def _unzstd(
    decompressor: zstandard.ZstdDecompressor, body: bytes, at: int, room: int | None
) -> Iterator[bytes | int]:
    stream = decompressor.decompressobj()
    for start in range(at, len(body), _ZSTD_STEP):
        yield stream.decompress(body[start : start + _ZSTD_STEP])
        if stream.eof:
            yield min(start + _ZSTD_STEP, len(body)) - len(stream.unused_data)


def _unbrotli(body: bytes, at: int, room: int | None) -> Iterator[bytes | int]:
    stream = brotli.Decompressor()
    for start in range(at, len(body), _STEP):
        yield stream.process(body[start : start + _STEP], output_buffer_limit=1 << 20)
        while not stream.can_accept_more_data():
            yield stream.process(b"", output_buffer_limit=1 << 20)
        if stream.is_finished():
            yield len(body)


def _deflate(body: bytes, room: int | None) -> bytes:
    """zlib's form, or the raw one that some servers send under this name."""
    try:
        return _all(partial(_inflate, 15), (), body, room)
    except zlib.error:
        if is_text(body):  # some of it passes as raw deflate and gives rubbish
            raise
        return _all(partial(_inflate, -15), (), body, room)


def _zstd(body: bytes, room: int | None) -> bytes:
    """Any number of frames; making the decompressor is most of the work for a small one."""
    return _all(partial(_unzstd, zstandard.ZstdDecompressor()), _ZSTD_MAGIC, body, room)


_gzip = partial(_all, partial(_inflate, 31), _GZIP_MAGIC)

_DECODERS: Mapping[str, Callable[[bytes, int | None], bytes]] = {
    "gzip": _gzip,
    "x-gzip": _gzip,
    "deflate": _deflate,
    "br": partial(_all, _unbrotli, ()),
    "zstd": _zstd,
}
