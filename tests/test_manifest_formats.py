"""What each kind of manifest is read as: field cases A1 to A16, one small file each."""

from __future__ import annotations

import io
from collections.abc import Iterable

import pytest

from retryscrape.manifest.read import Continue, ManifestError, Rejected, Row, read_rows, read_urls
from retryscrape.manifest.rows import Item, rejected_key

S = "http://127.0.0.1:8000"


def read(data: str | bytes, name: str = "list.txt", **options: object) -> list[Item]:
    raw = data.encode() if isinstance(data, str) else data
    return list(read_rows(io.BytesIO(raw), name=name, **options))  # type: ignore[arg-type]


def short(items: Iterable[Item]) -> list[tuple[int, str]]:
    """(line, URL) of rows, (line, "! reason") of rejected lines."""
    return [
        (item.line, f"! {item.reason}" if isinstance(item, Rejected) else item.url)
        for item in items
        if not isinstance(item, Continue)
    ]


TEXTS = [
    ("A1 BOM", f"\ufeff{S}/a\r\n{S}/b\r\n", [(1, f"{S}/a"), (2, f"{S}/b")]),
    (
        "A2 line ends and blanks",
        f"{S}/a\r\n\r\n   \r\n\t{S}/b \r\n{S}/c",
        [(1, f"{S}/a"), (4, f"{S}/b"), (5, f"{S}/c")],
    ),
    ("A2 lone CR", f"{S}/a\r{S}/b\r\r{S}/c\r", [(1, f"{S}/a"), (2, f"{S}/b"), (4, f"{S}/c")]),
    (
        "A3 comments",
        f"# nightly list\n{S}/a\n  # indented\n; old style\n{S}/b#frag\n{S}/c # note\n",
        [(2, f"{S}/a"), (4, "! no scheme"), (5, f"{S}/b#frag"), (6, f"{S}/c")],
    ),
    (
        "A4 bad lines between good ones",
        f"{S}/1\nwww.h.test/no-scheme\nbad url\nhttp://h.test:99999/\nhttp://[::1\n{S}/2\n",
        [
            (1, f"{S}/1"),
            (2, "! no scheme"),
            (3, "! no scheme"),
            (4, "! bad port"),
            (5, "! bad IPv6 address"),
            (6, f"{S}/2"),
        ],
    ),
    (
        "A6 only line ends end a line",
        f"{S}/x y\n{S}/a\u2028b\n{S}/c\x0bd\n{S}/e\x85f\n",
        [(1, f"{S}/x y"), (2, f"{S}/a\u2028b"), (3, f"{S}/c\x0bd"), (4, f"{S}/e\x85f")],
    ),
    (
        "wrapped in quotes, brackets, commas",
        f"\"{S}/a\",\n'{S}/b'\n<{S}/c>\n{S}/d,\n“{S}/e”\n{S}/f,g\n",
        [(n, f"{S}/{path}") for n, path in enumerate(["a", "b", "c", "d", "e", "f,g"], start=1)],
    ),
    ("A16 nothing", "", []),
    ("A16 comments only", "# a\n\n  # b", []),
    ("empty after unwrapping", f'""\n,\n{S}/a', [(1, "! no URL"), (2, "! no URL"), (3, f"{S}/a")]),
]


@pytest.mark.parametrize(("data", "expected"), [case[1:] for case in TEXTS], ids=lambda _: "")
def test_text(data: str, expected: list[tuple[int, str]]) -> None:
    assert short(read(data)) == expected


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("l.txt", f"{S}/ä\r\n{S}/b\r\n"),
        ("l.csv", f'"url","n"\r\n{S}/ä,"1"\r\n{S}/b,2'),
        ("l.jsonl", f'{{"url":"{S}/ä"}}\r\n{{"url":"{S}/b"}}'),
    ],
)
def test_every_unicode_encoding_with_a_bom_is_read(encoding: str, name: str, text: str) -> None:
    bom = "" if encoding in ("utf-8-sig", "utf-16", "utf-32") else "\ufeff"
    items = read((bom + text).encode(encoding), name)
    assert [url for _, url in short(items)] == [f"{S}/ä", f"{S}/b"]


def test_a_broken_character_in_utf_16_costs_its_line_only() -> None:
    data = f"\ufeff{S}/a\n{S}/".encode("utf-16-le") + b"\x00\xd8" + f"\n{S}/c".encode("utf-16-le")
    assert short(read(data + b"x")) == [(1, f"{S}/a"), (2, "! not UTF-8"), (3, "! not UTF-8")]


def test_a_latin_1_line_is_rejected_and_a_latin_1_comment_skipped() -> None:
    items = read(f"# caf\u00e9\n{S}/caf\u00e9\n{S}/b\n".encode("latin-1"))
    assert short(items) == [(2, "! not UTF-8"), (3, f"{S}/b")]
    assert isinstance(items[0], Rejected)
    assert items[0].key == f"{S}/caf\\xe9"


@pytest.mark.parametrize("length", [70_000, 300_000, 2_000_000])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_line_over_64_kb_is_rejected_with_a_bounded_key(length: int, end: str) -> None:
    items = read(end.join([f"{S}/a", f"{S}/" + "x" * length, f"{S}/b"]))
    assert short(items) == [(1, f"{S}/a"), (2, "! line over 64 KB"), (3, f"{S}/b")]
    assert isinstance(items[1], Rejected)
    assert len(items[1].key) == 2_000


def test_a_nul_costs_its_line_only() -> None:
    items = read(f"{S}/a\nhttp://h/\0x\n{S}/b\n")
    assert short(items) == [(1, f"{S}/a"), (2, "! control character"), (3, f"{S}/b")]
    assert isinstance(items[1], Rejected)
    assert items[1].key == "http://h/\\x00x"


def test_template_braces_are_crawled_with_a_warning() -> None:
    (row,) = read(f"{S}/{{{{item.url}}}}\n")
    assert isinstance(row, Row)
    assert row.warning == "template braces in the URL"


def test_the_key_stays_as_written_and_the_target_is_what_to_request() -> None:
    (row,) = read("HTTP://u:p@Bücher.test:80/x#y\n")
    assert isinstance(row, Row)
    assert row.url == "HTTP://u:p@Bücher.test:80/x#y"
    assert row.target is not None
    assert row.target.url == "http://xn--bcher-kva.test/x#y"
    assert row.target.userinfo == "u:p"


TABLES = [
    # (name, content, [(line, url, fields)])
    (
        "l.csv",
        f'id,URL,note\n1,"{S}/a?x=1,2",hi\n',
        [(2, f"{S}/a?x=1,2", {"id": "1", "note": "hi"})],
    ),
    ("l.csv", f"URL;date\n{S}/a;2026-01-01\n", [(2, f"{S}/a", {"date": "2026-01-01"})]),
    ("l.csv", f"{S}/a,foo\n", [(1, f"{S}/a", {"column_2": "foo"})]),
    ("l.csv", f"\ufeffurl\n{S}/a\n", [(2, f"{S}/a", None)]),
    ("l.csv", f'\ufeff"Url ";"d,e"\n"{S}/a";1\n', [(2, f"{S}/a", {"d,e": "1"})]),
    ("l.tsv", f"n\tUrl \n1\t{S}/a,b;c\n", [(2, f"{S}/a,b;c", {"n": "1"})]),
    (
        "l.csv",
        f'url,note\n{S}/a\n{S}/b,x,y,z\n{S}/c,"two\nlines"\n{S}/d,""\n',
        [
            (2, f"{S}/a", None),
            (3, f"{S}/b", {"note": "x", "extra": ["y", "z"]}),
            (4, f"{S}/c", {"note": "two\nlines"}),
            (6, f"{S}/d", {"note": ""}),
        ],
    ),
    ("l.csv", f'url\n{S}/a,b\n"{S}/c,d"\n', [(2, f"{S}/a,b", None), (3, f"{S}/c,d", None)]),
    ("l.csv", f"sep=;\r\nurl;x\r\n{S}/a;1\r\n", [(3, f"{S}/a", {"x": "1"})]),
    ("l.csv", f"# made by hand\nurl,x\n# off\n{S}/a,1\n", [(4, f"{S}/a", {"x": "1"})]),
    ("l.csv", f"id,link\n1,{S}/a\n", [(2, f"{S}/a", {"id": "1"})]),
    (
        "l.csv",
        f"{S}/a?x=1,2\n{S}/b\n{S}/c\n",
        [(1, f"{S}/a?x=1,2", None), (2, f"{S}/b", None), (3, f"{S}/c", None)],
    ),
    ("l.csv", f"url,n,n,\n{S}/a,1,2,3\n", [(2, f"{S}/a", {"n": "1", "n_2": "2", "column_4": "3"})]),
    ("l.txt", f"id,url\n1,{S}/a\n", [(2, f"{S}/a", {"id": "1"})]),
    ("-", f"{S}/a\tnote\n", [(1, f"{S}/a", {"column_2": "note"})]),
    ("-", f"{S}/a,b\n{S}/x,url\n", [(1, f"{S}/a,b", None), (2, f"{S}/x,url", None)]),
    (
        "l.txt",
        f"# mine\nURL\n{S}/a,b # note\n<{S}/c>,\n",
        [(3, f"{S}/a,b", None), (4, f"{S}/c", None)],
    ),
    ("l.csv", "", []),
    ("l.csv", "url,x\n", []),
]


@pytest.mark.parametrize(("name", "data", "expected"), TABLES)
def test_tables(name: str, data: str, expected: list[tuple[int, str, object]]) -> None:
    rows = [item for item in read(data, name) if isinstance(item, Row)]
    assert [(row.line, row.url, row.fields) for row in rows] == expected


def test_a_header_is_never_a_row_nor_a_rejected_line() -> None:
    for name, data, expected in TABLES:
        assert len(read(data, name)) == len(expected), data


def test_an_empty_url_cell_is_rejected_with_its_line() -> None:
    items = read(f"url,note\n{S}/a,1\n,2\n  ,3\nnope,4\n", "l.csv")
    assert short(items)[1:] == [
        (3, "! no URL in its column"),
        (4, "! no URL in its column"),
        (5, "! no scheme"),
    ]
    keys = [rejected_key(item, None) for item in items if isinstance(item, Rejected)]
    assert keys == ["line:3", "line:4", "nope"]


def test_an_unclosed_quote_costs_its_own_line_only() -> None:
    tail = "".join(f"{S}/{n},x\n" for n in range(5_000))
    items = read(f'url,note\n{S}/a,1\n{S}/b,"oops\n{tail}{S}/z,"cut', "l.csv")
    assert short(items)[1] == (3, "! quote is never closed")
    assert short(items)[-1] == (5004, "! quote is never closed")
    assert [item.url for item in items if isinstance(item, Row)] == [
        f"{S}/a",
        *(f"{S}/{n}" for n in range(5_000)),
    ]


def test_two_stray_quotes_do_not_swallow_the_lines_between_them() -> None:
    data = f'url,note\n{S}/a,"oops\n{S}/b,1\n{S}/c,"2"\n{S}/d,"x"y\n{S}/e,5"\n'
    assert short(read(data, "l.csv")) == [
        (2, "! quote is never closed"),
        (3, f"{S}/b"),
        (4, f"{S}/c"),
        (5, f"{S}/d"),
        (6, f"{S}/e"),
    ]


def test_a_windows_1252_column_is_read_and_said() -> None:
    (row,) = read(f"url;name\n{S}/a;Müller\n".encode("cp1252"), "l.csv")
    assert isinstance(row, Row)
    assert row.fields == {"name": "Müller"}
    assert row.warning == "columns are not UTF-8, read as Windows-1252"


def test_url_field_names_the_column() -> None:
    (row,) = read(f"url,Link\nx,{S}/a\n", "l.csv", url_field="link")
    assert isinstance(row, Row)
    assert (row.url, row.fields) == (f"{S}/a", {"url": "x"})


def test_a_missing_url_field_is_refused_with_the_columns_there_are() -> None:
    with pytest.raises(ManifestError, match="no column 'href'; its first line has: url, note"):
        read(f"url,note\n{S}/a,1\n", "l.csv", url_field="href")


def test_json_lines_of_every_quality() -> None:
    data = (
        f'{{"url":"{S}/a"}}\n{{"url": 5}}\n"{S}/b"\n[]\n\n{{"url":"{S}/c","url_x":1}}\n'
        f'{{"id":1}}\nnull\n{{"url":"ftp://h/"}}\n{{"URL":" {S}/e "}}\n{{"url":"{S}/f"}},\n'
        f'{{"url":"{S}/d'
    )
    items = read(data, "l.jsonl")
    assert short(items) == [
        (1, f"{S}/a"),
        (2, '! "url" is not text'),
        (3, f"{S}/b"),
        (4, "! neither a JSON object nor a string"),
        (6, f"{S}/c"),
        (7, '! no "url"'),
        (8, "! neither a JSON object nor a string"),
        (9, "! unsupported scheme"),
        (10, f"{S}/e"),
        (11, f"{S}/f"),
        (12, "! no valid JSON"),
    ]
    assert isinstance(items[4], Row)
    assert items[4].fields == {"url_x": 1}


@pytest.mark.parametrize(
    "line",
    [
        '{"url":"http://h/","x":' + "[" * 100_000 + "]" * 100_000 + "}",
        '{"url":"http://h/","x":' + "[" * 200 + "]" * 200 + "}",
        '{"url":"http://h/","x":' + "9" * 10_000 + "}",
        '{"url":"http://h/\\ud800"}',
        '{"url":"http://h/\\u0000"}',
    ],
)
def test_json_bombs_are_rejected_lines(line: str) -> None:
    items = read(f'{line}\n{{"url":"{S}/a"}}\n', "l.jsonl")
    assert [type(item) for item in items] == [Rejected, Row]


def test_json_fields_can_always_be_written_again() -> None:
    (row,) = read('{"url":"http://h/","a":NaN,"b":1e999,"c":["\\ud800\\u0000"]}\n', "l.jsonl")
    assert isinstance(row, Row)
    assert row.fields == {"a": None, "b": None, "c": ["\\ud800\\x00"]}


FEED = (
    '{"url":"http://h/a","batch_id":"b","status":"failed","outcome":"blocked",'
    '"error_class":"retryable","http_code":403,"vendor":"cloudflare","reason":"x","attempts":3,'
    '"passes":1,"cost":6.0,"rung":"http","escalate":true,"not_before":12.5,'
    '"last_error_at":"2026-01-01T00:00:00Z","job_id":"j","final_url":null,"action":"wait",'
    '"fields":{"id":"7"}}\n'
    '{"url":"http://h/b","batch_id":"b","status":"pending","error_class":null,"fields":null}\n'
    '{"url":"h/c","batch_id":"b","outcome":"rejected",'
    '"error_class":"permanent","reason":"no scheme"}\n'
    '{"url":"http://h/d","batch_id":5,"error_class":"odd","attempts":-1,"cost":"x","passes":true,'
    '"http_code":1e400,"not_before":-1,"escalate":"no"}\n'
    '{"manifest":"urls.txt","from_line":41,"batch_id":"b"}\n'
)


def test_a_failures_feed_brings_batch_fields_and_history_along() -> None:
    blocked, pending, refused, odd, pointer = read(FEED, "failures.jsonl")
    assert isinstance(blocked, Row)
    assert (blocked.batch, blocked.fields) == ("b", {"id": "7"})
    assert blocked.prior == {
        "status": "failed",
        "outcome": "blocked",
        "error_class": "retryable",
        "http_code": 403,
        "vendor": "cloudflare",
        "reason": "x",
        "attempts": 3,
        "passes": 1,
        "cost": 6.0,
        "rung": "http",
        "escalate": True,
        "not_before": 12.5,
        "last_error_at": "2026-01-01T00:00:00Z",
        "job_id": "j",
    }
    assert isinstance(pending, Row)
    assert pending.prior == {"status": "pending", "error_class": None}
    assert isinstance(refused, Rejected)
    assert (refused.key, refused.batch, refused.reason) == ("h/c", "b", "no scheme")
    assert isinstance(odd, Row)
    assert (odd.batch, odd.prior) == (None, {"error_class": None})
    assert pointer == Continue(manifest="urls.txt", from_line=41, line=5, batch="b")


def test_rejected_rows_of_a_feed_are_judged_again_only_when_asked() -> None:
    again = read(FEED, "failures.jsonl", include_permanent=True, default_scheme="https")
    settled = read(FEED, "failures.jsonl", default_scheme="https")
    assert isinstance(again[2], Row)
    assert isinstance(settled[2], Rejected)


def test_a_rejected_row_of_a_feed_keeps_its_key() -> None:
    refused = read(FEED, "failures.jsonl")[2]
    assert isinstance(refused, Rejected)
    assert rejected_key(refused, held_by=977) == "h/c"


def test_repeated_rejected_lines_get_the_line_as_key() -> None:
    first, second = read("nope\nnope\n")
    assert isinstance(first, Rejected)
    assert isinstance(second, Rejected)
    assert rejected_key(first, None) == "nope"
    assert rejected_key(first, held_by=1) == "nope"  # the same line, read again
    assert rejected_key(second, held_by=1) == "line:2"


NO_MANIFESTS = [
    ("l.txt", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "image"),
    ("l.xlsx", b"PK\x03\x04\x14\0\6\0", "spreadsheet"),
    ("l.txt", b"%PDF-1.7\n%\xe2\xe3", "PDF"),
    ("l.txt", b"\x1f\x8b\x08\0", "compressed twice"),
    ("l.txt", f"{S}/a\n{S}/b\n".encode("utf-16-le"), "UTF-16 without a BOM"),
    ("l.txt", f"{S}/a\n{S}/b\n".encode("utf-16-be"), "UTF-16 without a BOM"),
    ("l.bin", bytes(range(256)) * 8, "binary"),
    ("l.html", b"<!DOCTYPE html><title>Sign in</title>", "HTML"),
    ("l.xml", b'<?xml version="1.0"?><urlset/>', "XML"),
    ("l.json", f'["{S}/a"]'.encode(), "JSON lines"),
    ("l.json", f'[{{"url":"{S}/a"}}][{{"url":"{S}/b"}}]'.encode(), "JSON lines"),
    ("l.json", b"[]", "JSON lines"),
    ("l.jsonl", f'[\n  {{"url":"{S}/a"}}\n]'.encode(), "JSON lines"),
    ("l.json", f'\xef\xbb\xbf{{\n  "url":"{S}/a"\n}}'.encode("latin-1"), "JSON lines"),
]


@pytest.mark.parametrize(("name", "data", "what"), NO_MANIFESTS)
def test_what_is_no_manifest_is_refused_before_the_first_row(
    name: str, data: bytes, what: str
) -> None:
    with pytest.raises(ManifestError, match=what) as caught:
        read_rows(io.BytesIO(data), name=name)
    assert caught.value.line is None
    assert f"manifest {name} (/" in str(caught.value)


def test_from_line_reads_on_and_still_knows_the_header() -> None:
    table = "url,n\n" + "".join(f"{S}/{n},{n}\n" for n in range(2, 10))
    assert [item.line for item in read(table, "l.csv", from_line=8)] == [8, 9]
    assert [item.line for item in read(f"{S}/a\n{S}/b\n{S}/c\n", from_line=2)] == [2, 3]
    assert [item.line for item in read(FEED, "failures.jsonl", from_line=4)] == [4, 5]


def test_urls_from_an_argument() -> None:
    items = list(read_urls(f'  {S}/a "{S}/b",\n{S}/c {S}/d# nope'))
    assert short(items) == [
        (1, f"{S}/a"),
        (2, f"{S}/b"),
        (3, f"{S}/c"),
        (4, f"{S}/d#"),
        (5, "! no scheme"),
    ]


def test_a_feed_cannot_name_a_batch_that_is_no_folder() -> None:
    """``batch_id`` becomes a folder below OUT: ``../x`` would be one beside it."""
    feed = (
        '{"url": "http://h.test/", "error_class": "retryable", "batch_id": "../x"}\n'
        '{"manifest": "m.txt", "from_line": 2, "batch_id": "a/b"}\n'
    )
    found = list(read_rows(io.BytesIO(feed.encode()), name="failures.jsonl"))
    assert [(type(item), item.batch) for item in found] == [(Rejected, None)] * 2
    assert [item.reason for item in found if isinstance(item, Rejected)] == [
        '"batch_id" holds the character /'
    ] * 2
