"""The page store: where pages lie, and that they are whole or not there."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retryscrape.ledger.pages import (
    PageStore,
    page_path,
    replacing_file,
    suffix_of,
    write_index,
)
from retryscrape.manifest.names import check_batch_name


@pytest.mark.parametrize(
    ("content_type", "suffix"),
    [
        ("text/html; charset=utf-8", ".html"),
        ("TEXT/HTML", ".html"),
        ("application/json", ".json"),
        ("application/ld+json", ".json"),
        ("application/rss+xml", ".xml"),
        ("image/svg+xml", ".svg"),
        ("text/plain", ".txt"),
        ("application/pdf", ".pdf"),
        ("image/png", ".png"),
        ("application/octet-stream", ".bin"),
        ("../../etc/passwd", ".bin"),
        ("", ".bin"),
        (None, ".bin"),
    ],
)
def test_suffix_by_content_type(content_type: str | None, suffix: str) -> None:
    assert suffix_of(content_type) == suffix


def test_a_page_lies_where_the_hash_of_its_url_says() -> None:
    digest = hashlib.sha256(b"http://h.test/1").hexdigest()
    expected = f"b/pages/{digest[:2]}/{digest[:16]}.html"
    assert page_path("b", "http://h.test/1", "text/html") == expected


@pytest.mark.parametrize("name", ["sample", "2026-01-31", "a b", "bücher", "x.y", "a" * 100])
def test_good_batch_names(name: str) -> None:
    assert check_batch_name(name) is None


@pytest.mark.parametrize(
    "name",
    ["", " ", ".", "..", ".x", "a/b", "a\\b", "../x", "a\0", "a\nb", "-x", "a:b", "NUL", "con.txt",
     "ledger.db", " a", "a.", "a" * 101, "é" * 60, "*"],
)  # fmt: skip
def test_batch_names_that_are_no_folder(name: str) -> None:
    assert check_batch_name(name)


@given(st.text(max_size=20))
def test_an_accepted_batch_name_stays_below_the_output_folder(name: str) -> None:
    if check_batch_name(name) is None:
        assert not {"/", "\\", "\0"} & set(name)
        assert name not in {".", ".."}


@pytest.mark.parametrize("runs", [1, 2])
def test_one_file_per_url_whatever_its_type_was_before(tmp_path, runs) -> None:
    store = PageStore(tmp_path, once=runs > 1)
    for content_type, body in (("text/html", b"old"), ("application/json", b"{}")):
        store = PageStore(tmp_path, once=True) if runs > 1 else store
        store.write(page_path("b", "http://h.test/1", content_type), body)
    (file,) = [path for path in (tmp_path / "b" / "pages").rglob("*") if path.is_file()]
    assert (file.suffix, file.read_bytes()) == (".json", b"{}")


def test_a_folder_that_was_removed_is_made_again(tmp_path) -> None:
    store = PageStore(tmp_path)
    path = page_path("b", "http://h.test/1", "text/html")
    store.write(path, b"1")
    (tmp_path / path).unlink()
    (tmp_path / path).parent.rmdir()
    store.write(path, b"2")
    assert (tmp_path / path).read_bytes() == b"2"


def test_a_page_that_cannot_be_written_leaves_nothing_behind(tmp_path, monkeypatch) -> None:
    def no_room(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("retryscrape.ledger.pages.os.write", no_room)
    path = page_path("b", "http://h.test/1", "text/html")
    with pytest.raises(OSError, match="No space"):
        PageStore(tmp_path).write(path, b"1")
    assert not list((tmp_path / path).parent.iterdir())


def test_a_file_that_fails_half_way_leaves_the_old_one_and_nothing_else(tmp_path) -> None:
    target = tmp_path / "failures.jsonl"
    target.write_text("old")

    def write_half() -> None:
        with replacing_file(target) as file:
            file.write(b"half")
            raise OSError("disk")

    with pytest.raises(OSError, match="disk"):
        write_half()
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [
        ("failures.jsonl", "old")
    ]


def test_the_index_has_one_line_a_page(tmp_path) -> None:
    target = tmp_path / "index.tsv"
    assert write_index(target, [("b/1.html", "http://h/\t\n\\"), ("b/2.html", "http://h/2")]) == 2
    assert target.read_text() == "b/1.html\thttp://h/\\t\\n\\\\\nb/2.html\thttp://h/2\n"
