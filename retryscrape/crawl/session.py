"""The beginning and the end of a run: what is said, what is opened, what is written.

An extension: Scrapy calls it when the spider opens and when it has closed.
"""

from __future__ import annotations

import asyncio
import atexit
import gc
import logging
import signal
import threading
from typing import Any

from scrapy import Spider, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import CloseSpider

from retryscrape.crawl import secrets
from retryscrape.crawl.api.door import open_api
from retryscrape.crawl.books import Books, manifest_name
from retryscrape.crawl.keys import ticket_of
from retryscrape.crawl.ordinary import recorded_batch
from retryscrape.crawl.prepare import prepare
from retryscrape.crawl.reload import ProxyWatch
from retryscrape.crawl.runtime import Run, UsageProblem
from retryscrape.crawl.status import RunStatus
from retryscrape.crawl.summary import ending, opening, summary
from retryscrape.manifest.rows import ManifestError
from retryscrape.spiders.manifest import ManifestSpider

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
        self.status = RunStatus(self.run)
        self._keeping: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._closed = self._over = self._listening = False

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Session:
        session = cls(crawler)
        secrets.install(session.run.secrets)  # for what is said until the spider is opened
        connect = crawler.signals.connect
        connect(session.opened, signal=signals.spider_opened)
        connect(session.closed, signal=signals.spider_closed)
        connect(session.item_error, signal=signals.item_error)
        connect(session.listen, signal=signals.engine_started)
        connect(session.stopped, signal=signals.engine_stopped)
        return session

    async def opened(self, spider: Spider) -> None:
        # Scrapy makes its log handler anew once more, after the extensions
        secrets.install(self.run.secrets)
        self.run.loop = asyncio.get_running_loop()
        await asyncio.sleep(0)  # or the reactor's start would put Scrapy's handlers over ours
        self.listen()
        given = spider.given if isinstance(spider, ManifestSpider) else None
        try:
            prepare(self.run, given or {}, needs_manifest=given is not None)
            await asyncio.to_thread(self._open, spider)
            self.run.rendering.look()
            await open_api(self.run)
        # a remote manifest is looked at only now (prepare.py)
        except (UsageProblem, ManifestError) as problem:
            logger.error("%s", problem)
            self._end(2)
            await asyncio.to_thread(self.status.refuse, str(problem), given or {})
            # an engine that never started does not say that it has stopped
            atexit.register(self.stopped)
            raise CloseSpider("usage") from None
        atexit.register(self._last_resort)
        self._keeping = asyncio.ensure_future(self.status.keep())
        watch = ProxyWatch.of(self.run)
        if watch is not None:
            self._watching = asyncio.ensure_future(watch.keep())
        for line in opening(self.run):
            logger.info("%s", line)
        # what is there by now stays: looking through it at each collection took a twentieth
        # of the time of a crawl
        gc.freeze()
        # settings.py lets garbage wait for longer while things are imported
        gc.set_threshold(20_000, 20, 20)

    def _open(self, spider: Spider) -> None:
        run, arguments = self.run, self.run.arguments
        run.record = recorded_batch(spider) if arguments is None else None
        if arguments is not None or run.record:
            run.books = Books(run)
        if run.books is not None and arguments is not None and arguments.work:
            batch = run.books.first_batch(arguments)
            run.books.join(batch)
            from retryscrape.crawl.worker import open_worker

            run.worker = open_worker(run, run.books.ledger, batch)
        elif run.books is not None and arguments is not None:
            name = manifest_name(arguments)
            run.books.enter(run.books.first_batch(arguments), name)
        elif run.books is not None and run.record:
            run.job_id = str(getattr(spider, "_job", run.job_id))
            source = f"spider {spider.name}"
            run.books.enter(run.record, source, read=False)
            run.books.ledger.finish_read(run.record, source)
        if run.books is not None and run.worker is None:
            run.books.restore()
        self.status.begin()

    def listen(self) -> None:
        """Note which signal stops the run, and give downloads under way a few seconds.

        Scrapy installs its own handlers when the reactor starts; ours go in front
        of them and hand on.
        """
        if self._listening or threading.current_thread() is not threading.main_thread():
            return  # scrapy shell: the main thread is its prompt's
        self._listening = True
        for number in (signal.SIGINT, signal.SIGTERM):
            before = signal.getsignal(number)
            if callable(before):
                signal.signal(number, self._noting(before))

    def _noting(self, before: Any) -> Any:
        def handler(number: int, frame: Any) -> None:
            self.run.signalled = self.run.signalled or number
            before(number, frame)
            loop = self.run.loop
            # ordinary spiders end as Scrapy ends them: their downloads are awaited
            if loop is not None and self.run.arguments is not None:
                loop.call_soon_threadsafe(loop.call_later, GRACE, self.run.cancel)

        return handler

    def item_error(self, item: Any, response: Any, spider: Spider, failure: Any) -> None:
        """An error of the user's pipeline: the page's row must not be a success."""
        request = getattr(response, "request", None)
        ticket = ticket_of(request) if request is not None else None
        if ticket is not None and ticket.batch:
            self.run.item_errors[ticket.url] = f"an item's pipeline failed: {failure.value!r}"[:500]

    async def closed(self, spider: Spider, reason: str) -> None:
        for task in (self._keeping, self._watching):
            if task is not None:
                task.cancel()
        if self.run.api is not None:
            await self.run.api.close()
        await asyncio.to_thread(self._close, reason)

    def _close(self, reason: str) -> None:
        """Books first, then what is said of them. In a thread: disks and receivers are slow."""
        self._closed = True
        run = self.run
        if run.books is not None:
            run.books.close(reason)
        if self.status.refusal is not None:
            return
        self._end(ending(run, reason) if run.books is not None else run.exit_code or 0)
        self.status.end(reason)
        self._over = True

    def stopped(self) -> None:
        """After Scrapy's own last words: the summary is the last thing in the log. A signal while
        the run was being closed has Scrapy say this too early: then it is said at the exit."""
        if self._over or self.run.books is None or self.status.refusal is not None:
            self._say()

    def _say(self) -> None:
        atexit.unregister(self._last_resort)
        atexit.unregister(self.stopped)
        if self.status.refusal is not None:
            logger.info("Nothing was requested (exit code 2)")
        elif self.run.books is not None:
            for line in summary(self.run):
                logger.info("%s", line)

    def _last_resort(self) -> None:
        """A second Ctrl-C or cancel: Scrapy tells nobody, and the process still ends in order."""
        if not self._closed:
            self._close("killed")
        self._say()

    def _end(self, code: int) -> None:
        self.run.exit_code = code
        self.crawler.stats.set_value(EXIT_CODE, code)
