"""Which strings are crawlable URLs, and what is requested for them."""

from __future__ import annotations

import pytest
import scrapy
from hypothesis import example, given, settings
from hypothesis import strategies as st

from retryscrape.manifest.urls import Bad, Good, check_url

GOOD = [
    # (input, URL to request, host)
    ("http://h.test/a", "http://h.test/a", "h.test"),
    ("HTTP://H.Test/A", "http://h.test/A", "h.test"),
    ("https://h.test", "https://h.test", "h.test"),
    ("http://h.test?x=1", "http://h.test?x=1", "h.test"),
    ("http://h.test/b#frag", "http://h.test/b#frag", "h.test"),
    ("http://h.test:80/", "http://h.test/", "h.test"),
    ("http://h.test:/", "http://h.test/", "h.test"),
    ("http://h.test:443/", "http://h.test:443/", "h.test:443"),
    ("https://h.test:8443/", "https://h.test:8443/", "h.test:8443"),
    ("https://h.test:0443/", "https://h.test/", "h.test"),
    ("http://127.0.0.1:9/x", "http://127.0.0.1:9/x", "127.0.0.1:9"),
    ("http://[::1]:8080/x", "http://[::1]:8080/x", "[::1]:8080"),
    ("http://a_b.test/", "http://a_b.test/", "a_b.test"),
    ("http://xn--ho-hia.test/", "http://xn--ho-hia.test/", "xn--ho-hia.test"),
    ("http://bücher.test/", "http://xn--bcher-kva.test/", "xn--bcher-kva.test"),
    ("http://BÜCHER.test/", "http://xn--bcher-kva.test/", "xn--bcher-kva.test"),
    ("http://b%C3%BCcher.test/", "http://xn--bcher-kva.test/", "xn--bcher-kva.test"),
    ("http://日本。test/", "http://xn--wgv71a.test/", "xn--wgv71a.test"),
    ("http://h.test./x", "http://h.test./x", "h.test."),
    ("http://h.test/x y", "http://h.test/x y", "h.test"),
    ("http://h.test/ä|[]{}", "http://h.test/ä|[]{}", "h.test"),
    ("http://h.test/a\u2028b", "http://h.test/a\u2028b", "h.test"),
    ("http://h.test/c\x0bd", "http://h.test/c\x0bd", "h.test"),
    ("http://h.test/%zz", "http://h.test/%zz", "h.test"),
]

BAD = [
    ("h.test/a", "no scheme"),
    ("//h.test/a", "no scheme"),
    ("localhost:8000/a", "no scheme"),
    ("www.h.test", "no scheme"),
    ("bad url", "no scheme"),
    ("; old style", "no scheme"),
    ("/relative", "no scheme"),
    ("mailto:a@b", "unsupported scheme"),
    ("javascript:void(0)", "unsupported scheme"),
    ("data:,x", "unsupported scheme"),
    ("tel:12345", "unsupported scheme"),
    ("ftp://127.0.0.1:1/x", "unsupported scheme"),
    ("file:///etc/passwd", "unsupported scheme"),
    ("s3://b/k", "unsupported scheme"),
    ("https:/h.test/a", "no host"),
    ("http:h/a", "no host"),
    ("http:///a", "no host"),
    ("http://", "no host"),
    ("http://:80/", "no host"),
    ("http://user@/", "no host"),
    ("http://h.test:99999/", "bad port"),
    ("http://h.test:0/", "bad port"),
    ("http://h.test:abc/", "bad port"),
    ("http://h.test:٣/", "bad port"),
    ("http://h.test:1:2/", "bad port"),
    ("http://h.test:" + "9" * 5000, "bad port"),
    ("http://[::1", "bad IPv6 address"),
    ("http://[::1]x/", "bad IPv6 address"),
    ("http://[fe80::1%25eth0]/", "bad IPv6 address"),
    ("http://[zz]/", "bad IPv6 address"),
    ("http://..127.0.0.1/", "empty label in the host name"),
    ("http://a..b/", "empty label in the host name"),
    ("http://./", "empty label in the host name"),
    (f"http://{'a' * 70}.test/", "label of the host name over 63 characters"),
    (f"http://{'ü' * 63}.test/", "label of the host name over 63 characters"),
    (f"http://{'a.' * 130}test/", "host name over 253 characters"),
    (f"http://{'ü' * 5000}/", "host name over 253 characters"),
    ("http://\u200bphoto.test/", "invisible character in the host name"),
    ("http://pho\u00adto.test/", "invisible character in the host name"),
    ("http://h test/", "bad character in the host name"),
    ("http://h\\x/", "bad character in the host name"),
    ("http://h\x01/", "bad character in the host name"),
    ("http://{{host}}/", "bad character in the host name"),
    ("http://a／b/", "bad character in the host name"),
    ("http://h.test/a\0b", "control character"),
    ("http://h.test/a\tb", "control character"),
    ("http://h.test/a\nhttp://h.test/b", "control character"),
    ("http://h.test/\udce4", "not UTF-8"),
    ("http://h.test/" + "a" * 70_000, "URL over 64 KB"),
    ("", "empty"),
]


@pytest.mark.parametrize(("text", "url", "host"), GOOD)
def test_a_crawlable_url_gives_what_to_request_and_the_host_to_be_polite_to(
    text: str, url: str, host: str
) -> None:
    assert check_url(text) == Good(url, host)


@pytest.mark.parametrize(("text", "reason"), BAD)
def test_anything_else_gives_a_reason(text: str, reason: str) -> None:
    assert check_url(text) == Bad(reason)


@pytest.mark.parametrize("text", ["h.test/a", "//h.test/a", "localhost:8000/a", "www.h.test"])
def test_default_scheme_takes_all_four_spellings_without_a_scheme(text: str) -> None:
    assert check_url(text, "https") == Good(
        f"https://{text.removeprefix('//')}", check_url(f"https://{text.removeprefix('//')}").host
    )  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "text", ["mailto:a@b", "ftp://h.test/", "bad url", "; old style", "/relative", ""]
)
def test_default_scheme_saves_nothing_else(text: str) -> None:
    assert isinstance(check_url(text, "https"), Bad)


@pytest.mark.parametrize(
    ("text", "credentials"),
    [
        ("http://user:pass@h.test/x", ("user", "pass")),
        ("http://user@h.test/x", ("user", "")),
        ("http://us%40er:p%3Aä@h.test/x", ("us@er", "p:ä")),
        ("http://a:b@c:d@h.test/x", ("a", "b@c:d")),
    ],
)
def test_user_and_password_are_taken_out_of_the_request_url(
    text: str, credentials: tuple[str, str]
) -> None:
    target = check_url(text)
    assert isinstance(target, Good)
    assert (target.url, target.host) == ("http://h.test/x", "h.test")
    assert target.credentials == credentials


@pytest.mark.parametrize("text", [text for text, _, _ in GOOD])
def test_scrapy_accepts_every_good_url_and_sends_it_to_the_same_host(text: str) -> None:
    target = check_url(text)
    assert isinstance(target, Good)
    assert scrapy.Request(target.url).url.split("/")[2].split("?")[0].lower() == target.host


_url_like = st.builds(
    "".join,
    st.tuples(
        st.sampled_from(["http://", "https://", "HTTP:", "//", "", "ftp://", "http://[", "x:"]),
        st.text(
            alphabet=st.one_of(
                st.characters(), st.sampled_from(list("abc.:@[]%-_ü/?#\\\u200b。\u00ad1２"))
            ),
            max_size=30,
        ),
        st.sampled_from(["", ".test", ":80", ":99999", "]", "/", "/ä?b=c#d", "#", "?\x0b\x7f\x85"]),
    ),
)


@given(st.one_of(st.text(), _url_like), st.sampled_from([None, "http", "https"]))
@example("http://\u2260a/", None)  # NFKC tricks that urlsplit raises on
@example("http://xn--\u00fc.test/", None)
@settings(max_examples=400, deadline=None)
def test_no_string_raises_and_what_is_good_is_good_for_scrapy(
    text: str, default_scheme: str | None
) -> None:
    target = check_url(text, default_scheme)
    if isinstance(target, Good):
        assert scrapy.Request(target.url).url.startswith(("http://", "https://"))
        assert target.host.isascii()
        assert target.host == target.host.lower()
    else:
        assert target.reason
