"""Hiding of secrets, and of characters that act on a terminal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retryscrape.policy.redact import mask_text, mask_url, plain


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("http://user:secret@h.test/a", "http://u***:***@h.test/a"),
        ("http://user@h.test/", "http://u***@h.test/"),
        ("http://:secret@h.test/", "http://***:***@h.test/"),
        ("http://user:p@ss@h.test/", "http://u***:***@h.test/"),
        ("HTTPS://u:p%40@h.test:81?x=1", "HTTPS://u***:***@h.test:81?x=1"),
        ("http:\\\\user:secret@h.test/", "http:\\\\u***:***@h.test/"),
        ("two: http://a:b@c/ and ftp://d:e@f/", "two: http://a***:***@c/ and ftp://d***:***@f/"),
        ("http://h.test/a@b", "http://h.test/a@b"),
        ("http://h.test/?mail=a@b.c", "http://h.test/?mail=a@b.c"),
        ("mail a@b.c", "mail a@b.c"),
        ("", ""),
    ],
)
def test_user_and_password_in_urls(text: str, masked: str) -> None:
    assert mask_url(text) == masked
    assert mask_url(masked) == masked


def test_known_secrets_go_in_every_form() -> None:
    text = "p/w:1 and p%2Fw%3A1 and p/w%3A1"
    assert mask_text(text, ["p/w:1", "", "an"]) == "*** and *** and ***"


@given(st.text(alphabet="ab:@%!$é ", max_size=8), st.sampled_from(["", "see ", "x"]))
def test_no_password_survives(password: str, before: str) -> None:
    password = f"S{password.replace(' ', '_')}S"
    assert password not in mask_url(f"{before} http://user:{password}@h.test/path")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://h.test/ä b", "http://h.test/ä b"),
        ("\x1b[31mred\r\n", r"\x1b[31mred\r\n"),
        ("\u202egnp.exe", r"\u202egnp.exe"),
        ("\udcff", r"\udcff"),
        ("http://u:secret@h/\0", r"http://u***:***@h/\x00"),
    ],
)
def test_texts_for_a_terminal(text: str, shown: str) -> None:
    assert plain(text) == shown


def test_long_texts_are_cut() -> None:
    assert plain("x" * 50, 10) == "x" * 9 + "…"


@given(st.text())
def test_nothing_in_a_plain_text_acts(text: str) -> None:
    assert plain(text).isprintable()
