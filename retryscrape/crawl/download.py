"""The registered download handler: hands a request to the client of its rung.

One instance serves http and https. It cancels what is under way when a stop has
lasted longer than the grace: Scrapy itself would wait for DOWNLOAD_TIMEOUT.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, ClassVar
from weakref import WeakKeyDictionary

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.http import Response

from retryscrape.crawl.clients import make_client
from retryscrape.crawl.clients.base import Client, Proxy
from retryscrape.crawl.deadline import Deadline
from retryscrape.crawl.faults import At, FetchError, OwnCodeError
from retryscrape.crawl.keys import INIT, METHODS, SESSION, TICKET, ticket_of
from retryscrape.crawl.runtime import Run
from retryscrape.policy.exit_views import SHORTEST_TIMEOUT
from retryscrape.policy.ticket import Ticket

if TYPE_CHECKING:
    from retryscrape.crawl.browser.options import BrowserProxy

logger = logging.getLogger("retryscrape")

#: Seconds for a rendered page, from launch to the last wait; an escalated one also scrolls.
RENDER, RENDER_ESCALATED = 45.0, 75.0


class DownloadHandler:
    """Handler for http and https (the same object for both)."""

    lazy: ClassVar[bool] = True
    _shared: ClassVar[WeakKeyDictionary[Crawler, DownloadHandler]] = WeakKeyDictionary()

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> DownloadHandler:
        handler = cls._shared.get(crawler)
        if handler is None:
            handler = cls._shared[crawler] = cls(crawler)
        return handler

    def __init__(self, crawler: Crawler) -> None:
        self.crawler = crawler
        self.run = Run.of(crawler)
        settings = crawler.settings
        self.timeout = settings.getfloat("DOWNLOAD_TIMEOUT")
        self.max_size = settings.getint("DOWNLOAD_MAXSIZE")
        self.warn_size = settings.getint("DOWNLOAD_WARNSIZE")
        self._client: Client | None = None
        self._closed = False

    async def download_request(self, request: Request) -> Response:
        """Fetch; raises FetchError, and nothing else for what a network may do."""
        task = asyncio.current_task()
        assert task is not None
        self.run.downloads.add(task)
        try:
            return await self._fetch(request)
        except asyncio.CancelledError:
            task.uncancel()
            raise FetchError("cancelled", At.UNKNOWN, detail="the run was stopped") from None
        finally:
            self.run.downloads.discard(task)

    async def _fetch(self, request: Request) -> Response:
        ticket = ticket_of(request)
        worker = self.run.worker
        if worker and ticket and ticket.batch and not await worker.may_write(ticket.host):
            # given out before a stop that outlasted the lease, and another worker's since
            raise FetchError("cancelled", At.UNKNOWN, detail="its host is another worker's")
        if ticket is not None and not ticket.hops:
            # now it leaves: what it waited for in its slot belongs to no exit's time
            now = self.run.clock()
            request.meta[TICKET] = ticket.but(started=now)
            if self.run.pool is not None and ticket.exit:
                self.run.pool.left(ticket.exit, ticket.host, now)
        if ticket is not None and not ticket.rung.startswith("http"):
            if ticket.rung.startswith("api") and self.run.api is not None:
                return await self.run.api.fetch(request, ticket)
            return await self._render(request, ticket)
        if self._client is None:
            self._client = make_client(self.run.config.http_client, self.crawler)
        deadline = self._deadline(request, ticket)
        try:
            return await self._ask(request, ticket)
        except asyncio.CancelledError:
            if deadline is None or not deadline.missed:
                raise
            task = asyncio.current_task()
            assert task is not None
            task.uncancel()
            detail = "it takes others far less time here"
            raise FetchError("timeout", At.UNKNOWN, detail=detail) from None
        finally:
            if deadline is not None:
                deadline.close()

    def _deadline(self, request: Request, ticket: Ticket | None) -> Deadline | None:
        """For an attempt through an exit of which nothing said how long it may take."""
        pool = self.run.pool
        if pool is None or ticket is None or not ticket.exit or self.timeout <= SHORTEST_TIMEOUT:
            return None
        if request.meta.get("download_timeout") != self.timeout:
            return None
        return Deadline(pool, ticket, self.timeout)

    async def _ask(self, request: Request, ticket: Ticket | None) -> Response:
        assert self._client is not None
        meta = request.meta
        return await self._client.fetch(
            request,
            proxy=self._proxy(request),
            timeout=float(meta.get("download_timeout", self.timeout)),
            fresh=ticket is not None and ticket.fresh_connection,
            max_size=meta.get("download_maxsize", self.max_size),
            warn_size=meta.get("download_warnsize", self.warn_size),
        )

    async def _render(self, request: Request, ticket: Ticket) -> Response:
        try:
            response = await self.run.rendering.browser.fetch(
                request,
                proxy=self._browser_proxy(request, ticket),
                host=ticket.host,
                escalated=ticket.escalate,
                timeout=max(self.timeout, RENDER_ESCALATED if ticket.escalate else RENDER),
            )
        except FetchError:
            raise
        except Exception as error:  # all that the site, the exit or the browser does is the other
            if not {METHODS, INIT} & request.meta.keys():
                raise
            logger.error("Your code failed while %s was rendered", request, exc_info=True)
            raise OwnCodeError(f"{type(error).__name__}: {error}") from None
        self.run.rendering.take_cookies(request, ticket)
        return response

    def _browser_proxy(self, request: Request, ticket: Ticket) -> BrowserProxy | None:
        exit_ = self.run.pool.get(ticket.exit) if self.run.pool and ticket.exit else None
        if exit_ is None:
            return None
        from retryscrape.crawl.browser.options import BrowserProxy

        if exit_.session:
            exit_ = exit_.with_session(request.meta[SESSION])
        return BrowserProxy(
            id=exit_.id,
            server=exit_.proxy_url,
            username=exit_.username,
            password=exit_.password,
        )

    def _proxy(self, request: Request) -> Proxy | None:
        url = request.meta.get("proxy")
        if not url:
            return None
        ticket = ticket_of(request)
        name = (ticket.exit if ticket is not None else None) or url
        authorization: Any = request.headers.get(b"Proxy-Authorization")
        return Proxy(id=name, url=url, authorization=authorization)

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        await self.run.rendering.close()
        if self._client is not None:
            await self._client.close()
