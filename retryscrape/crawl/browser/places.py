"""Where pages are rendered: contexts with their exit and cookies, tabs with their wire.

How many there are is ``contexts``'; this opens and closes them.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from retryscrape.crawl.browser.engine import CLOSE_SECONDS, Engine, Session
from retryscrape.crawl.browser.looking import Tab
from retryscrape.crawl.browser.options import BrowserOptions, BrowserProxy
from retryscrape.crawl.browser.wire import Wire
from retryscrape.crawl.faults import At, FetchError

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext
    from scrapy.statscollectors import StatsCollector

#: Cookies are remembered for so many (exit, host); a context that was closed gets them back.
JARS = 4096
#: A tab that could not be closed for so many seconds is sent elsewhere and closed there; after so
#: many more it takes its browser with it, and all other pages.
STUBBORN_SECONDS, SWAP_SECONDS, STUCK_SECONDS = 2.0, 0.5, 8.0
_SCHEMES = {"http": "http", "https": "https", "socks5": "socks5", "socks5h": "socks5"}

Jar = list[dict[str, Any]]
#: What a context is kept by. All of the exit and not its id alone: a gateway's user name
#: may carry a session, and a context keeps the proxy that it was made with.
Key = tuple[BrowserProxy | None, str]


class Place(Struct, eq=False):
    """A browser context: of which session and exit, for which host, what was seen in it."""

    session: Session
    context: BrowserContext
    key: Key
    seen: set[str] = field(default_factory=set)
    #: connections that its tabs have used, by Chromium's numbers
    connections: set[int] = field(default_factory=set)


class Places:
    """Opens and closes contexts and tabs, and keeps the cookies of both."""

    def __init__(self, options: BrowserOptions, engine: Engine, stats: StatsCollector) -> None:
        self._options = options
        self._engine = engine
        self._stats = stats
        self._jars: OrderedDict[Key, Jar] = OrderedDict()
        self._open = 0

    def jar(self, key: Key) -> Jar:
        """The cookies of an exit and host."""
        return list(self._jars.get(key, ()))

    async def fill_jar(self, place: Place, urls: list[str]) -> Jar:
        """Take the cookies that these URLs would be sent."""
        cookies = [dict(cookie) for cookie in await place.context.cookies(urls)]
        self._jars.pop(place.key, None)
        if cookies:
            self._jars[place.key] = cookies
            if len(self._jars) > JARS:
                self._jars.popitem(last=False)
        return cookies

    async def open_context(self, session: Session, proxy: BrowserProxy | None, host: str) -> Place:
        """A context that leaves through the exit. Raises Playwright's errors."""
        options = self._options
        kwargs: dict[str, Any] = {
            "user_agent": options.user_agent or session.user_agent,
            "ignore_https_errors": not options.verify_tls,
            "service_workers": "block",
            "accept_downloads": False,
            **options.context_kwargs,
        }
        if proxy:
            kwargs["proxy"] = proxy_kwargs(proxy)
        context = await session.browser.new_context(**kwargs)
        place = Place(session, context, (proxy, host))
        session.contexts += 1
        self._open += 1
        self._stats.inc_value("retryscrape/browser/contexts")
        self._stats.inc_value("playwright/context_count")
        self._stats.max_value("retryscrape/browser/contexts_at_once", self._open)
        if jar := self._jars.get(place.key):
            await context.add_cookies(jar)  # type: ignore[arg-type]
        if options.abort is not None:
            await context.route("**/*", self._route)
        return place

    async def close_context(self, place: Place) -> None:
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await place.context.close()
        finally:
            self._open -= 1
            place.session.contexts -= 1
            self._engine.settle(place.session)

    async def open_tab(self, place: Place) -> Tab:
        page = await place.context.new_page()
        session = await place.context.new_cdp_session(page)
        options = self._options
        wire = Wire(
            session,
            abort_types=options.abort_types,
            max_size=options.max_size,
            connections=place.connections,
            login=_login(place.key[0]),
        )
        tab = Tab(page, wire)

        def crashed(_: Any) -> None:
            tab.crashed = True
            self._stats.inc_value("retryscrape/browser/crashes")
            if tab.rendering:
                tab.rendering.cancel()

        page.on("crash", crashed)
        page.on("popup", lambda popup: asyncio.ensure_future(popup.close()))
        await tab.wire.open()
        return tab

    async def close_tab(self, tab: Tab) -> None:
        closing = asyncio.ensure_future(tab.page.close())
        await asyncio.wait({closing}, timeout=STUBBORN_SECONDS)
        if not closing.done():
            again = asyncio.ensure_future(_close_elsewhere(tab))
            await asyncio.wait({closing}, timeout=STUCK_SECONDS)
            again.cancel()
        if not closing.done():  # its scripts let nobody in, and soon no other page either
            self._engine.kill()
        await closing

    async def _route(self, route: Any) -> None:
        """The user's own PLAYWRIGHT_ABORT_REQUEST."""
        verdict = self._options.abort(route.request) if self._options.abort else False
        if hasattr(verdict, "__await__"):
            verdict = await verdict
        if verdict:
            self._stats.inc_value("retryscrape/browser/aborted")
            await route.abort()
        else:
            await route.fallback()


async def _close_elsewhere(tab: Tab) -> None:
    """Of a page that loads itself without end Chromium may lose the close (one in ten, measured)."""
    with suppress(Exception):
        await tab.wire.session.send("Page.navigate", {"url": "about:blank"})
        await asyncio.sleep(SWAP_SECONDS)
        await tab.wire.session.send("Page.close")


def _login(proxy: BrowserProxy | None) -> tuple[str, str] | None:
    if proxy is None or proxy.username is None:
        return None
    return proxy.username, proxy.password or ""


def proxy_kwargs(proxy: BrowserProxy) -> dict[str, str]:
    """Playwright's form. Credentials inside ``server`` would not work (probes.md, part B).

    Raises FetchError ``scheme`` for an exit that no browser speaks to.
    """
    scheme, _, rest = proxy.server.partition("://")
    if scheme.lower() not in _SCHEMES:
        raise FetchError("scheme", At.PROXY, detail="the browser does not speak to this exit")
    kwargs = {"server": f"{_SCHEMES[scheme.lower()]}://{rest}"}
    if proxy.username is not None:
        kwargs["username"] = proxy.username
        kwargs["password"] = proxy.password or ""
    return kwargs
