"""The beginning and the end of a run: what is said, what is opened, what is written.

An extension: Scrapy calls it when the spider opens and when it has closed.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from typing import Any

from scrapy import Spider, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import CloseSpider

from retryscrape.crawl import secrets
from retryscrape.crawl.books import Books, manifest_name
from retryscrape.crawl.keys import ticket_of
from retryscrape.crawl.prepare import prepare
from retryscrape.crawl.runtime import Run, UsageProblem
from retryscrape.crawl.summary import ending, opening, summary
from retryscrape.manifest.read import digest

logger = logging.getLogger("retryscrape")

#: Seconds that downloads under way get to finish after a first Ctrl-C or SIGTERM.
GRACE = 3.0

#: Stat that holds the exit code, for the ``crawl`` command and for ``run.json``.
EXIT_CODE = "retryscrape/exit_code"


class Session:
    """Opens and closes the books of a run."""

    def __init__(self, crawler: Crawler) -> None:
        self.crawler = crawler
        self.run = Run.of(crawler)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Session:
        session = cls(crawler)
        secrets.install(session.run.secrets)
        connect = crawler.signals.connect
        connect(session.opened, signal=signals.spider_opened)
        connect(session.closed, signal=signals.spider_closed)
        connect(session.item_error, signal=signals.item_error)
        connect(session.started, signal=signals.engine_started)
        connect(session.stopped, signal=signals.engine_stopped)
        return session

    async def opened(self, spider: Spider) -> None:
        self.run.loop = asyncio.get_running_loop()
        given = getattr(spider, "given", None)
        try:
            prepare(self.run, given or {}, needs_manifest=given is not None)
            if given is not None:
                await asyncio.to_thread(self._open)
        except UsageProblem as problem:
            logger.error("%s", problem)
            self._end(2)
            raise CloseSpider("usage") from None
        for line in opening(self.run):
            logger.info("%s", line)

    def _open(self) -> None:
        run, arguments = self.run, self.run.arguments
        assert arguments is not None
        run.books = Books(run)
        name = manifest_name(arguments)
        run.books.enter(run.books.first_batch(arguments), name, digest(name))
        run.books.restore()

    def started(self) -> None:
        """Note which signal stops the run, and give downloads under way a few seconds.

        Scrapy installs its own handlers when the reactor starts; ours go in front
        of them and hand on.
        """
        for number in (signal.SIGINT, signal.SIGTERM):
            before = signal.getsignal(number)
            if callable(before):
                signal.signal(number, self._noting(before))

    def _noting(self, before: Any) -> Any:
        def handler(number: int, frame: Any) -> None:
            self.run.signalled = self.run.signalled or number
            before(number, frame)
            loop = self.run.loop
            if loop is not None:
                loop.call_soon_threadsafe(loop.call_later, GRACE, self.run.cancel)

        return handler

    def item_error(self, item: Any, response: Any, spider: Spider, failure: Any) -> None:
        """An error of the user's pipeline: the page's row must not be a success."""
        request = getattr(response, "request", None)
        ticket = ticket_of(request) if request is not None else None
        if ticket is not None and ticket.batch:
            self.run.item_errors[ticket.url] = f"an item's pipeline failed: {failure.value!r}"[:500]

    async def closed(self, spider: Spider, reason: str) -> None:
        run = self.run
        if run.books is None:
            self._end(run.exit_code if run.exit_code is not None else 0)
            return
        await asyncio.to_thread(run.books.close, reason)
        self._end(ending(run, reason))

    def stopped(self) -> None:
        """After Scrapy's own last words: the summary is the last thing in the log."""
        if self.run.books is None:
            return
        for line in summary(self.run):
            logger.info("%s", line)

    def _end(self, code: int) -> None:
        self.run.exit_code = code
        self.crawler.stats.set_value(EXIT_CODE, code)
