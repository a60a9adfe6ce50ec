"""The title reader: what a browser's tab would say, normalised, never an icon's name."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retryscrape.policy.titles import title_of

WAIT = "just a moment..."


def page(title: bytes, before: bytes = b"", after: bytes = b"</head><body>") -> bytes:
    return b"<!DOCTYPE html><html><head>" + before + title + after + b"<h1>Hi</h1></body></html>"


@pytest.mark.parametrize(
    ("markup", "title"),
    [
        (b"<title>Just a moment...</title>", WAIT),
        (b"<TITLE>JUST A MOMENT...</TITLE>", WAIT),
        (b"<title>\n   Just a\tmoment...\r\n</title>", WAIT),
        (b"<title>Just a moment&hellip;</title>", WAIT),
        (b"<title>Just a moment&#8230;</title>", WAIT),
        (b"<title>Just&nbsp;a&#160;moment&#x2026;</title>", WAIT),
        ("<title>Just a moment\u2026</title>".encode(), WAIT),
        ("<title>Just\u00a0a moment\u2026</title>".encode(), WAIT),
        (b"<title>Just <b>a</b> moment...</title>", WAIT),
        (b'<title dir="ltr">Robot Check</title>', "robot check"),
        (b"<title\n data-a='>'\n>Robot Check</title >", "robot check"),
        (
            b"<title>Attention Required! &#124; Cloudflare</title>",
            "attention required! | cloudflare",
        ),
        (b"<title>Making sure you&#39;re not a bot!</title>", "making sure you're not a bot!"),
        (b"<title>Making sure you&rsquo;re not a bot!</title>", "making sure you're not a bot!"),
        (
            "<title>Making sure you\u2019re not a bot!</title>".encode(),
            "making sure you're not a bot!",
        ),
        ("<title>\u201cQuoted\u201d</title>".encode(), '"quoted"'),
        ("<title>Sucuri \u2013 Access Denied</title>".encode(), "sucuri - access denied"),
        ("<title>\ufeffRobot\u200b Check</title>".encode(), "robot check"),
        (b"<title>Login &amp; more &lt;b&gt;</title>", "login & more <b>"),
        (b"<title>1 < 2</title>", "1 < 2"),
    ],
)
def test_a_title_is_normalised(markup: bytes, title: str) -> None:
    assert title_of(page(markup)) == title


@pytest.mark.parametrize(
    "rest",
    [
        b"</head><body>",
        b"\n<meta charset=utf-8></head><body>",
        b'<link rel="stylesheet" href="a.css"><body>',
        b"<body>",
        b"<script>var a;</script></head><body>",
        b"<h1>",
    ],
)
def test_a_title_without_its_end_ends_at_the_next_tag(rest: bytes) -> None:
    assert title_of(page(b"<title>Just a moment...", after=rest)) == WAIT


def test_the_page_may_end_inside_the_title() -> None:
    assert title_of(b"<html><head><title>Just a moment...") == WAIT
    assert title_of(b"<html><head><title") is None


def test_the_first_of_two_titles_counts() -> None:
    assert title_of(page(b"<title>Shop</title><title>Just a moment...</title>")) == "shop"


@pytest.mark.parametrize(
    "wrapped",
    [
        b"<svg><title>Access denied</title></svg>",
        b'<svg viewBox="0 0 1 1"><g><title>Access denied</title></g></svg>',
        b"<svg><svg></svg><title>Access denied</title></svg>",
        b"<SVG><title>Access denied</title></SVG>",
        b"<!-- <title>Access denied</title> -->",
        b"<!--> --><!-- x -- <title>Access denied</title> -->",
        b"<script>document.write('<title>Access denied</title>')</script>",
        b"<SCRIPT>'<title>Access denied</title>'</sCript>",
        b"<style>/* <title>Access denied</title> */</style>",
        b"<noscript><title>Access denied</title></noscript>",
        b"<template><title>Access denied</title></template>",
        b"<template><template></template><title>Access denied</title></template>",
        b'<meta content="a > <title>Access denied</title>">',
        b"<meta content='<title>Access denied</title>'>",
        b"<!-- never closed <title>Access denied</title>",
        b"<script>never.closed('<title>Access denied</title>')",
    ],
)
def test_a_title_inside_something_else_is_none(wrapped: bytes) -> None:
    assert title_of(page(b"", before=wrapped)) is None
    assert title_of(wrapped) is None, "without a head or a body just as much"


@pytest.mark.parametrize(
    "before",
    [
        b"<svg><title>Access denied</title></svg>",
        b"<!-- <title>Access denied</title> -->",
        b"<!-->",
        b"<!--->",
        b"<svg/>",
        b"<svg width=1 />",
        b"<script>if (a < b) document.write('<title>x</title>')</script>",
        b"<noscript><img src=1></noscript>",
        b'<meta content="it\'s > 1">',
        b"<meta content=it's><meta content=5\">",
        b"<bodyguard></bodyguard><titles>x</titles>",
        b"<header>a < b</header>",
        b"\xff\xfe\x80" * 20,
        b"<style>" + b".a{color:red}\n" * 22_000 + b"</style>",
    ],
    ids=lambda before: before[:30].decode("latin-1"),
)
def test_the_title_behind_something_else_is_found(before: bytes) -> None:
    assert title_of(page(b"<title>Just a moment...</title>", before=before)) == WAIT


def test_a_title_in_the_body_is_none() -> None:
    assert title_of(page(b"", after=b"</head><BODY class=a><title>Access denied</title>")) is None
    assert title_of(b"</head><title>Access denied</title><body>") == "access denied"
    assert title_of(b"<title>Access denied</title><h1>Access denied</h1>") == "access denied"


@pytest.mark.parametrize(
    "body", [b"", b"{}", b"\x89PNG\r\n\x1a\n\0\0", b"<title></title>", b"text"]
)
def test_no_title_is_none(body: bytes) -> None:
    assert title_of(body) is None


@pytest.mark.parametrize(
    ("encoding", "declared"),
    [
        ("utf-8", None),
        ("utf-8", "utf-8"),
        ("utf-8", "iso-8859-1x"),
        ("cp1252", None),
        ("cp1252", "utf-8"),
        ("cp1252", "latin-1"),
        ("cp1252", "iso8859-1"),
        ("utf-16", None),
        ("utf-16", "utf-16"),
        ("utf-16-le", "utf-16-le"),
        ("utf-16-be", None),
        ("utf-32", None),
        ("utf-8-sig", "utf-8"),
        ("utf-8", "utf-16"),
        ("utf-8", "no\0charset"),
        ("utf-8", "hex"),
        ("gb18030", "gb18030"),
    ],
)
def test_any_encoding_is_read(encoding: str, declared: str | None) -> None:
    body = "<html><head><title>You\u2019re a robot\u2026</title></head>".encode(encoding)
    assert title_of(body, declared) == "you're a robot..."


def test_japanese_titles_in_escape_sequences_are_read() -> None:
    body = "<title>\u30a2\u30af\u30bb\u30b9\u304c\u62d2\u5426</title>".encode("iso-2022-jp")
    assert title_of(body, "iso-2022-jp") == "\u30a2\u30af\u30bb\u30b9\u304c\u62d2\u5426"


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
@pytest.mark.parametrize("start", [b"", b"<script>", b"<svg>", b"<title>"])
def test_five_megabytes_of_anything_are_bounded_work(unit: bytes, start: bytes) -> None:
    """Well below a second each on an idle machine; the quadratic way takes minutes."""
    body = start + unit * (5_000_000 // len(unit))
    begun = time.process_time()
    title = title_of(body)
    assert time.process_time() - begun < 5
    assert title is None or len(title) <= 2000


PIECES = st.sampled_from(
    [
        *(b"<title>", b"</title>", b"<svg>", b"</svg>", b"<svg/>", b"<!--", b"-->", b"<script>"),
        *(b"</script>", b"<body>", b"<", b">", b'"', b"'", b"=", b"&hellip;", b"&#x110000;", b"\0"),
        *(b"\xff\xfe", b"\xfe\xff", b"a", b" ", "\u2026".encode(), b"\xe2", b"<noscript ", b"/"),
    ]
)
ENCODINGS = st.one_of(
    st.none(),
    st.text(max_size=8),
    st.sampled_from(["utf-8", "utf-16", "utf-7", "gbk", "iso-2022-jp", "idna", "hex", "punycode"]),
)


@settings(max_examples=300, deadline=None)
@given(
    body=st.one_of(st.binary(max_size=200), st.lists(PIECES, max_size=30).map(b"".join)),
    encoding=ENCODINGS,
)
def test_any_bytes_have_a_normalised_title_or_none(body: bytes, encoding: str | None) -> None:
    title = title_of(body, encoding)
    assert title is None or (title and title == " ".join(title.split()))


@settings(max_examples=100, deadline=None)
@given(before=st.lists(PIECES.filter(lambda piece: b"<" not in piece), max_size=5))
def test_stray_characters_before_a_title_do_not_hide_it(before: list[bytes]) -> None:
    body = b"<html>" + b"".join(before) + b"<title>Robot Check</title>"
    assert title_of(body) == "robot check"
