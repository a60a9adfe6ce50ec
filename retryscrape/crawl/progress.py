"""Shows how far a run has come: a live line on a terminal, a log line a minute elsewhere.

An extension that only reads. What it says is report/progress.py's.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import sys
import time
from typing import TYPE_CHECKING

from scrapy import signals
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured

from retryscrape.crawl.runtime import Run
from retryscrape.report.progress import Pace, Progress, sentence

if TYPE_CHECKING:
    from retryscrape.crawl.screen import Screen

logger = logging.getLogger("retryscrape")

#: Seconds between two looks of a person, and between two lines of a log.
LIVE, LINE = 0.5, 60.0
_URLS = "retryscrape/urls/"


class ProgressLine:
    """Says it again and again, from the spider's opening to its closing."""

    def __init__(self, crawler: Crawler) -> None:
        self.crawler = crawler
        self.run = Run.of(crawler)
        self._pace = Pace(time.monotonic())
        self._screen: Screen | None = None
        self._keeping: asyncio.Task[None] | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> ProgressLine:
        line = cls(crawler)
        if line.run.config.progress == "off":
            raise NotConfigured
        crawler.signals.connect(line.opened, signal=signals.spider_opened)
        crawler.signals.connect(line.closed, signal=signals.spider_closed)
        return line

    def opened(self) -> None:
        if sys.stderr.isatty():
            # not before: drawing takes a twentieth of the time that a run needs to start
            from retryscrape.crawl.screen import open_screen

            self._screen = open_screen()
        if self._screen is not None:
            atexit.register(self._screen.close)  # a second Ctrl-C closes no spider
        self._keeping = asyncio.ensure_future(self._keep())

    def closed(self) -> None:
        if self._keeping is not None:
            self._keeping.cancel()
        if self._screen is not None:
            self._screen.close()
            atexit.unregister(self._screen.close)

    async def _keep(self) -> None:
        said = time.monotonic()
        while True:
            await asyncio.sleep(LIVE if self._screen is not None else LINE)
            progress = self.now()
            if self._screen is not None:
                self._screen.show(progress)
            elif time.monotonic() - said >= LINE / 2:
                said = time.monotonic()
                logger.info("%s", in_one_line(progress))

    def now(self) -> Progress:
        """The run as it stands."""
        run, stats = self.run, self.crawler.stats.get_stats()
        done = sum(count for name, count in stats.items() if name.startswith(_URLS))
        good = stats.get(_URLS + "ok", 0)
        if run.books is None:  # no rows: what Scrapy counts itself is all there is
            done = good = stats.get("response_received_count", 0)
        waiting, due = run.scheduler.waiting() if run.scheduler is not None else (0, 0.0)
        return Progress(
            done=done,
            succeeded=good,
            parked=stats.get("retryscrape/decisions/park", 0) + self._parked_unasked(),
            total=self._total(),
            waiting=waiting,
            next_due=max(0.0, due - run.clock()) if due else None,
            rate=self._pace.rate(time.monotonic(), done),
            exits=run.pool.describe(run.clock()) if run.pool is not None else "",
        )

    def _total(self) -> int | None:
        """Known when the manifest was read to its end."""
        books, asked = self.run.books, self.run.asked
        return asked if books is not None and asked and not books.unread else None

    def _parked_unasked(self) -> int:
        return self.run.books.skipped["parked"] if self.run.books is not None else 0


def in_one_line(progress: Progress) -> str:
    """For a log."""
    return sentence(progress) + (f"; {progress.exits}" if progress.exits else "")
