"""``Browser``: renders a request through an exit and gives back the final response.

The rest of the crawl knows this class only. It raises FetchError and nothing else for what
a site, an exit or the browser may do.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from scrapy import Request
from scrapy.http import Response
from scrapy.utils.misc import load_object

from retryscrape.crawl.browser.contexts import Contexts, Lease
from retryscrape.crawl.browser.documents import Rendered, response_of
from retryscrape.crawl.browser.engine import Engine, Session
from retryscrape.crawl.browser.options import BrowserOptions, BrowserProxy
from retryscrape.crawl.browser.processes import pss
from retryscrape.crawl.browser.render import Job, Navigated, Tab, render, same_document
from retryscrape.crawl.browser.wire import Wire
from retryscrape.crawl.faults import At, FetchError
from retryscrape.crawl.keys import BYTES, COOKIES
from retryscrape.policy.outcomes import Kind, Page

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext
    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)

#: Cookies are remembered for so many (exit, host); a context that was closed gets them back.
JARS = 4096
#: Seconds for pages in flight to end when the run is closed, and between looks at the memory.
CLOSE_SECONDS, MEMORY_SECONDS = 2.0, 10.0
_DIRECT = "direct"
_SCHEMES = {"http": "http", "https": "https", "socks5": "socks5", "socks5h": "socks5"}


@dataclass(slots=True, eq=False)
class Place:
    """A browser context: of which session, for which exit and host, what was seen in it."""

    session: Session
    context: BrowserContext
    seen: set[str] = field(default_factory=set)


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
    ) -> None:
        self._stats = crawler.stats
        self._options = options
        self._challenged = challenged
        self._engine = Engine(crawler.settings, recycle=options.recycle)
        self._session: Session | None = None
        self._contexts: Contexts[Place, Tab] = Contexts(
            slots=options.slots,
            limit=options.max_contexts,
            open_tab=self._open_tab,
            close_tab=self._close_tab,
            close_context=self._close_context,
        )
        self._jars: OrderedDict[tuple[str, str], list[dict[str, Any]]] = OrderedDict()
        self._works: set[asyncio.Task[Response]] = set()
        self._open = 0
        self._closing = False
        self._sampled = 0.0

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

    def cookies_for(self, exit_id: str | None, host: str) -> list[dict[str, Any]]:
        """The cookies that the host's rendered pages left on an exit (None: direct)."""
        return list(self._jars.get((exit_id or _DIRECT, host), ()))

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
        if self._closing:
            raise FetchError("cancelled", At.TARGET)
        job = Job(request=request, proxied=proxy is not None, escalated=escalated)
        await self._contexts.slot()
        # a task of its own: it gives its slot back in whatever way it ends
        work = asyncio.create_task(self._work(job, proxy, host))
        self._works.add(work)
        work.add_done_callback(self._works.discard)
        try:
            done, _ = await asyncio.wait({work}, timeout=timeout)
        except asyncio.CancelledError:
            work.cancel()
            raise
        if not done:
            work.cancel()
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
            await self._keep_cookies(job.request, lease, rendered, proxy, host)
            if proxy and rendered.document.status == 407:
                raise FetchError("connect", At.PROXY, status=407, detail="the proxy wants a login")
            response = response_of(job.request, rendered)
            self._done(job, lease)
            return response
        except FetchError as error:
            self._count(f"failed/{error.reason}")
            error.bytes = error.bytes or self._bytes(job.request, lease)
            raise
        except Exception as error:
            self._bytes(job.request, lease)
            fault = self._fault(error, lease, proxy)
            if fault is None:
                raise
            self._count(f"failed/{fault.reason}")
            raise fault from None
        except asyncio.CancelledError:
            self._bytes(job.request, lease)
            raise
        finally:
            if lease is None:
                self._contexts.free()
            else:
                self._contexts.release(lease)

    async def _lease(self, job: Job, proxy: BrowserProxy | None, host: str) -> Lease[Place, Tab]:
        if proxy and proxy.server.partition("://")[0].lower() not in _SCHEMES:
            raise FetchError("scheme", At.PROXY, detail="the browser does not speak to this exit")
        session = await self._engine.session()
        if session is not self._session:
            self._session = session
            self._count("launches")
            self._count("playwright/browser_count", own=False)
            self._contexts.retire(lambda key: isinstance(key, tuple) and key[0] == id(session))
        url = job.request.url
        return await self._contexts.lease(
            (id(session), proxy.id if proxy else _DIRECT, host),
            partial(self._open_context, session, proxy, host),
            lambda tab: not (tab.page.is_closed() or same_document(tab.url, url)),
        )

    async def _render(self, job: Job, lease: Lease[Place, Tab]) -> Rendered:
        place, tab, request = lease.room.context.result(), lease.tab, job.request
        self._count("pages")
        self._count("playwright/page_count", own=False)
        self._stats.max_value("retryscrape/browser/pages_at_once", self._contexts.pages)
        if request.url in place.seen:
            # an attempt is a request that reached the target, not one answered from a cache
            job = Job(request=request, proxied=job.proxied, escalated=job.escalated, cached=False)
        place.seen.add(request.url)
        if callback := request.meta.get("playwright_page_init_callback"):
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

    def _done(self, job: Job, lease: Lease[Place, Tab]) -> None:
        meta = job.request.meta
        self._bytes(job.request, lease)
        wire = lease.tab.wire
        self._count("aborted", wire.aborted)
        if len(wire.documents) > 1:
            self._count("navigated_on")
        own = any(
            key in meta for key in ("playwright_page_methods", "playwright_page_init_callback")
        )
        lease.reusable = not (own or job.request.body or job.escalated)
        if time.monotonic() - self._sampled > MEMORY_SECONDS:
            self._sampled = time.monotonic()
            asyncio.get_running_loop().run_in_executor(None, self._sample)

    def _sample(self) -> None:
        size = pss(self._engine.processes()) / 1e6
        if size:
            self._stats.set_value("retryscrape/browser/memory_mb", round(size))
            self._stats.max_value("retryscrape/browser/memory_mb_max", round(size))

    def _bytes(self, request: Request, lease: Lease[Place, Tab] | None) -> int:
        if lease is not None:
            taken = lease.tab.wire.take_bytes()
            request.meta[BYTES] = int(request.meta.get(BYTES) or 0) + taken
            self._count("bytes", taken)
        return int(request.meta.get(BYTES) or 0)

    def _fault(
        self, error: Exception, lease: Lease[Place, Tab] | None, proxy: BrowserProxy | None
    ) -> FetchError | None:
        """What Playwright's errors mean; None for anybody else's."""
        from playwright.async_api import Error
        from playwright.async_api import TimeoutError as PlaywrightTimeout

        if isinstance(error, Navigated):
            return FetchError("render_timeout", detail="the page never came to rest")
        if isinstance(error, PlaywrightTimeout):
            return FetchError("render_timeout", detail="a page method took too long")
        if not isinstance(error, Error):
            return None
        text = " ".join(error.message.split("\n", 1)[0].split())[:120]
        if "does not support" in text and "proxy" in text:
            return FetchError("scheme", At.PROXY, detail="the browser does not speak to this exit")
        if "has been closed" in text or "crashed" in text:
            if self._session and not (lease and lease.tab.page.is_closed()):
                # closed without the page's own event: the driver is gone, and its
                # browser still says that it is connected
                self._session.lost = True
            return FetchError("reset", detail="the browser or its page went away")
        return FetchError("render_timeout", detail=text)

    async def _keep_cookies(
        self,
        request: Request,
        lease: Lease[Place, Tab],
        rendered: Rendered,
        proxy: BrowserProxy | None,
        host: str,
    ) -> None:
        urls = list({request.url, rendered.url})
        context = lease.room.context.result().context
        cookies = [dict(cookie) for cookie in await context.cookies(urls)]
        request.meta[COOKIES] = cookies
        key = (proxy.id if proxy else _DIRECT, host)
        self._jars.pop(key, None)
        if cookies:
            self._jars[key] = cookies
            if len(self._jars) > JARS:
                self._jars.popitem(last=False)

    async def _open_context(self, session: Session, proxy: BrowserProxy | None, host: str) -> Place:
        options = self._options
        kwargs: dict[str, Any] = {
            "user_agent": options.user_agent or session.user_agent,
            "ignore_https_errors": not options.verify_tls,
            "service_workers": "block",
            "accept_downloads": False,
            **options.context_kwargs,
        }
        if proxy:
            kwargs["proxy"] = _proxy_kwargs(proxy)
        context = await session.browser.new_context(**kwargs)
        session.contexts += 1
        self._open += 1
        self._count("contexts")
        self._count("playwright/context_count", own=False)
        self._stats.max_value("retryscrape/browser/contexts_at_once", self._open)
        place = Place(session, context)
        if jar := self._jars.get((proxy.id if proxy else _DIRECT, host)):
            await context.add_cookies(jar)  # type: ignore[arg-type]
        if options.abort is not None:
            await context.route("**/*", self._route)
        return place

    async def _close_context(self, place: Place) -> None:
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await place.context.close()
        finally:
            self._open -= 1
            place.session.contexts -= 1
            self._engine.settle(place.session)

    async def _open_tab(self, place: Place) -> Tab:
        page = await place.context.new_page()
        session = await place.context.new_cdp_session(page)
        options = self._options
        tab = Tab(page, Wire(session, abort_types=options.abort_types, max_size=options.max_size))

        def crashed(_: Any) -> None:
            tab.crashed = True
            self._count("crashes")
            if tab.rendering:
                tab.rendering.cancel()

        page.on("crash", crashed)
        page.on("popup", lambda popup: asyncio.ensure_future(popup.close()))
        await tab.wire.open()
        return tab

    async def _close_tab(self, tab: Tab) -> None:
        async with asyncio.timeout(CLOSE_SECONDS):
            await tab.page.close()

    async def _route(self, route: Any) -> None:
        """The user's own PLAYWRIGHT_ABORT_REQUEST."""
        verdict = self._options.abort(route.request) if self._options.abort else False
        if hasattr(verdict, "__await__"):
            verdict = await verdict
        if verdict:
            self._count("aborted")
            await route.abort()
        else:
            await route.fallback()

    def _count(self, name: str, by: int = 1, *, own: bool = True) -> None:
        self._stats.inc_value(f"retryscrape/browser/{name}" if own else name, by)


def _proxy_kwargs(proxy: BrowserProxy) -> dict[str, str]:
    """Playwright's form. Credentials inside ``server`` would not work (probes.md, part B)."""
    scheme, _, rest = proxy.server.partition("://")
    kwargs = {"server": f"{_SCHEMES[scheme.lower()]}://{rest}"}
    if proxy.username is not None:
        kwargs["username"] = proxy.username
        kwargs["password"] = proxy.password or ""
    return kwargs
