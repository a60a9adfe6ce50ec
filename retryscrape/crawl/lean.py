"""Scrapy's own components with a shorter way for what is ordinary; the rest is Scrapy's.

Each takes the place of its parent, where the project has not put its hand on that place
(addon.py). What each saves was read off a profile (docs/performance.md).
"""

from __future__ import annotations

import logging
import weakref
from typing import Any

from scrapy import Request, Spider
from scrapy.downloadermiddlewares import cookies as scrapys_cookies
from scrapy.downloadermiddlewares.cookies import CookiesMiddleware
from scrapy.downloadermiddlewares.redirect import MetaRefreshMiddleware
from scrapy.downloadermiddlewares.stats import DownloaderStats
from scrapy.http import Response
from scrapy.logformatter import LogFormatter
from scrapy.statscollectors import MemoryStatsCollector

from retryscrape.crawl.keys import SETTLED

#: How far Scrapy looks for a refresh, in characters, and so do we, in bytes with room for tags.
_REFRESH_HEAD = 4 * 4096


# Scrapy splits a cookie's domain by a list that tldextract asks two public servers for at the
# first cookie: past every proxy, and with 12 tracebacks where they are not to be had. The list
# that comes with it will do.
_split = type(scrapys_cookies._split_domain)
scrapys_cookies._split_domain = _split(suffix_list_urls=(), include_psl_private_domains=True)


class LeanStats(MemoryStatsCollector):
    """Scrapy's looks every name up three times, for a deprecated argument."""

    __getattribute__ = object.__getattribute__


class LeanCookies(CookiesMiddleware):
    """An empty jar and an answer without a cookie need no cookie machinery."""

    def process_request(
        self, request: Request, spider: Spider | None = None
    ) -> Request | Response | None:
        if request.meta.get("dont_merge_cookies", False):
            return None
        jar = self.jars[request.meta.get("cookiejar")]
        if not request.cookies and not jar._cookies:
            request.headers.pop(b"Cookie", None)
            return None
        return super().process_request(request)

    def process_response(
        self, request: Request, response: Response, spider: Spider | None = None
    ) -> Request | Response:
        if b"Set-Cookie" not in response.headers:
            return response
        return super().process_response(request, response)


class LeanMetaRefresh(MetaRefreshMiddleware):
    """A page without the word is not decoded to look for it; one that was settled as it is
    (AttemptMiddleware comes before) is not followed."""

    def process_response(
        self, request: Request, response: Response, spider: Spider | None = None
    ) -> Request | Response:
        if SETTLED in request.meta or not may_refresh(response):
            return response
        return super().process_response(request, response)


def may_refresh(response: Response) -> bool:
    """Whether the page's beginning has the word ``refresh``, or an encoding that hides it."""
    global _looked_at
    if _looked_at is not None and _looked_at[0]() is response:
        return _looked_at[1]  # two middlewares ask, one after the other
    head = response.body[:_REFRESH_HEAD]
    found = b"refresh" in head.lower() or b"\0" in head
    _looked_at = weakref.ref(response), found
    return found


_looked_at: tuple[weakref.ref[Response], bool] | None = None


class LeanDownloaderStats(DownloaderStats):
    """Counts a request's bytes without writing it out."""

    def process_request(
        self, request: Request, spider: Spider | None = None
    ) -> Request | Response | None:
        self.stats.inc_value("downloader/request_count")
        self.stats.inc_value(f"downloader/request_method_count/{request.method}")
        self.stats.inc_value("downloader/request_bytes", _size_of(request))
        return None


def _size_of(request: Request) -> int:
    """Bytes of the request in HTTP/1.1: its line, its headers and its body."""
    headers = sum(
        len(name) + len(value) + 4 for name, values in request.headers.items() for value in values
    )
    return len(request.method) + len(request.url) + 13 + headers + 2 + len(request.body)


class LeanLogFormatter(LogFormatter):
    """Scrapy makes a record for each page and item at DEBUG, also where no handler takes it."""

    def crawled(self, request: Request, response: Response, spider: Spider) -> Any:
        return super().crawled(request, response, spider) if _heard() else None

    def scraped(self, item: Any, response: Any, spider: Spider) -> Any:
        return super().scraped(item, response, spider) if _heard() else None


def _heard() -> bool:
    return any(handler.level <= logging.DEBUG for handler in logging.root.handlers)
