"""Visible text: what a reader sees counts, what only a machine reads does not."""

import html
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_titles import ENCODINGS, PIECES

from retryscrape.policy import text as text_module
from retryscrape.policy.text import plain_text, visible_text


def seen(body: bytes, encoding: str | None = None) -> int:
    return visible_text(body, encoding, enough=1_000_000)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"", ""),
        (b"plain", "plain"),
        (b"<p>Hello</p><p>World</p>", "hello world"),
        (b"<p>a  b\n\t c</p>", "a b c"),
        (b"<p>a&nbsp;&nbsp;b</p>", "a b"),
        (b"<p>a &amp; b &lt;i&gt;</p>", "a & b <i>"),
        (b"1 < 2 and 3 > 2", "1 < 2 and 3 > 2"),
        (b"<head><title>T</title><meta name=a content=b></head><body>x", "x"),
        (b"<head><title>T</title><body>no end of the head</body>", "no end of the head"),
        (b"<header>the header</header>", "the header"),
        (b"<script>var a = '<p>no</p>'</script>yes", "yes"),
        (b"<SCRIPT>no</sCRIPT >yes", "yes"),
        (b"<script>never closed", ""),
        (b"<style>p{}</style><noscript>turn it on</noscript><template>t</template>yes", "yes"),
        (b"<!-- no <p>no</p> -->yes<!-- never closed <p>no</p>", "yes"),
        (b"<!-->yes", "yes"),
        (b"<svg><title>icon</title><text>no</text></svg>yes", "yes"),
        (b"<svg><svg>a</svg>b</svg>yes", "yes"),
        (b"<svg/>yes", "yes"),
        (b"<svg width=1 />yes", "yes"),
        (b"<svg><path d='M0'>yes", "yes"),
        (b"<video src=a>yes", "yes"),
        (b"<iframe src=a>no</iframe>yes", "yes"),
        (b"<stylesheet>yes</stylesheet><script-like>and yes</script-like>", "yes and yes"),
        (b'<a title="1 > 0">yes</a>', "yes"),
        (b"<a x-data='{ f: () => { return 1 } }'>yes</a>", "yes"),
        (b"<p title=it's>it's</p> <b title=5\">5\"</b>", "it's 5\""),
        (b"yes<a href='never closed", "yes"),
        ("<p>\u00c4\u00d6\u00dc \u4e2d\u6587</p>".encode(), "\u00e4\u00f6\u00fc \u4e2d\u6587"),
        ("<p>\u4e2d\u6587&nbsp;\u4e2d</p>".encode(), "\u4e2d\u6587 \u4e2d"),
    ],
)
def test_the_visible_text(body: bytes, text: str) -> None:
    assert plain_text(body, limit=1000) == text
    assert seen(body) == len(text)


@pytest.mark.parametrize(
    ("encoding", "declared"),
    [
        ("utf-8", None),
        ("utf-8", "utf-8"),
        ("utf-16", None),
        ("utf-16", "utf-16"),
        ("utf-8", "utf-16"),
        ("gbk", "gbk"),
        ("big5", "big5"),
        ("shift_jis", "shift_jis"),
        ("euc_jp", "euc-jp"),
        ("iso2022_jp", "iso-2022-jp"),
    ],
)
def test_characters_are_counted_not_bytes(encoding: str, declared: str | None) -> None:
    body = ("<p>" + "\u65e5\u672c" * 100 + "&nbsp;" + "\u65e5</p>").encode(encoding)
    assert seen(body, declared) == 202
    assert plain_text(body, declared, limit=3) == "\u65e5\u672c\u65e5"


def test_counting_ends_at_enough() -> None:
    page = b"<p>" + b"word " * 400 + b"</p>"
    assert visible_text(page, enough=500) == 500
    assert visible_text(page, enough=0) == 0
    assert visible_text(page, enough=5000) == 1999


def test_data_in_an_attribute_is_not_text() -> None:
    """An application's shell: nothing to read, 20 KB in one attribute."""
    data = b"{&quot;a&quot;: [1, 2] } and => some words " * 500
    assert seen(b'<body><div id="app" data-page="' + data + b'"></div></body>') == 0
    assert seen(b"<body><p>ok<div data-page='" + b'<p class="a">words</p>' * 900 + b"'></div>") == 2


@pytest.mark.parametrize("shift", range(0, 60, 7))
def test_nothing_leaks_where_a_stretch_ends(shift: int) -> None:
    """Tags, scripts, comments and characters are cut at every place in turn."""
    unit = (
        '<a href="/x?a=1">\u4e2d</a><script>no</script><!-- no --><b>b</b><svg><i>no</i></svg>'
    ).encode()
    assert plain_text(b"x" * shift + b" " + unit * 200, limit=9000).strip("x ") == " ".join(
        ["\u4e2d", "b"] * 200
    )
    long = b"x" * shift + "\u4e2d".encode() * 3000
    assert seen(long) == shift + 3000


def test_a_phrase_behind_styles_is_found_and_one_inside_a_script_is_not() -> None:
    noise = b"<style>" + b".a{color:red}" * 8000 + b"</style><script>" + b"f('<p>');" * 8000
    page = b"<body>" + noise + b"</script><p>Blocked by\n <b>network</b> security.</p>"
    assert "blocked by network security" in plain_text(page, limit=20_000)
    inside = b"<body><script>t = 'blocked by network security'</script><p>Home</p>"
    assert plain_text(inside, limit=20_000) == "home"


def test_text_behind_megabytes_of_state_is_seen() -> None:
    state = b"<script>window.state={" + b'"a":"<b>",' * 300_000 + b"}</script>"
    assert seen(b"<body>" + state + b"<p>Here it is</p>") == 10


@pytest.mark.parametrize(
    "unit",
    [
        *(
            b"<script ",
            b"<title ",
            b"<a<a",
            b"<",
            b"<script></SCRIPT>",
            b"<!-- ",
            b"<!-->",
            b"<svg>",
        ),
        *(b"<svg></svg>", b'<a b="', b"<a '>\"<b \"'", b"</", b"&amp", b"<p>", b" ", b"<template>"),
    ],
)
@pytest.mark.parametrize("start", [b"", b"<script>", b"<svg>"])
def test_five_megabytes_of_anything_are_bounded_work(unit: bytes, start: bytes) -> None:
    """Well below a second each on an idle machine; the quadratic way takes minutes."""
    body = start + unit * (5_000_000 // len(unit))
    begun = time.process_time()
    counted = visible_text(body, enough=10**9)
    assert time.process_time() - begun < 5
    assert 0 <= counted <= len(body)


@settings(max_examples=300, deadline=None)
@given(
    body=st.one_of(st.binary(max_size=200), st.lists(PIECES, max_size=40).map(b"".join)),
    encoding=ENCODINGS,
    enough=st.integers(-1, 50),
)
def test_any_bytes_can_be_counted(body: bytes, encoding: str | None, enough: int) -> None:
    count = visible_text(body, encoding, enough=enough)
    assert 0 <= count <= max(enough, 0)
    assert len(plain_text(body, encoding, limit=enough)) <= max(enough, 0) * 3  # lower() may grow


WORDS = st.lists(st.text("ab\u00e9\u4e2d&<>", min_size=1, max_size=9), max_size=40)


@settings(max_examples=200, deadline=None)
@given(words=WORDS, tag=st.sampled_from(["p", "b class='>'", "a href=x>y</a><img alt='<p>'"]))
def test_what_was_written_is_what_is_read(words: list[str], tag: str) -> None:
    page = "".join(f"<{tag}>{html.escape(word)}</p>" for word in words).encode()
    text = " ".join([f"y {word}" if "href" in tag else word for word in words])
    assert plain_text(page, limit=10_000) == text
    assert seen(page) == len(text)


@given(st.lists(st.sampled_from(["<p>", "</p>", "word ", " \n\t", "x" * 90, "\u00a0" * 9, "é", "&amp;", "&#00065;", "<script>a</script>", "&"]), max_size=60), st.sampled_from([None, "utf-8", "iso-8859-1", "gb18030"]), st.integers(0, 400))  # fmt: skip
def test_enough_is_told_at_a_glance_only_where_a_careful_count_says_so(
    parts: list[str], encoding: str | None, enough: int
) -> None:
    body = "".join(parts).encode()
    careful = sum(map(len, text_module._words(body, encoding)))
    assert visible_text(body, encoding, enough=enough) == min(careful, enough)
