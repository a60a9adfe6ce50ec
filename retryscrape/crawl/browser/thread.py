"""The browser on a thread and a loop of its own, for pages that need the user's own code.

Playwright reads one message of its driver, lets the loop come to rest, and reads the next;
a page is some thirty of them. The loop of a crawl that is busy with plain pages does not
rest: a page took 25 seconds there (measured). What a page does is ``handler``'s.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from scrapy.http import Response

from retryscrape.crawl.browser.handler import Browser

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler

    from retryscrape.crawl.browser.options import BrowserOptions, How

T = TypeVar("T")

#: Seconds for the thread to end once everything in it was closed.
JOIN_SECONDS = 2.0


class OnThread:
    """One for all schemes, like ``Browser``. No thread is started before the first page.

    The browser counts on the thread: nobody else writes the stats that it writes.
    """

    def __init__(self, crawler: Crawler, options: BrowserOptions) -> None:
        self._browser = Browser(crawler, options)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    @property
    def user_agent(self) -> str | None:
        """What rendered pages say they are; None before the first browser runs."""
        return self._browser.user_agent

    async def fetch(self, request: Request, **how: Unpack[How]) -> Response:
        """Render a request, as ``Browser.fetch`` does. Its page methods run on the thread."""
        return await self._there(self._browser.fetch(request, **how))

    async def close(self) -> None:
        """End all pages, the browser, its driver and the thread; seconds at most."""
        if self._loop is None or self._thread is None or not self._thread.is_alive():
            return
        await self._there(self._browser.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        await asyncio.to_thread(self._thread.join, JOIN_SECONDS)

    def _there(self, work: Coroutine[Any, Any, T]) -> Awaitable[T]:
        """Have it done on the thread; what cancels this cancels that."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(
                target=self._run, args=(self._loop,), name="browser", daemon=True
            )
            self._thread.start()
        return asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    @staticmethod
    def _run(loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        loop.run_forever()
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        with suppress(RuntimeError):  # stopped once more
            loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()
