"""Which redirects and refreshes are followed: the hooks alone, without a crawl."""

from __future__ import annotations

import pytest
from scrapy import Request, Spider
from scrapy.http import HtmlResponse, Response
from scrapy.utils.test import get_crawler

from retryscrape.crawl.keys import SETTLED
from retryscrape.crawl.lean import LeanMetaRefresh
from retryscrape.crawl.middlewares import AttemptMiddleware, leads_nowhere

URL = "http://board.test/now"


def redirect(location: str, status: int = 302) -> bool:
    """Whether such an answer names nothing that can be asked for."""
    response = Response(URL, status=status, headers={"Location": location})
    return leads_nowhere(Request(URL), response)


@pytest.mark.parametrize(
    "location",
    ["http://[::1", "javascript:alert(1)", "ftp://h.test/", "file:///etc/passwd", "http://h:0x/"],
)
def test_a_redirect_to_what_is_no_address_leads_nowhere(location: str) -> None:
    assert redirect(location)


@pytest.mark.parametrize("location", ["/ok", "?a b", "//h.test/x", "///h.test/x", "https://h.test"])
def test_ordinary_redirects_are_left_to_scrapy(location: str) -> None:
    assert not redirect(location)
    assert not redirect("ftp://h.test/", status=300)


def refreshes(target: str, *, good: bool, been: tuple[str, ...] = ()) -> bool:
    """Whether a page that refreshes to ``target`` is to be followed there."""
    middleware = object.__new__(AttemptMiddleware)
    middleware.follows, middleware.max_delay, middleware.ignore_tags = True, 100, ["noscript"]
    head = f'<meta http-equiv="refresh" content="5; url={target}">'
    page = HtmlResponse(URL, body=f"<html><head>{head}</head></html>".encode())
    meta = {"redirect_urls": list(been)} if been else {}
    return middleware._refreshes(Request(URL, meta=meta), page, good)


def test_a_page_that_keeps_itself_fresh_is_followed_once() -> None:
    """Once for a cookie; then it is the page, and no redirect loop."""
    assert refreshes("/now", good=True)
    assert not refreshes("/now#top", good=True, been=(URL,))
    assert refreshes("/now", good=False, been=(URL,))
    assert refreshes("/next", good=True, been=(URL,))


@pytest.mark.parametrize("target", ["javascript:x()", "ftp://h.test/", "http://[::1"])
def test_a_refresh_to_what_is_no_address_is_not_followed(target: str) -> None:
    assert not refreshes(target, good=False)


def test_a_page_that_was_settled_is_not_followed() -> None:
    body = b'<html><head><meta http-equiv="refresh" content="5; url=/now"></head></html>'
    page = HtmlResponse(URL, body=body)
    middleware = LeanMetaRefresh.from_crawler(get_crawler(Spider))
    middleware.crawler.spider = Spider("any")
    assert middleware.process_response(Request(URL, meta={SETTLED: 1}), page) is page
    assert isinstance(middleware.process_response(Request(URL), page), Request)
