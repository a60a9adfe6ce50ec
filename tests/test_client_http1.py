"""HTTP/1.1 without sockets: answers in any pieces, their ends, and what is none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scrapy.http import Headers

from retryscrape.crawl.clients.base import scrapy_headers
from retryscrape.crawl.clients.http1 import MAX_HEAD, Answer, End, request_head
from retryscrape.crawl.clients.urls import address_of, without_userinfo

CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"


def answer(data: bytes, method: str = "GET", head: bytes = b"HTTP/1.1 200 OK\r\n") -> Answer:
    made = Answer(method)
    made.feed(head + data)
    return made


@pytest.mark.parametrize(
    ("data", "body"),
    [
        (b"Content-Length: 2\r\n\r\nok", b"ok"),
        (b"Content-Length: 2\n\nok", b"ok"),
        (b"content-length:2\r\nContent-Length: 2\r\n\r\nok", b"ok"),
        (b"Content-Length: 2, 2\r\n\r\nok", b"ok"),
        (b"Content-Length: 0\r\n\r\n", b""),
        (CHUNKED + b"2\r\nok\r\n0\r\n\r\n", b"ok"),
        (CHUNKED + b"1;ext=1\r\no\r\n001\r\nk\r\n0\r\nTrailer: x\r\n\r\n", b"ok"),
        (b"Content-Length: 9\r\n" + CHUNKED + b"2\r\nok\r\n0\r\n\r\n", b"ok"),
        (b"no colon here\r\nContent-Length: 2\r\n\r\nok", b"ok"),
        (b"X-Folded: a\r\n b\r\nContent-Length: 2\r\n\r\nok", b"ok"),
    ],
)
def test_answers_that_browsers_read(data: bytes, body: bytes):
    read = answer(data)
    assert (read.done, read.bad, read.body) == (True, "", body)


@pytest.mark.parametrize(
    "line",
    [b"HTTP/1.1 200 OK", b"HTTP/1.0 200", b"HTTP/1.1  200  Very OK", b"\r\n\r\nHTTP/1.1 200 OK"],
)
def test_status_lines_that_browsers_read(line: bytes):
    assert answer(b"\r\nContent-Length: 0\r\n\r\n", head=line).status == 200


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"<html>",
        b"HTTP/1.1 abc Hm\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\n" + CHUNKED + b"ok\r\n",
        b"HTTP/1.1 200 OK\r\n" + CHUNKED + b"-2\r\nok\r\n",
        b"HTTP/1.1 200 OK\r\n" + CHUNKED + b"0" * 20_000,
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * MAX_HEAD,
    ],
)
def test_what_is_no_answer_is_bad(data: bytes):
    assert answer(data, head=b"").bad


def test_interim_answers_are_passed_over():
    interim = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
    read = answer(b"Content-Length: 2\r\n\r\nok", head=interim * 2 + b"HTTP/1.1 404 No\r\n")
    assert (read.status, read.body, len(read.headers)) == (404, b"ok", 1)


def test_a_flood_of_interim_answers_is_bad():
    """A thousand of them in one piece must not be a thousand calls deep."""
    assert answer(b"HTTP/1.1 100 Continue\r\n\r\n" * 5_000, head=b"").bad


@pytest.mark.parametrize("status", [b"204", b"304"])
def test_answers_that_have_no_body_are_done_at_their_head(status: bytes):
    head = b"HTTP/1.1 %b X\r\nContent-Length: 5\r\n\r\n" % status
    assert answer(b"", head=head).done


def test_what_follows_an_answer_is_surplus():
    assert answer(b"Content-Length: 2\r\n\r\nokHTTP").surplus == b"HTTP"
    assert answer(CHUNKED + b"2\r\nok\r\n0\r\n\r\nHTTP").surplus == b"HTTP"
    assert answer(b"\r\nearly", method="CONNECT").surplus == b"early"


@pytest.mark.parametrize(
    ("data", "clean", "end"),
    [
        (b"Content-Le", True, End.NOTHING),
        (b"Content-Length: 5\r\n\r\nok", True, End.TRUNCATED),
        (CHUNKED, True, End.TRUNCATED),
        (CHUNKED + b"2\r\nok\r\n", True, End.TRUNCATED),
        (CHUNKED + b"2\r\nok\r\n0\r\n", True, End.COMPLETE),
        (b"\r\nok", True, End.PARTIAL),
        (b"\r\nok", False, End.TRUNCATED),
        (b"Content-Length: soon\r\n\r\nok", True, End.PARTIAL),
    ],
)
def test_what_the_end_of_a_connection_means(data: bytes, clean: bool, end: End):
    assert answer(data).eof(clean=clean) is end


@pytest.mark.parametrize(
    ("head", "alive"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", True),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: Close\r\n\r\n", False),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", False),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\nConnection: Keep-Alive\r\n\r\n", True),
        (b"HTTP/1.1 200 OK\r\n\r\n", False),
    ],
)
def test_whether_a_connection_can_be_used_again(head: bytes, alive: bool):
    assert answer(b"", head=head).keep_alive is alive


bodies = st.binary(max_size=300)


@st.composite
def framed(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """An answer's bytes and its body."""
    body = draw(bodies)
    if draw(st.booleans()):
        return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body), body
    cuts = sorted(draw(st.sets(st.integers(1, max(1, len(body) - 1)), max_size=4)))
    parts = [body[a:b] for a, b in zip([0, *cuts], [*cuts, len(body)], strict=True)]
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts if part)
    return b"HTTP/1.1 200 OK\r\n" + CHUNKED + chunks + b"0\r\n\r\n", body


@given(framed(), st.lists(st.integers(1, 400), max_size=12))
def test_pieces_make_no_difference(whole: tuple[bytes, bytes], cuts: list[int]):
    data, body = whole
    read, at = Answer("GET"), 0
    for cut in sorted({*(cut for cut in cuts if cut < len(data)), len(data)}):
        assert not read.done
        read.feed(data[at:cut])
        at = cut
    assert (read.done, read.bad, read.body, read.surplus) == (True, "", body, b"")


@given(framed(), st.data())
def test_a_cut_answer_is_never_whole(whole: tuple[bytes, bytes], data: st.DataObject):
    sent, _ = whole
    cut = data.draw(st.integers(0, len(sent) - 3))
    read = Answer("GET")
    read.feed(sent[:cut])
    assert read.eof(clean=True) in {End.NOTHING, End.TRUNCATED}


@given(st.lists(st.binary(max_size=60), max_size=5))
def test_no_bytes_whatever_raise(pieces: list[bytes]):
    read = Answer("GET")
    for piece in pieces:
        read.feed(piece)
    assert read.eof(clean=True) in End


header_names = st.text("abcXYZ-", min_size=1).map(str.encode)


@given(st.lists(st.tuples(header_names, st.binary(max_size=20))))
def test_headers_are_those_that_scrapy_makes(lines: list[tuple[bytes, bytes]]):
    expected = Headers()
    for name, value in lines:
        expected.appendlist(name, value)
    assert scrapy_headers(lines) == expected


def test_a_request_gets_only_what_http_needs():
    head = request_head("GET", "/a?b", "h.test", [(b"X-B", b"1"), (b"X-A", b"2")], b"")
    assert head == b"GET /a?b HTTP/1.1\r\nHost: h.test\r\nX-B: 1\r\nX-A: 2\r\n\r\n"


@given(st.binary(), st.binary())
def test_no_header_smuggles_another_one_in(name: bytes, value: bytes):
    head = request_head("GET", "/", "h.test", [(b"X" + name, value)], b"")
    assert head.count(b"\r\n") == 4
    assert head.count(b"\n") == 4
    assert head.count(b"\r") == 4


@pytest.mark.parametrize(
    ("url", "host", "port", "netloc", "target"),
    [
        ("http://h.test", "h.test", 80, "h.test", "/"),
        ("HTTPS://H.test:8443?a#b", "h.test", 8443, "h.test:8443", "/?a"),
        (
            "https://u:p%40@h.test/a;b?c=http://x@y/#z",
            "h.test",
            443,
            "h.test",
            "/a;b?c=http://x@y/",
        ),
        ("https://h.test:443/", "h.test", 443, "h.test", "/"),
        ("http://[::1]:81/a", "::1", 81, "[::1]:81", "/a"),
    ],
)
def test_parts_of_a_url(url: str, host: str, port: int, netloc: str, target: str):
    assert address_of(url)[1:] == (host, port, netloc, target)


@pytest.mark.parametrize(
    "url", ["http:///a", "/a", "ftp://h/", "http://h:99999/", "http://h/a b", "http://h\r\n/", ""]
)
def test_a_url_that_cannot_be_asked_for(url: str):
    with pytest.raises(ValueError):
        address_of(url)


def test_without_userinfo_keeps_the_rest():
    assert without_userinfo("http://u:p@h.test/a@b?c@d#e") == "http://h.test/a@b?c@d"
    assert without_userinfo("http://h.test/a@b") == "http://h.test/a@b"
