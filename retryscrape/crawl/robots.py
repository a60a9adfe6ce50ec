"""robots.txt without noise: one that cannot be had counts as allowed, and is one line."""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from typing import Any
from urllib.parse import ParseResult

from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.downloadermiddlewares.robotstxt import RobotsTxtMiddleware
from scrapy.http import Response
from scrapy.http.request import NO_CALLBACK
from scrapy.robotstxt import RobotParser
from scrapy.utils.defer import maybe_deferred_to_future
from scrapy.utils.httpobj import urlparse_cached
from twisted.internet.defer import Deferred

logger = logging.getLogger("retryscrape")

_UNKNOWN: Any = object()

#: Hosts whose rules are remembered (1 KB each at least); those of the host that was asked first
#: go first, and are asked for again.
MOST = 10_000


class Rules(dict[str, Any]):
    """What Scrapy keeps for ever, by host; a Deferred while it is on its way."""

    def __setitem__(self, netloc: str, rules: Any) -> None:
        self.pop(netloc, None)  # to the end: who waits for it looks for it in a moment
        super().__setitem__(netloc, rules)
        if len(self) > MOST:
            settled = (host for host, known in self.items() if not isinstance(known, Deferred))
            oldest = next(settled, netloc)
            if oldest != netloc:
                del self[oldest]


class QuietRobotsTxtMiddleware(RobotsTxtMiddleware):
    """Scrapy's own, which logs an ERROR with a traceback for every host that is down.

    Of an answer that is no success nothing is read: an error page is no robots.txt
    (RFC 9309, 2.3.1.3: a client error means that there are no rules).
    """

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self._parsers = Rules()

    # a coroutine only while there is something to wait for
    def process_request(  # type: ignore[override]
        self, request: Request, spider: Spider | None = None
    ) -> Awaitable[None] | None:
        url = urlparse_cached(request)
        parser = self._parsers.get(url.netloc, _UNKNOWN)
        if parser is _UNKNOWN or isinstance(parser, Deferred):
            return super().process_request(request)
        if not request.meta.get("dont_obey_robotstxt"):
            self.process_request_2(parser, request)
        return None

    async def robot_parser(self, request: Request) -> RobotParser | None:
        url = urlparse_cached(request)
        if url.netloc not in self._parsers:
            self._parsers[url.netloc] = Deferred()
            try:
                response = await self.crawler.engine.download_async(self._robots_request(url))
                await self._parse_robots(response, url.netloc, request)
            except Exception as error:
                logger.info("%s: no robots.txt (%s), counts as allowed", url.netloc, error)
                self._robots_error(error, url.netloc)
            self._stats.inc_value("robotstxt/request_count")
        parser = self._parsers[url.netloc]
        if not isinstance(parser, Deferred):
            return parser
        # Deferred.asFuture passes the result on as None: of several that wait, all but the
        # first would hear that there are no rules (measured on Scrapy 2.19, Twisted 26.10).
        await maybe_deferred_to_future(parser)
        known = self._parsers[url.netloc]
        assert not isinstance(known, Deferred)
        return known

    def _robots_request(self, url: ParseResult) -> Request:
        return Request(
            f"{url.scheme}://{url.netloc}/robots.txt",
            priority=self.DOWNLOAD_PRIORITY,
            meta={"dont_obey_robotstxt": True},
            callback=NO_CALLBACK,
        )

    async def _parse_robots(self, response: Response, netloc: str, request: Request) -> None:
        if not 200 <= response.status < 300:
            response = response.replace(body=b"")
        await super()._parse_robots(response, netloc, request)
