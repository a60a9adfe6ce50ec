"""What is looked at while an answer arrives: its size, and who listens to Scrapy's signals."""

from __future__ import annotations

import logging
import time

from pydispatch.dispatcher import getAllReceivers
from scrapy import Request, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import StopDownload
from scrapy.http import Headers, Response
from scrapy.utils._download_handlers import check_stop_download

from retryscrape.crawl.clients.http1 import Answer
from retryscrape.crawl.clients.urls import without_userinfo
from retryscrape.crawl.faults import At, FetchError

logger = logging.getLogger(__name__)


class Watch:
    """Called after each piece of an answer. Sizes are in bytes, 0 for no limit.

    Raises FetchError ``too_large``; True means that a signal's handler wants no more.
    """

    __slots__ = (
        "_crawler",
        "_max",
        "_request",
        "_started",
        "_stop",
        "_told",
        "_warn",
        "begun",
    )

    def __init__(self, crawler: Crawler, request: Request, max_size: int, warn_size: int) -> None:
        self._crawler, self._request = crawler, request
        self._max, self._warn = max_size, warn_size
        self._started = time.monotonic()
        self._stop: StopDownload | None = None
        self._told = 0
        self.begun = False

    def __call__(self, answer: Answer) -> bool:
        """Look at what has arrived."""
        if not self.begun:
            self.begun = True
            self._request.meta["download_latency"] = time.monotonic() - self._started
            self._judge(answer.length or 0)
            self._tell_head(answer)
        self._judge(answer.size)
        if self._stop is None:
            self._tell_body(answer)
        return self._stop is not None

    def final(self, response: Response) -> Response:
        """The response as Scrapy's contract for ``StopDownload`` wants it, or that exception."""
        if self._stop is None:
            return response
        response.flags.append("download_stopped")
        if self._stop.fail:
            self._stop.response = response
            raise self._stop
        return response

    def _judge(self, size: int) -> None:
        if self._max and size > self._max:
            detail = f"{size} bytes, and DOWNLOAD_MAXSIZE is {self._max}"
            raise FetchError("too_large", At.TARGET, detail=detail)
        if self._warn and size > self._warn:
            url = without_userinfo(self._request.url)
            logger.warning("%d bytes or more from %s (DOWNLOAD_WARNSIZE)", size, url)
            self._warn = 0

    def _tell_head(self, answer: Answer) -> None:
        if self._has_listeners(signals.headers_received):
            self._stop = check_stop_download(
                signals.headers_received,
                self._crawler,
                self._request,
                headers=Headers(answer.headers),
                body_length=answer.length,
            )

    def _tell_body(self, answer: Answer) -> None:
        if self._told == len(answer.chunks) or not self._has_listeners(signals.bytes_received):
            return
        new, self._told = answer.chunks[self._told :], len(answer.chunks)
        for chunk in new:
            self._stop = self._stop or check_stop_download(
                signals.bytes_received, self._crawler, self._request, data=chunk
            )

    def _has_listeners(self, signal: object) -> bool:
        """Scrapy's signals cost 20 microseconds each, also where nobody listens."""
        return any(True for _ in getAllReceivers(self._crawler, signal))
