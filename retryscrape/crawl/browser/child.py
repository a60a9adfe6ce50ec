"""The browser's process: ``python -m retryscrape.crawl.browser.child SOCKET``.

Renders what the crawl orders, until the crawl ends its side of the socket or is gone itself.
It is started by ``helper`` alone; what a page does is ``handler``'s.
"""

from __future__ import annotations

import asyncio
import logging
import os
import pickle
import signal
import socket
import sys
import threading
import traceback
from functools import partial
from types import SimpleNamespace
from typing import Any

from scrapy.http import Response

from retryscrape.crawl.browser.handler import Browser
from retryscrape.crawl.browser.link import Link
from retryscrape.crawl.browser.orders import Cancel, Order, Ready, Setup, answer_of
from retryscrape.crawl.browser.processes import below
from retryscrape.crawl.browser.reports import Lines, Tally
from retryscrape.crawl.faults import FetchError

logger = logging.getLogger(__name__)

#: Seconds for everything to end; nobody may be left who would kill what hangs.
END_SECONDS = 15.0
#: Seconds for the last answers.
_LAST_SECONDS = 1.0


class Child:
    """The pages that are being rendered."""

    def __init__(self, link: Link, setup: Setup) -> None:
        self._link = link
        self._tally = Tally()
        crawler: Any = SimpleNamespace(settings=setup.settings(), stats=self._tally)
        self._browser = Browser(crawler, setup.options, memory=below)
        self._pages: dict[int, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Take orders until there can be no more; then end what is under way."""
        self._link.send(Ready())
        while (message := await self._link.read()) is not None:
            if isinstance(message, Order):
                page = self._pages[message.id] = asyncio.create_task(self._page(message))
                page.add_done_callback(partial(self._ended, message.id))
            elif isinstance(message, Cancel) and message.id in self._pages:
                self._pages[message.id].cancel()
        last = threading.Timer(END_SECONDS, os._exit, (1,))
        last.daemon = True
        last.start()
        await self._browser.close()
        if self._pages:
            await asyncio.wait(self._pages.values(), timeout=_LAST_SECONDS)
        self._link.send(self._tally.counts())

    def _ended(self, number: int, _: object) -> None:
        self._pages.pop(number, None)

    async def _page(self, order: Order) -> None:
        request = order.request()
        end: Response | Exception
        try:
            end = await self._browser.fetch(request, **order.how)
            end.request = None  # the crawl has it
        except Exception as error:
            end = sendable(error)
        self._link.send(self._tally.counts())
        self._link.send(answer_of(order, request, end, self._browser.user_agent))


def sendable(error: Exception) -> Exception:
    """The error, or one of its words if it cannot be sent. Where it was raised, which no pickle
    tells, is added to it."""
    if not isinstance(error, FetchError):
        where = "".join(traceback.format_exception(error))
        error.add_note(f"It was raised in the browser's process:\n{where}")
    try:
        if type(pickle.loads(pickle.dumps(error))) is type(error):  # noqa: S301 - our own
            return error
    except Exception:  # noqa: S110 - whatever a class of errors does when it is made again
        pass
    return RuntimeError(f"{type(error).__name__}: {error}")


async def serve(number: int) -> None:
    """Work for who holds the other end of the socket."""
    end = socket.socket(fileno=number)
    end.set_inheritable(False)  # or the driver would hold it open after us
    link = await Link.open(end)
    setup = await link.read()
    if not isinstance(setup, Setup):
        return
    os.environ.pop("PYTHONPATH", None)
    if setup.path is not None:
        os.environ["PYTHONPATH"] = setup.path
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(_unheard)
    lines = Lines(lambda line: loop.call_soon_threadsafe(link.send, line))
    logging.basicConfig(level=logging.NOTSET, handlers=[lines], format="%(message)s")
    logging.captureWarnings(True)
    try:
        await Child(link, setup).run()
    finally:
        await asyncio.sleep(0)  # lines that are on their way
        logging.root.removeHandler(lines)
        await link.close()


def _unheard(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """What goes wrong where nobody waits for it. A driver that is killed leaves some of it behind;
    the pages that it had tell of that."""
    if "never retrieved" in context["message"]:
        logger.debug("%s: %r", context["message"], context.get("exception"))
    else:
        loop.default_exception_handler(context)


def _stay(*_: object) -> None:
    """The crawl says when the browser ends. (Ignoring signals would be inherited by it.)"""


def main() -> None:
    for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, _stay)
    asyncio.run(serve(int(sys.argv[1])))


if __name__ == "__main__":
    main()
