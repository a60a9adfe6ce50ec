"""One browser's process as the crawl sees it: started, given orders, ended.

That there is a next one when it died is ``apart``'s; what it does is ``child``'s.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

from retryscrape.crawl.browser.link import Link
from retryscrape.crawl.browser.orders import Answer, Cancel, Counts, Line, Order, Ready, Setup
from retryscrape.crawl.browser.processes import below, kill
from retryscrape.crawl.browser.reports import count, log
from retryscrape.crawl.faults import At, FetchError

if TYPE_CHECKING:
    from scrapy.statscollectors import StatsCollector

#: Seconds over a page's own time-out after which its process is taken for hung: those for a
#: tab that cannot be closed are among them, for the page may wait for its slot.
MARGIN = 30.0
#: Seconds for the process to end with its driver and browser, and then to be gone.
END_SECONDS, GONE_SECONDS = 12.0, 2.0


class Helper:
    """A process that renders."""

    def __init__(self, process: subprocess.Popen[bytes], link: Link, stats: StatsCollector) -> None:
        self.process = process
        self.gone = False
        self._link = link
        self._stats = stats
        self._ready = self._ending = False
        self._pages: dict[int, asyncio.Future[Answer]] = {}
        self._listening = asyncio.create_task(self._listen())

    @classmethod
    async def start(cls, setup: Setup, stats: StatsCollector) -> Helper:
        """Raises FetchError ``unavailable``."""
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                process = started(theirs.fileno())
            except OSError as error:
                ours.close()
                raise _unavailable(error.strerror or str(error)) from None
        try:
            link = await Link.open(ours)
        except BaseException:
            ours.close()  # which ends it
            raise
        link.send(setup)
        return cls(process, link, stats)

    async def render(self, order: Order) -> Answer:
        """Have a page rendered. Raises FetchError if the process goes away; what cancels this
        cancels the page."""
        page: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._pages[order.id] = page
        self._link.send(order)
        try:
            done, _ = await asyncio.wait({page}, timeout=order.how["timeout"] + MARGIN)
            if not done:
                self.gone = True
                self.process.kill()
                raise FetchError("reset", detail="the browser's process did not answer")
            return page.result()
        except asyncio.CancelledError:
            self._link.send(Cancel(order.id))
            raise
        finally:
            del self._pages[order.id]

    async def close(self) -> None:
        """End it, its driver and its browser; what does not go by itself is killed."""
        self._ending = self.gone = True
        group = below(self.process.pid)
        self._link.end()
        await asyncio.wait({self._listening}, timeout=END_SECONDS)
        kill(group)
        await asyncio.wait({self._listening}, timeout=GONE_SECONDS)

    async def _listen(self) -> None:
        try:
            while (message := await self._link.read()) is not None:
                self._take(message)
        finally:
            self.gone = True
            code = await asyncio.to_thread(self._reap)
            for page in self._pages.values():
                if not page.done():
                    page.set_exception(self._fault(code))
            await self._link.close()

    def _take(self, message: object) -> None:
        if isinstance(message, Answer):
            page = self._pages.get(message.id)
            if page is not None and not page.done():
                page.set_result(message)
        elif isinstance(message, Counts):
            count(self._stats, message)
        elif isinstance(message, Line):
            log(message)
        elif isinstance(message, Ready):
            self._ready = True

    def _reap(self) -> int:
        try:
            return self.process.wait(GONE_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()

    def _fault(self, code: int) -> FetchError:
        if self._ending:
            return FetchError("cancelled", At.TARGET)
        if not self._ready:
            return _unavailable(f"it ended with code {code}")
        return FetchError("reset", detail="the browser's process went away")


def _unavailable(why: str) -> FetchError:
    detail = f"The browser's own process ({sys.executable}) could not be started: {why}."
    return FetchError("unavailable", At.TARGET, detail=detail)


def started(number: int) -> subprocess.Popen[bytes]:
    """The process, at the other end of a socket. It finds modules where we do (the setup tells
    it what PYTHONPATH was), and a signal to our process group is none to it."""
    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    return subprocess.Popen(  # noqa: S603 - our own interpreter and module
        [sys.executable, "-P", "-m", "retryscrape.crawl.browser.child", str(number)],
        env={**os.environ, "PYTHONPATH": path},
        pass_fds=(number,),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
