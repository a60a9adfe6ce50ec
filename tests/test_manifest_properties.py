"""Whatever is in the file: rows in order with their lines, or a ManifestError."""

from __future__ import annotations

import csv
import gzip
import io
import json

from hypothesis import given, settings
from hypothesis import strategies as st

from retryscrape.manifest.judge import printable
from retryscrape.manifest.lines import split_lines
from retryscrape.manifest.read import ManifestError, Rejected, Row, open_manifest, read_rows

_paths = st.text(
    st.characters(exclude_characters="\0\t\r\n#\"'<>,“”‘’`", exclude_categories=["Cs", "Z"]),
    max_size=20,
).map(lambda path: f"http://h.test/a{path}z")
_lists = st.lists(_paths, max_size=20)
_ends = st.sampled_from(["\n", "\r\n", "\r"])


def rows(data: bytes, name: str) -> list[tuple[int, str]]:
    items = list(read_rows(io.BytesIO(data), name=name))
    assert all(isinstance(item, Row) for item in items), items
    return [(item.line, item.url) for item in items if isinstance(item, Row)]


@given(_lists, _ends, st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-32"]))
@settings(max_examples=60, deadline=None)
def test_text_round_trip(urls: list[str], end: str, encoding: str) -> None:
    assert rows(end.join(urls).encode(encoding), "l.txt") == list(enumerate(urls, start=1))


@given(_lists, st.sampled_from([",", ";", "\t"]), st.booleans(), _ends)
@settings(max_examples=60, deadline=None)
def test_csv_round_trip(urls: list[str], delimiter: str, quote: bool, end: str) -> None:
    file = io.StringIO()
    # With CR as line end the csv module would write a bare LF without quotes.
    quoting = csv.QUOTE_ALL if quote or end == "\r" else csv.QUOTE_MINIMAL
    writer = csv.writer(file, delimiter=delimiter, quoting=quoting, lineterminator=end)
    writer.writerow(["id", "url", "note"])
    writer.writerows([n, url, "two\nlines"] for n, url in enumerate(urls))
    expected = [(2 + 2 * n, url) for n, url in enumerate(urls)]
    assert rows(file.getvalue().encode(), "l.csv") == expected


@given(_lists, st.booleans())
@settings(max_examples=60, deadline=None)
def test_json_lines_round_trip(urls: list[str], ascii_only: bool) -> None:
    lines = [json.dumps({"url": url, "n": 1}, ensure_ascii=ascii_only) for url in urls]
    assert rows("\n".join(lines).encode(), "l.jsonl") == list(enumerate(urls, start=1))


@given(st.text("a\n\rü", max_size=40), st.lists(st.integers(1, 5), max_size=30))
def test_line_ends_are_found_wherever_the_blocks_end(text: str, sizes: list[int]) -> None:
    data, blocks = text.encode(), []
    for size in sizes:
        blocks.append(data[:size])
        data = data[size:]
    plain = text.replace("\r\n", "\n").replace("\r", "\n")
    found = "\n".join(line for _, line in split_lines([*blocks, data], 100))
    assert found.rstrip("\n") == plain.rstrip("\n")


_PIECES = st.sampled_from(
    [b"http://h/", b'"', b",", b"\n", b"\r", b"url", b"{", b"}", b"[", b"\0", b"\xff", b"\x1f\x8b",
     b"\xef\xbb\xbf", b"\xff\xfe", b"#", b'{"url":"', b'"error_class":', b"BZh9", b"\xe2\x80\xa8"]
)  # fmt: skip
_hostile = st.one_of(st.binary(max_size=300), st.lists(_PIECES, max_size=30).map(b"".join))


@given(
    _hostile,
    st.sampled_from(["l", "l.txt", "l.csv", "l.tsv", "l.jsonl", "l.json", "-"]),
    st.sampled_from([None, "http"]),
    st.sampled_from([None, "link"]),
    st.booleans(),
)
@settings(max_examples=500, deadline=None)
def test_arbitrary_bytes_raise_nothing_but_manifest_error(
    data: bytes, name: str, scheme: str | None, url_field: str | None, packed: bool
) -> None:
    last = 0
    try:
        with open_manifest("-", io.BytesIO(gzip.compress(data) if packed else data)) as stream:
            for item in read_rows(stream, name=name, default_scheme=scheme, url_field=url_field):
                assert item.line > last
                last = item.line
                if isinstance(item, Rejected):
                    assert len(item.key) <= 2_000
                    assert item.reason
                    item.key.encode()
    except ManifestError:
        pass  # the one exception there may be


@given(st.text(st.characters()))
def test_printable_text_can_be_stored_anywhere(text: str) -> None:
    shown = printable(text)
    assert "\0" not in shown
    assert shown.encode().decode() == shown
