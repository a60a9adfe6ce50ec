"""``Browser``: renders a request through an exit and gives back the final response.

The rest of the crawl knows this class only. It raises FetchError and nothing else for what
a site, an exit or the browser may do.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urldefrag

from msgspec.structs import replace
from scrapy import Request
from scrapy.http import Response
from scrapy.utils.misc import load_object

from retryscrape.crawl.browser.contexts import Contexts, Lease
from retryscrape.crawl.browser.documents import Rendered, response_of
from retryscrape.crawl.browser.engine import Engine, Session
from retryscrape.crawl.browser.errors import playwright_fault
from retryscrape.crawl.browser.looking import Tab, same_document
from retryscrape.crawl.browser.options import BrowserOptions, BrowserProxy
from retryscrape.crawl.browser.places import Place, Places, proxy_kwargs
from retryscrape.crawl.browser.processes import Process, pss
from retryscrape.crawl.browser.render import Job, render
from retryscrape.crawl.faults import At, FetchError
from retryscrape.crawl.keys import BYTES, COOKIES, INIT, METHODS
from retryscrape.crawl.tasks import kept
from retryscrape.policy.outcomes import Kind, Page

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

#: Seconds for pages in flight to end when the run is closed, and between looks at the memory
#: (at the least: a look may take no more than one in so many seconds).
CLOSE_SECONDS, MEMORY_SECONDS, MEMORY_SHARE = 2.0, 10.0, 200
#: A page that took longer to come to rest may not be at rest at all.
RESTLESS_SECONDS = 5.0
#: Seconds for a page that was given up to say what it had received.
_LAST_WORDS = 0.2


def _calm(request: Request, rendered: Rendered) -> bool:
    """Whether the next page can have the tab: one that keeps going somewhere, if only to
    another fragment, would go on with that and cancel the next page's navigation."""
    asked, seen = urldefrag(request.url), urldefrag(rendered.url)
    jumps = seen.fragment not in ("", asked.fragment)
    return not jumps and request.meta["download_latency"] < RESTLESS_SECONDS


def challenged(page: Page) -> Kind | None:
    """The kind of block page that this is, or None."""
    from retryscrape.policy.classify import classify

    kind: Kind | None = classify(page).kind
    return kind


class Browser:
    """One for all schemes. Nothing is started before the first page."""

    def __init__(
        self,
        crawler: Crawler,
        options: BrowserOptions,
        *,
        challenged: Callable[[Page], Kind | None] = challenged,
        memory: Callable[[], list[Process]] | None = None,
    ) -> None:
        """``memory`` gives the processes that are there for rendering, if they are more than
        the driver and all below it."""
        self._stats = crawler.stats
        self._options = options
        self._challenged = challenged
        self._engine = Engine(crawler.settings, recycle=options.recycle)
        self._session: Session | None = None
        self._memory = memory or self._engine.processes
        self._places = Places(options, self._engine, crawler.stats)
        self._contexts: Contexts[Place, Tab] = Contexts(
            slots=options.slots,
            limit=options.max_contexts,
            open_tab=self._places.open_tab,
            close_tab=self._places.close_tab,
            close_context=self._places.close_context,
        )
        self._works: set[asyncio.Task[Response]] = set()
        self._entered: dict[asyncio.Task[Any], Session] = {}
        self._closing = False
        self._sample_at = 0.0

    def available(self) -> str | None:
        """None if a browser can be found, else why not, in one sentence. Launches nothing."""
        return self._engine.unavailable()

    @property
    def pages(self) -> int:
        """Pages open now."""
        return self._contexts.pages

    @property
    def user_agent(self) -> str | None:
        """What rendered pages say they are; None before the first browser runs."""
        own = self._session.user_agent if self._session else None
        return self._options.user_agent or own

    def cookies_for(self, proxy: BrowserProxy | None, host: str) -> list[dict[str, Any]]:
        """The cookies that the host's rendered pages left on an exit (None: direct)."""
        return self._places.jar((proxy, host))

    async def fetch(
        self,
        request: Request,
        *,
        proxy: BrowserProxy | None,
        host: str,
        escalated: bool,
        timeout: float,  # noqa: ASYNC109 - it does not run while waiting for a slot
    ) -> Response:
        """Render a request. ``timeout`` (seconds) covers all from launch to the last wait.

        Sets ``retryscrape_bytes`` and ``retryscrape_cookies`` in the request's meta.
        Raises FetchError; errors of the user's own page callables go through.
        """
        job = Job(request=request, escalated=escalated)
        await self._contexts.slot()
        if self._closing:
            self._contexts.free()
            raise FetchError("cancelled", At.TARGET)
        # a task of its own: it gives its slot back in whatever way it ends
        work = kept(self._work(job, proxy, host), self._works)
        try:
            done, _ = await asyncio.wait({work}, timeout=timeout)
        except asyncio.CancelledError:
            work.cancel()
            raise
        if not done:
            work.cancel()
            await asyncio.wait({work}, timeout=_LAST_WORDS)
            self._count("failed/render_timeout")
            raise FetchError(
                "render_timeout",
                detail=f"not done within {timeout:g} s",
                bytes=request.meta.get(BYTES, 0),
            )
        if work.cancelled():
            raise FetchError("cancelled", At.TARGET)
        return work.result()

    async def close(self) -> None:
        """End all pages, the browser and the driver; seconds at most."""
        self._closing = True
        for work in self._works:
            work.cancel()
        if self._works:
            await asyncio.wait(self._works, timeout=CLOSE_SECONDS)
        await asyncio.wait({asyncio.ensure_future(self._contexts.close())}, timeout=CLOSE_SECONDS)
        await self._engine.close()

    async def _work(self, job: Job, proxy: BrowserProxy | None, host: str) -> Response:
        lease: Lease[Place, Tab] | None = None
        try:
            lease = await self._lease(job, proxy, host)
            rendered = await self._render(job, lease)
            place, urls = lease.room.context.result(), {job.request.url, rendered.url}
            job.request.meta[COOKIES] = await self._places.fill_jar(place, list(urls))
            if proxy and rendered.document.status == 407:
                raise FetchError("connect", At.PROXY, status=407, detail="the proxy wants a login")
            response = response_of(job.request, rendered)
            self._done(job, lease, calm=_calm(job.request, rendered))
            return response
        except FetchError as error:
            self._count(f"failed/{error.reason}")
            error.bytes = error.bytes or self._bytes(job.request, lease)
            raise
        except Exception as error:
            self._bytes(job.request, lease)
            session = lease.room.context.result().session if lease else self._session
            fault = playwright_fault(error, lease.tab if lease else None, session)
            if fault is None:
                raise
            self._count(f"failed/{fault.reason}")
            raise fault from None
        except asyncio.CancelledError as error:
            self._bytes(job.request, lease)
            if not self._leave():
                raise
            self._count("failed/reset")
            raise FetchError("reset", detail="the browser went away") from error
        finally:
            self._leave()
            if lease is None:
                self._contexts.free()
            else:
                self._contexts.release(lease)

    def _enter(self, session: Session) -> None:
        work = asyncio.current_task()
        assert work is not None
        session.works.add(work)
        self._entered[work] = session

    def _leave(self) -> bool:
        """The task renders no more; whether it was ended because its browser went away."""
        work = asyncio.current_task()
        session = self._entered.pop(work, None) if work is not None else None
        if session is None or work is None:
            return False
        session.works.discard(work)
        return work in session.dropped

    async def _lease(self, job: Job, proxy: BrowserProxy | None, host: str) -> Lease[Place, Tab]:
        if proxy:
            proxy_kwargs(proxy)  # refused before anything is launched for it
        session = await self._engine.session()
        self._enter(session)
        if session is not self._session:
            self._session = session
            self._count("launches")
            self._count("playwright/browser_count", own=False)
            self._contexts.retire(lambda key: isinstance(key, tuple) and key[0] == id(session))
        url = job.request.url
        return await self._contexts.lease(
            (id(session), proxy, host),
            partial(self._places.open_context, session, proxy, host),
            lambda tab: not (tab.page.is_closed() or same_document(tab.url, url)),
        )

    async def _render(self, job: Job, lease: Lease[Place, Tab]) -> Rendered:
        place, tab, request = lease.room.context.result(), lease.tab, job.request
        self._count("pages")
        self._count("playwright/page_count", own=False)
        self._stats.max_value("retryscrape/browser/pages_at_once", self._contexts.pages)
        if request.url in place.seen:
            # an attempt is a request that reached the target, not one answered from a cache
            job = replace(job, cached=False)
        place.seen.add(request.url)
        if callback := request.meta.get(INIT):
            await load_object(callback)(tab.page, request)
        started = time.monotonic()
        rendering = asyncio.ensure_future(render(tab, job, self._options, self._challenged))
        tab.rendering = rendering
        try:
            rendered = await rendering
        except asyncio.CancelledError:
            if not tab.crashed:
                raise
            raise FetchError("reset", detail="the page crashed") from None
        finally:
            rendering.cancel()
        request.meta["download_latency"] = time.monotonic() - started
        if rendered.redirects:
            request.meta["redirect_urls"] = [hop.url for hop in rendered.redirects]
            request.meta["redirect_reasons"] = [hop.status for hop in rendered.redirects]
            request.meta["redirect_times"] = len(rendered.redirects)
        return rendered

    def _done(self, job: Job, lease: Lease[Place, Tab], *, calm: bool) -> None:
        meta = job.request.meta
        self._bytes(job.request, lease)
        wire = lease.tab.wire
        self._count("aborted", wire.aborted)
        if len(wire.documents) > 1:
            self._count("navigated_on")
        own = METHODS in meta or INIT in meta
        lease.reusable = calm and not (own or job.request.body or job.escalated)
        if time.monotonic() > self._sample_at:
            self._sample_at = math.inf
            asyncio.get_running_loop().run_in_executor(None, self._sample)

    def _sample(self) -> None:
        began = time.monotonic()
        size = pss(self._memory()) / 1e6
        if size:
            self._stats.set_value("retryscrape/browser/memory_mb", round(size))
            self._stats.max_value("retryscrape/browser/memory_mb_max", round(size))
        ended = time.monotonic()
        self._sample_at = ended + max(MEMORY_SECONDS, MEMORY_SHARE * (ended - began))

    def _bytes(self, request: Request, lease: Lease[Place, Tab] | None) -> int:
        if lease is not None:
            taken = lease.tab.wire.take_bytes()
            request.meta[BYTES] = int(request.meta.get(BYTES) or 0) + taken
            self._count("bytes", taken)
        return int(request.meta.get(BYTES) or 0)

    def _count(self, name: str, by: int = 1, *, own: bool = True) -> None:
        self._stats.inc_value(f"retryscrape/browser/{name}" if own else name, by)
