"""Content encodings undone: whole bodies come out whole, cut and false ones are told apart."""

import gzip
import random
import tracemalloc
import zlib
from collections.abc import Callable, Mapping
from functools import partial

import brotli
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from retryscrape.policy.decode import Fault, decode_body

PAGE = b"<html><body>" + random.Random(1).randbytes(4000).hex().encode() + b"</body></html>"


def raw_deflate(body: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(body) + packer.flush()


ENCODE: Mapping[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": partial(brotli.compress, quality=4),
    "zstd": zstandard.ZstdCompressor().compress,
}
every_encoding = pytest.mark.parametrize("name", ENCODE)


def reason(found: bytes | Fault) -> str:
    assert isinstance(found, Fault), f"{len(found)} bytes came out"
    return found.reason


@every_encoding
def test_a_whole_body_comes_out(name: str) -> None:
    packed = ENCODE[name](PAGE)
    assert decode_body(packed, [name], 0) == PAGE
    assert decode_body(packed, [f" {name.upper()} "], len(PAGE)) == PAGE


def test_raw_deflate_is_deflate_too() -> None:
    assert decode_body(raw_deflate(PAGE), ["deflate"], 0) == PAGE
    assert reason(decode_body(raw_deflate(PAGE)[:-20], ["deflate"], 0)) == "truncated"


@every_encoding
@pytest.mark.parametrize("keep", [1, 2, 3, 7, 11, 0.5, -9, -8, -1])
def test_a_stream_without_its_end_is_truncated(name: str, keep: float) -> None:
    packed = ENCODE[name](PAGE)
    cut = packed[: int(len(packed) * keep)] if keep == 0.5 else packed[: int(keep)]
    assert reason(decode_body(cut, [name], 0)) == "truncated"


@every_encoding
@pytest.mark.parametrize(
    "body",
    [b"<!doctype html><p>not compressed at all</p>", b'{"a": [1, 2, 3]}', b"\x89PNG\r\n\x1a\n1234"],
)
def test_what_was_never_compressed_is_a_decode_fault(name: str, body: bytes) -> None:
    assert reason(decode_body(body * 20, [name], 0)) == "decode"


@pytest.mark.parametrize("name", ["gzip", "deflate"])
def test_a_wrong_checksum_is_a_decode_fault(name: str) -> None:
    packed = bytearray(ENCODE[name](PAGE))
    packed[-6 if name == "gzip" else -1] ^= 0xFF
    assert reason(decode_body(bytes(packed), [name], 0)) == "decode"


@every_encoding
def test_an_empty_body_is_just_empty(name: str) -> None:
    assert decode_body(b"", [name], 0) == b""
    assert decode_body(ENCODE[name](b""), [name], 10) == b""


@pytest.mark.parametrize("name", ["gzip", "zstd"])
def test_streams_in_a_row_are_one_body(name: str) -> None:
    pack = ENCODE[name]
    packed = pack(b"one ") + pack(b"") + pack(PAGE)
    assert decode_body(packed, [name], 0) == b"one " + PAGE
    assert reason(decode_body(packed[:-10], [name], 0)) == "truncated"


def test_a_skippable_zstd_frame_holds_nothing() -> None:
    note = b"\x50\x2a\x4d\x18\x03\x00\x00\x00abc"
    assert decode_body(note + ENCODE["zstd"](PAGE) + note, ["zstd"], 0) == PAGE


@pytest.mark.parametrize("name", ["gzip", "deflate", "zstd"])
@pytest.mark.parametrize("rest", [b"\n", b"\0" * 600, b"<!-- served by cache 7 -->"])
def test_garbage_behind_the_end_is_left_away(name: str, rest: bytes) -> None:
    assert decode_body(ENCODE[name](PAGE) + rest, [name], 0) == PAGE


def test_several_encodings_are_undone_from_the_last() -> None:
    packed = brotli.compress(gzip.compress(zlib.compress(PAGE)))
    assert decode_body(packed, ["deflate", "gzip", "br"], 0) == PAGE
    assert reason(decode_body(packed, ["br", "gzip", "deflate"], 0)) == "decode"


@pytest.mark.parametrize("word", ["identity", "", "UTF-8", "none", "binary"])
def test_words_that_name_no_compression_change_nothing(word: str) -> None:
    image = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"
    assert decode_body(image, [word], 0) == image
    assert decode_body(gzip.compress(PAGE), ["gzip", word], 0) == PAGE


def test_an_unknown_word_is_passed_over_on_text_only() -> None:
    assert decode_body(PAGE, ["text/html"], 0) == PAGE
    found = decode_body(b"\x1f\x9d\x90\x00\x01\x02", ["compress"], 0)
    assert found == Fault(reason="decode", detail="unknown content encoding 'compress'")


@every_encoding
def test_the_limit_is_exact(name: str) -> None:
    packed = ENCODE[name](PAGE)
    assert decode_body(packed, [name], len(PAGE)) == PAGE
    assert reason(decode_body(packed, [name], len(PAGE) - 1)) == "too_large"


@pytest.mark.parametrize("name", ["gzip", "zstd"])
def test_the_limit_holds_over_all_streams_together(name: str) -> None:
    """The first stream fills the room to the byte: the second has none left, not any."""
    packed = ENCODE[name](b"x" * 100) + ENCODE[name](b"\0" * 1_000_000)
    assert reason(decode_body(packed, [name], 100)) == "too_large"


@pytest.mark.parametrize("name", ["gzip", "deflate", "br", "zstd"])
def test_a_bomb_is_left_long_before_it_is_large(name: str) -> None:
    bomb = ENCODE[name](b"\0" * 40_000_000)
    tracemalloc.start()
    try:
        assert reason(decode_body(bomb, [name], 100_000)) == "too_large"
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


def test_the_limit_binds_each_layer() -> None:
    bomb = gzip.compress(gzip.compress(b"\0" * 20_000_000))
    assert reason(decode_body(bomb, ["gzip", "gzip"], 10_000)) == "too_large"


WORDS = st.lists(st.sampled_from([*ENCODE, "identity", "compress", ""]), max_size=3)


@settings(max_examples=200, deadline=None)
@given(body=st.binary(max_size=300), words=WORDS, limit=st.integers(-1, 400))
def test_any_bytes_give_bytes_or_a_fault(body: bytes, words: list[str], limit: int) -> None:
    found = decode_body(body, words, limit)
    assert isinstance(found, bytes) or found.reason in {"truncated", "decode", "too_large"}


@settings(max_examples=200, deadline=None)
@given(body=st.binary(max_size=2000), words=st.lists(st.sampled_from(list(ENCODE)), max_size=3))
def test_what_is_encoded_comes_back(body: bytes, words: list[str]) -> None:
    packed = body
    for word in words:
        packed = ENCODE[word](packed)
    assert decode_body(packed, words, 0) == body


@settings(max_examples=200, deadline=None)
@given(
    body=st.binary(min_size=50, max_size=2000), name=st.sampled_from(list(ENCODE)), data=st.data()
)
def test_no_beginning_of_a_stream_passes_as_a_body(
    body: bytes, name: str, data: st.DataObject
) -> None:
    packed = ENCODE[name](body)
    cut = packed[: data.draw(st.integers(1, len(packed) - 1))]
    assert reason(decode_body(cut, [name], 0)) == "truncated"
