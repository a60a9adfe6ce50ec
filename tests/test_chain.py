"""The downloader middlewares are called as Scrapy calls them, and the lean ones do as theirs."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest
from scrapy import Request, Spider
from scrapy.downloadermiddlewares import cookies as scrapys_cookies
from scrapy.downloadermiddlewares.cookies import CookiesMiddleware
from scrapy.downloadermiddlewares.redirect import MetaRefreshMiddleware
from scrapy.http import HtmlResponse, Response
from scrapy.utils.test import get_crawler

from retryscrape.crawl.chain import Chain, unwrapped
from retryscrape.crawl.lean import LeanCookies, LeanMetaRefresh, LeanStats, may_refresh

URL = "http://h.test/"


class Named:
    """A middleware that says that it was there; ``answers`` by the name of the hook."""

    def __init__(self, name: str, said: list[str], **answers: Any) -> None:
        self.name, self.said, self.answers = name, said, answers

    def _say(self, hook: str, otherwise: Any) -> Any:
        self.said.append(f"{self.name} {hook}")
        return self.answers.get(hook, otherwise)

    def process_request(self, request: Request) -> Any:
        return self._say("request", None)

    def process_response(self, request: Request, response: Response) -> Any:
        return self._say("response", response)

    def process_exception(self, request: Request, exception: Exception) -> Any:
        return self._say("exception", None)


class Slow(Named):
    """The same, each hook a coroutine; the old ``spider`` argument in one of them."""

    async def process_request(self, request: Request) -> Any:
        await asyncio.sleep(0)
        return super().process_request(request)

    async def process_response(  # type: ignore[override]
        self, request: Request, response: Response, spider: Spider
    ) -> Any:
        assert spider.name == "s"
        return super().process_response(request, response)


def went(*middlewares: Any, fails: bool = False) -> Any:
    """What comes out of a chain of these; an exception is given back."""
    crawler = get_crawler(Spider)
    crawler.spider = Spider(name="s")
    chain = Chain(_manager(crawler, middlewares))

    async def fetch(request: Request) -> Response:
        if fails:
            raise ConnectionError("down")
        return Response(URL, request=request)

    async def go() -> Any:
        try:
            return await chain.download(fetch, Request(URL))
        except Exception as error:
            return error

    return asyncio.run(go())


def _manager(crawler: Any, middlewares: tuple[Any, ...]) -> Any:
    from scrapy.core.downloader.middleware import DownloaderMiddlewareManager

    return DownloaderMiddlewareManager(*middlewares, crawler=crawler)


@pytest.mark.parametrize("kind", [Named, Slow])
def test_down_in_order_and_up_in_the_other(kind: type[Named]) -> None:
    said: list[str] = []
    assert isinstance(went(kind("a", said), kind("b", said)), Response)
    assert said == ["a request", "b request", "b response", "a response"]


@pytest.mark.parametrize("kind", [Named, Slow])
def test_a_request_ends_the_way_at_once(kind: type[Named]) -> None:
    said: list[str] = []
    other = Request("http://h.test/other")
    assert went(kind("a", said, request=other), kind("b", said)) is other
    assert said == ["a request"]
    said.clear()
    assert went(kind("a", said), kind("b", said, response=other)) is other
    assert said == ["a request", "b request", "b response"]


def test_a_response_on_the_way_down_goes_up_through_all() -> None:
    said: list[str] = []
    cached = Response(URL, status=203)
    assert went(Named("a", said, request=cached), Named("b", said)).status == 203
    assert said == ["a request", "b response", "a response"]


def test_an_exception_is_shown_to_all_until_one_answers() -> None:
    said: list[str] = []
    assert isinstance(went(Named("a", said), Named("b", said), fails=True), ConnectionError)
    assert said[2:] == ["b exception", "a exception"]
    said.clear()
    again = Request(URL)
    assert went(Named("a", said), Named("b", said, exception=again), fails=True) is again


@pytest.mark.parametrize("answers", [{"request": 5}, {"response": None}, {"response": "text"}])
def test_a_wrong_answer_is_named(answers: dict[str, Any]) -> None:
    error = went(Named("a", [], **answers))
    assert isinstance(error, TypeError)
    assert "process_re" in str(error)


def test_only_scrapys_own_hooks_lose_their_check() -> None:
    cookies = CookiesMiddleware()
    assert unwrapped(cookies.process_request) != cookies.process_request
    own = Named("a", [])
    assert unwrapped(own.process_request) == own.process_request


def answer(body: bytes, **headers: str) -> HtmlResponse:
    return HtmlResponse(URL, body=body, headers=headers)


@pytest.mark.parametrize(
    "headers", [{}, {"Set-Cookie": "a=1; Path=/"}, {"Set-Cookie": "a=1; Max-Age=0"}]
)
@pytest.mark.parametrize("given", [{}, {"b": "2"}])
def test_cookies_as_scrapy_keeps_them(headers: dict[str, str], given: dict[str, str]) -> None:
    sent = []
    for kind in (CookiesMiddleware, LeanCookies):
        jar = kind.from_crawler(get_crawler(Spider))
        first = Request(URL, cookies=given, headers={"Cookie": "old=1"})
        jar.process_request(first)
        jar.process_response(first, answer(b"", **headers))
        later = Request(URL)
        jar.process_request(later)
        sent.append((first.headers.get("Cookie"), later.headers.get("Cookie")))
    assert sent[0] == sent[1]


@pytest.mark.parametrize(
    ("body", "follows"),
    [
        (b"<html><head><title>x</title></head>", False),
        (b'<meta http-equiv="Refresh" content="0; url=/b">', True),
        ('<meta http-equiv="refresh" content="0; url=/b">'.encode("utf-16"), True),
    ],
)
def test_a_refresh_is_found_where_scrapy_finds_it(body: bytes, follows: bool) -> None:
    response = HtmlResponse(URL, body=body, encoding="utf-16" if b"\0" in body else "utf-8")
    assert may_refresh(response) is follows
    for kind in (LeanMetaRefresh, MetaRefreshMiddleware):
        middleware = kind.from_crawler(get_crawler(Spider))
        middleware.crawler = get_crawler(Spider)
        middleware._referer_spider_middleware = None
        got = middleware.process_response(Request(URL), response)
        assert isinstance(got, Request) is follows


def test_stats_count_as_scrapys() -> None:
    stats = LeanStats(get_crawler(Spider))
    stats.inc_value("a")
    stats.inc_value("a", 2)
    stats.max_value("b", 3)
    assert stats.get_stats() == {"a": 3, "b": 3}


def test_no_server_is_asked_how_a_cookies_domain_is_split(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Scrapy's cookies did so at the first cookie, past every proxy."""

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("a connection was made")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    split = scrapys_cookies._split_domain
    assert split.suffix_list_urls == ()
    assert split("shop.example.co.uk").domain == "example"
    assert not caplog.records
