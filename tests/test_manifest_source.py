"""Where manifests come from: files, pipes, URIs, compressed or not, damaged or missing."""

from __future__ import annotations

import bz2
import gzip
import http.server
import io
import lzma
import random
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import zstandard

from retryscrape.manifest.read import (
    ManifestError,
    Row,
    batch_name,
    digest,
    open_manifest,
    read_rows,
)

LINES = [f"http://h.test/{n}" for n in range(1_000)]
TEXT = "\n".join(LINES).encode()


def urls_of(source: str, stdin: io.BytesIO | None = None) -> list[str]:
    with open_manifest(source, stdin) as stream:
        return [item.url for item in read_rows(stream, name=source) if isinstance(item, Row)]


@pytest.mark.parametrize(
    "compress", [bytes, gzip.compress, bz2.compress, lzma.compress, zstandard.compress]
)
@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
def test_compression_is_told_by_the_content_whatever_the_suffix(
    tmp_path: Path, compress: Callable[[bytes], bytes], suffix: str
) -> None:
    path = tmp_path / f"list.txt{suffix}"
    path.write_bytes(compress(TEXT[:5_000]) + (compress(TEXT[5_000:])))
    assert urls_of(str(path)) == LINES
    assert urls_of("-", io.BytesIO(path.read_bytes())) == LINES


def test_the_format_is_told_by_the_suffix_below_the_compression(tmp_path: Path) -> None:
    path = tmp_path / "List.CSV.gz"
    path.write_bytes(gzip.compress(b"http://h.test/a,1\nhttp://h.test/b,2\n"))
    assert urls_of(str(path)) == ["http://h.test/a", "http://h.test/b"]


def test_a_cut_archive_gives_its_rows_and_says_where_to_read_on(tmp_path: Path) -> None:
    numbers = random.Random(1)
    lines = [f"http://h.test/{numbers.getrandbits(128):x}" for _ in range(20_000)]
    path = tmp_path / "list.txt.gz"
    path.write_bytes(gzip.compress("\n".join(lines).encode())[:-40_000])
    read: list[int] = []
    with open_manifest(str(path)) as stream, pytest.raises(ManifestError) as caught:
        read.extend(item.line for item in read_rows(stream, name=str(path)))
    assert len(read) > 10_000
    assert read == list(range(1, len(read) + 1))
    assert caught.value.line == len(read) + 1
    assert "cannot be read any further" in str(caught.value)


def test_reading_on_in_a_cut_table_begins_with_the_whole_record() -> None:
    class Cut(io.BytesIO):
        def read1(self, size: int | None = -1, /) -> bytes:
            block = super().read1(size)
            if not block:
                raise ConnectionResetError(104, "Connection reset by peer")
            return block

    rows = "".join(f"http://h.test/{n},x\n" for n in range(1_000))
    stream = Cut(f'url,note\n{rows}http://h.test/z,"two\nli'.encode())
    items = read_rows(stream, name="l.csv")
    with pytest.raises(ManifestError, match="Connection reset by peer") as caught:
        list(items)
    assert caught.value.line == 1_002


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda path: None, "No such file or directory"),
        (lambda path: path.mkdir(), "Is a directory"),
        (lambda path: path.write_bytes(gzip.compress(TEXT)[:20]), "cannot be read any further"),
    ],
)
def test_what_cannot_be_opened_is_named_with_its_absolute_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], object], what: str
) -> None:
    monkeypatch.chdir(tmp_path)
    make(tmp_path / "nope.txt")
    with pytest.raises(ManifestError, match=what) as caught:
        urls_of("nope.txt")
    assert f"manifest nope.txt ({tmp_path}/nope.txt): " in str(caught.value)


def test_a_name_that_no_file_can_have_is_refused() -> None:
    with pytest.raises(ManifestError, match="cannot be opened"):
        urls_of("a\0b")


@pytest.fixture
def web() -> Iterator[str]:
    """A loopback server: /list.txt.gz is a manifest, everything else is 403."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = self.path.startswith("/list.txt.gz")
            self.send_response(200 if found else 403)
            self.end_headers()
            self.wfile.write(gzip.compress(TEXT) if found else b"no")

        def log_message(self, *args: object) -> None:
            """Quiet."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_manifest_over_http(web: str) -> None:
    assert urls_of(f"http://{web}/list.txt.gz?X-Signature=abc") == LINES


def test_the_secrets_of_a_uri_are_in_no_message(web: str) -> None:
    source = f"http://user:hunter2@{web}/gone.txt?token=hunter3"
    with pytest.raises(ManifestError) as caught:
        urls_of(source)
    assert f"http://***@{web}/gone.txt" in str(caught.value)
    assert "hunter" not in str(caught.value)


@pytest.mark.parametrize("source", ["nosuch://x/y", "s3://user:hunter2@b/k"])
def test_a_uri_that_cannot_be_had_is_a_sentence(source: str) -> None:
    with pytest.raises(ManifestError, match="cannot be opened") as caught:
        urls_of(source)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("urls/sample.txt", "sample"),
        ("/a/b/list.csv.gz", "list"),
        ("LIST.TSV.ZST", "LIST"),
        ("list.v2.txt", "list.v2"),
        ("list", "list"),
        ("list.gz", "list"),
        ("list.json.xz", "list"),
        ("list.txt.txt", "list.txt"),
        ("out/sample/failures.jsonl", "failures"),
        ("https://h.test/my%20list.txt.bz2?sig=x.csv", "my list"),
        ("s3://bucket/a/b.jsonl", "b"),
        ("-", ""),
    ],
)
def test_the_default_batch_is_the_name_without_known_suffixes(source: str, name: str) -> None:
    assert batch_name(source) == name


def test_a_digest_tells_changed_content_of_small_and_large_files(tmp_path: Path) -> None:
    path = tmp_path / "list.txt"
    found = set()
    for size in (0, 1_000, 5_000_000):
        for place in (0, size // 2, size - 1):
            data = bytearray(b"x" * size)
            if size:
                data[place] = 0
            path.write_bytes(data)
            found.add(digest(str(path)))
            assert digest(str(path)) == digest(str(path))
    assert len(found) == 1 + 3 + 3


@pytest.mark.parametrize("source", ["-", "http://h.test/x", "/nope/nope.txt", "/dev"])
def test_no_digest_of_what_is_no_local_file(source: str) -> None:
    assert digest(source) is None


@pytest.mark.parametrize("name", ["l.txt", "l.csv", "l.jsonl"])
def test_memory_does_not_grow_with_the_manifest(name: str) -> None:
    class Endless(io.RawIOBase):
        """100,000 lines that exist nowhere at once."""

        def __init__(self) -> None:
            self.left = 1_000

        def read(self, size: int = -1, /) -> bytes:
            self.left -= 1
            line = f'"http://h.test/{self.left}"\n'.encode()
            return line * 100 if self.left >= 0 else b""

    tracemalloc.start()
    count = sum(1 for _ in read_rows(Endless(), name=name))  # type: ignore[arg-type]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == 100_000
    assert peak < 2_000_000
