"""Shows how far a run has come: a live line on a terminal, a log line a minute elsewhere.

An extension that only reads. What it says is report/progress.py's.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import sys
import time

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text
from scrapy import signals
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured

from retryscrape.crawl.runtime import Run
from retryscrape.report.progress import Pace, Progress, sentence

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
        if has_terminal():
            self._screen = Screen()
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


def has_terminal() -> bool:
    """Whether somebody looks: standard error is a terminal that can go back in a line."""
    return sys.stderr.isatty() and not Console(stderr=True).is_dumb_terminal


class Screen:
    """The live line, below the log: whatever writes to the terminal goes above it."""

    def __init__(self) -> None:
        console = Console(stderr=True, highlight=False, markup=False, emoji=False)
        self._live = Live(
            console=console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=sys.stdout.isatty(),
            redirect_stderr=True,
        )
        stream = sys.stderr
        self._handlers = [
            handler
            for handler in logging.root.handlers
            if isinstance(handler, logging.StreamHandler) and handler.stream is stream
        ]
        self._live.start()
        # Live hides the cursor; a killed process would leave the terminal without one.
        console.show_cursor(True)
        self._stream = stream
        for handler in self._handlers:
            handler.setStream(Above(console))

    def show(self, progress: Progress) -> None:
        """Draw it anew."""
        lines = [Text(sentence(progress), style="bold", no_wrap=True, overflow="ellipsis")]
        if progress.exits:
            lines.append(Text(progress.exits, style="dim", no_wrap=True, overflow="ellipsis"))
        self._live.update(Group(*lines), refresh=True)

    def close(self) -> None:
        """Take it away; the log goes on as it was."""
        for handler in self._handlers:
            handler.setStream(self._stream)
        self._live.stop()


class Above:
    """A stream for log handlers whose lines stand above the live line, not broken by us."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def write(self, text: str) -> int:
        if text:
            self._console.print(Text(text.removesuffix("\n")), soft_wrap=True)
        return len(text)

    def flush(self) -> None:
        self._console.file.flush()
