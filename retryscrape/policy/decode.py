"""Strict decompression: what was cut, and what is no such thing, is told apart.

Scrapy's own hands on what it could decode of half a gzip stream, as a 200 without a
flag (measured, field case E6).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import brotli
import zstandard


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Why a body could not be decoded: ``truncated``, ``decode`` or ``too_large``."""

    reason: str
    detail: str = ""


#: Compressed bytes given to a decoder at once: a bomb is seen before it is large.
_STEP = 4 * 1024


def decode_body(body: bytes, encodings: Sequence[str], max_size: int) -> bytes | Fault:
    """The body without its content encodings, which were applied in the order given.

    ``max_size`` in bytes, 0 for no limit. Never raises.
    """
    for name in reversed([word.strip().lower() for word in encodings]):
        if name in ("", "identity", "none") or not body:
            continue
        decoder = _DECODERS.get(name)
        if decoder is None:
            return Fault(reason="decode", detail=f"unknown content encoding {name[:40]!r}")
        decoded = decoder(body, max_size)
        if isinstance(decoded, Fault):
            return decoded
        body = decoded
    return body


def _inflate(body: bytes, wbits: int, max_size: int) -> tuple[bytes, bytes] | Fault:
    """One stream and what comes after it."""
    stream = zlib.decompressobj(wbits)
    parts: list[bytes] = []
    size = 0
    data = body
    try:
        while data and not stream.eof:
            limit = max_size - size + 1 if max_size else 0
            part = stream.decompress(data, limit)
            parts.append(part)
            size += len(part)
            if max_size and size > max_size:
                return Fault(reason="too_large", detail=f"over {max_size} bytes decompressed")
            data = stream.unconsumed_tail
    except zlib.error as error:
        return Fault(reason="decode", detail=str(error)[:100])
    if not stream.eof:
        return Fault(reason="truncated", detail="the compressed stream has no end")
    return b"".join(parts), stream.unused_data


def _gzip(body: bytes, max_size: int) -> bytes | Fault:
    """One or more members; what follows the last and is no member is left away."""
    parts: list[bytes] = []
    rest = body
    while rest:
        if parts and not rest.startswith(b"\x1f\x8b"):
            break
        found = _inflate(rest, 31, max_size - sum(map(len, parts)) if max_size else 0)
        if isinstance(found, Fault):
            short = not parts and b"\x1f\x8b".startswith(rest[:2]) and len(rest) < 18
            return Fault(reason="truncated", detail=found.detail) if short else found
        parts.append(found[0])
        rest = found[1]
    return b"".join(parts)


def _deflate(body: bytes, max_size: int) -> bytes | Fault:
    """zlib's form, or the raw one that some servers send under this name."""
    found = _inflate(body, 15, max_size)
    if isinstance(found, Fault) and found.reason == "decode":
        raw = _inflate(body, -15, max_size)
        found = found if isinstance(raw, Fault) and raw.reason == "decode" else raw
    return found if isinstance(found, Fault) else found[0]


def _brotli(body: bytes, max_size: int) -> bytes | Fault:
    stream = brotli.Decompressor()
    parts: list[bytes] = []
    size = 0
    try:
        for start in range(0, len(body), _STEP):
            part = stream.process(body[start : start + _STEP])
            parts.append(part)
            size += len(part)
            if max_size and size > max_size:
                return Fault(reason="too_large", detail=f"over {max_size} bytes decompressed")
        if not stream.is_finished():
            return Fault(reason="truncated", detail="the compressed stream has no end")
    except brotli.error as error:
        return Fault(reason="decode", detail=str(error)[:100])
    return b"".join(parts)


def _zstd(body: bytes, max_size: int) -> bytes | Fault:
    stream = zstandard.ZstdDecompressor().decompressobj()
    parts: list[bytes] = []
    size = 0
    try:
        for start in range(0, len(body), _STEP):
            part = stream.decompress(body[start : start + _STEP])
            parts.append(part)
            size += len(part)
            if max_size and size > max_size:
                return Fault(reason="too_large", detail=f"over {max_size} bytes decompressed")
            if stream.eof:
                break
    except zstandard.ZstdError as error:
        return Fault(reason="decode", detail=str(error)[:100])
    if not stream.eof:
        return Fault(reason="truncated", detail="the compressed stream has no end")
    return b"".join(parts)


_DECODERS: Mapping[str, Callable[[bytes, int], bytes | Fault]] = {
    "gzip": _gzip,
    "x-gzip": _gzip,
    "deflate": _deflate,
    "br": _brotli,
    "zstd": _zstd,
}
