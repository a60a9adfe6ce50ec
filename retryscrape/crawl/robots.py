"""robots.txt without noise: one that cannot be had counts as allowed, and is one line."""

from __future__ import annotations

import logging

from scrapy import Request
from scrapy.downloadermiddlewares.robotstxt import RobotsTxtMiddleware
from scrapy.http import Response

logger = logging.getLogger("retryscrape")


class QuietRobotsTxtMiddleware(RobotsTxtMiddleware):
    """Scrapy's own, which logs an ERROR with a traceback for every host that is down.

    Of an answer that is no success nothing is read: an error page is no robots.txt
    (RFC 9309, 2.3.1.3: a client error means that there are no rules).
    """

    def _robots_error(self, exc: Exception, netloc: str) -> None:
        super()._robots_error(exc, netloc)

    async def _parse_robots(self, response: Response, netloc: str, request: Request) -> None:
        if not 200 <= response.status < 300:
            response = response.replace(body=b"")
        await super()._parse_robots(response, netloc, request)
