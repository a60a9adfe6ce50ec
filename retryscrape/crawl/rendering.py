"""The browser rung of a run: is there a browser, the one that renders, what its cookies are for.

How a page is rendered is browser/'s; nothing of it is imported before the first page.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from scrapy import Request
from scrapy.downloadermiddlewares.cookies import CookiesMiddleware

from retryscrape.crawl.cookies import plain_cookie
from retryscrape.crawl.keys import COOKIES
from retryscrape.policy.ladder import parse_rung
from retryscrape.policy.ticket import Ticket

if TYPE_CHECKING:
    from retryscrape.crawl.browser.aside import Aside
    from retryscrape.crawl.browser.options import BrowserOptions
    from retryscrape.crawl.runtime import Run

logger = logging.getLogger("retryscrape")


class Rendering:
    """One run's browser, if it comes to that."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._browser: Aside | None = None
        #: the browser's name on (exit, host), where its cookies are used by the plain rung
        self.agents: dict[tuple[str | None, str], str] = {}

    @property
    def browser(self) -> Aside:
        """The browser rung's handler; nothing is started before its first page."""
        if self._browser is None:
            from retryscrape.crawl.browser.aside import Aside

            self._browser = Aside(self._run.crawler, self._options())
        return self._browser

    def _options(self) -> BrowserOptions:
        from retryscrape.crawl.browser.options import BrowserOptions

        config, checks = self._run.config, self._run.checks
        return BrowserOptions.from_settings(
            self._run.crawler.settings,
            pages=config.browser_pages,
            recycle=config.browser_recycle,
            enough_text=checks.min_text,
            require=checks.require,
        )

    def look(self) -> None:
        """Take the browser's rungs off the ladder if there is none, with one clear line."""
        ours = "retryscrape.crawl.download.DownloadHandler"
        settings, rungs = self._run.crawler.settings, self._run.rungs
        handlers = settings.getdict("DOWNLOAD_HANDLERS")
        if not {handlers.get("http"), handlers.get("https")} & {ours, None}:
            # the project's own handlers fetch: there is one way to do so, theirs
            rungs.only(rungs.bases - {"browser", "api"})
        elif any(parse_rung(rung).base == "browser" for rung in rungs.names):
            # what renders is imported for the first page of it; what is wrong shows now
            from retryscrape.crawl.browser.executable import unavailable

            self._options()
            why = unavailable(settings)
            if why:
                self.lost(why)

    def lost(self, why: str) -> None:
        """The plain rung goes on alone."""
        rungs = self._run.rungs
        if "browser" in rungs.bases:
            logger.warning("Rendering is unavailable, the plain rung goes on: %s", why)
            rungs.only(rungs.bases - {"browser"})

    def take_cookies(self, request: Request, ticket: Ticket) -> None:
        """What a challenge has set goes into the plain rung's jar of the same exit, and so
        does the name the browser goes by: such cookies are bound to it."""
        jars = self._run.crawler.get_downloader_middleware(CookiesMiddleware)
        found = request.meta.get(COOKIES)
        if jars is None or not found:
            return
        jar = jars.jars[request.meta.get("cookiejar")]
        for cookie in found:
            jar.set_cookie(plain_cookie(cookie))
        agent = self.browser.user_agent
        if agent:
            self.agents[ticket.exit, ticket.host] = agent

    async def close(self) -> None:
        """End the browser, if there is one."""
        if self._browser is not None:
            await self._browser.close()
