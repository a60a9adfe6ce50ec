"""Requests that a project's own scrapy-playwright renders: they leave through our exits, too.

It takes no notice of ``meta["proxy"]``: a browser's context has a proxy or none. So each
exit gets a context of its own. What our own browser rung does is crawl/browser's.
"""

from __future__ import annotations

from typing import Any

from scrapy import Request
from scrapy.settings import BaseSettings
from scrapy.utils.httpobj import urlparse_cached
from scrapy.utils.misc import load_object

from retryscrape.crawl.keys import CONTEXT, CONTEXT_KWARGS, OWN_CONTEXT
from retryscrape.policy.exits import Exit


class TheirBrowser:
    """The project's scrapy-playwright, as far as it has one in DOWNLOAD_HANDLERS."""

    def __init__(self, settings: BaseSettings) -> None:
        handlers = settings.getdict("DOWNLOAD_HANDLERS")
        self._schemes = {name for name in ("http", "https") if _is_theirs(handlers.get(name))}
        self._contexts = settings.getdict("PLAYWRIGHT_CONTEXTS")
        self._launched_with_proxy = "proxy" in settings.getdict("PLAYWRIGHT_LAUNCH_OPTIONS")
        self._most = settings.getint("PLAYWRIGHT_MAX_CONTEXTS")

    def complaint(self, exits: int) -> str | None:
        """Why so many exits cannot be used, or None. It closes no context, and waits for
        ever for one more than it may have."""
        needed = exits + len(self._contexts)
        if not self._schemes or self._launched_with_proxy or not 0 < self._most < needed:
            return None
        return (
            f"Setting PLAYWRIGHT_MAX_CONTEXTS is {self._most}, and scrapy-playwright needs a"
            f" context for each of {exits} exits: {needed} at least, or none of RETRYSCRAPE_PROXIES."
        )

    def renders(self, request: Request) -> bool:
        """Whether it renders the request, and not our own browser or a plain client."""
        if not self._schemes or not request.meta.get("playwright"):
            return False
        return urlparse_cached(request).scheme in self._schemes

    def has_proxy(self, request: Request) -> bool:
        """Whether the project has given the request's context a proxy: that wins."""
        return self._launched_with_proxy or "proxy" in self._options(request)

    def leave_by(self, request: Request, exit_: Exit) -> None:
        """Render in the exit's context: the request's own one, with the exit as its proxy."""
        if exit_.session:
            exit_ = exit_.with_session(exit_.id.rpartition("#")[2])  # a context keeps its proxy
        proxy: dict[str, str] = {"server": exit_.proxy_url}
        if exit_.username:
            proxy |= {"username": exit_.username, "password": exit_.password}
        given = (request.meta.get(CONTEXT), request.meta.get(CONTEXT_KWARGS))
        name, _ = request.meta.setdefault(OWN_CONTEXT, given)
        request.meta[CONTEXT_KWARGS] = self._options(request) | {"proxy": proxy}
        request.meta[CONTEXT] = f"{name or 'default'} {exit_.id}"

    def _options(self, request: Request) -> dict[str, Any]:
        name = request.meta.get(CONTEXT) or "default"
        return {
            **(self._contexts.get(name) or {}),
            **(request.meta.get(CONTEXT_KWARGS) or {}),
        }


def _is_theirs(handler: Any) -> bool:
    if handler is None:
        return False
    try:
        from scrapy_playwright.handler import ScrapyPlaywrightDownloadHandler
    except ImportError:
        return False
    kind = load_object(handler)
    return isinstance(kind, type) and issubclass(kind, ScrapyPlaywrightDownloadHandler)
