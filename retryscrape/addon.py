"""The Scrapy add-on: one line in a project's ADDONS switches all of retryscrape on.

``ADDONS = {"retryscrape.addon.Retryscrape": 300}``. What a project sets itself
wins. Only settings are changed here; what they mean is with each component.
"""

from __future__ import annotations

import logging
from typing import Any

from scrapy.downloadermiddlewares.retry import RetryMiddleware
from scrapy.downloadermiddlewares.robotstxt import RobotsTxtMiddleware
from scrapy.settings import SETTINGS_PRIORITIES, BaseSettings
from scrapy.utils.misc import load_object

logger = logging.getLogger("retryscrape")

_MIDDLEWARES = {
    "retryscrape.crawl.middlewares.ExitMiddleware": 690,
    "retryscrape.crawl.middlewares.ArrivalMiddleware": 605,
    "retryscrape.crawl.middlewares.AttemptMiddleware": 585,
}
_DOWNLOAD_HANDLER = "retryscrape.crawl.download.DownloadHandler"

#: Scrapy's settings that we choose, each with its reason; the project's own win.
_SETTINGS: dict[str, Any] = {
    # waiting requests stay in our scheduler, and our downloader says where there is room
    "SCHEDULER": "retryscrape.crawl.scheduler.WaitingScheduler",
    "DOWNLOADER": "retryscrape.crawl.downloader.RoomyDownloader",
    # Scrapy starts this many tasks for every response (100): 500 pages a CPU second
    # against 710 with one; and one keeps a page's row behind the user's items
    "CONCURRENT_ITEMS": 1,
    # an expected failure of a target is a line, not a traceback
    "RETRY_GIVE_UP_LOG_LEVEL": "INFO",
}


class Retryscrape:
    """Switches the components on."""

    def update_settings(self, settings: BaseSettings) -> None:
        for name, value in _SETTINGS.items():
            self._choose(settings, name, value)
        for path, order in _MIDDLEWARES.items():
            self._default(settings, "DOWNLOADER_MIDDLEWARES", path, order)
        # replace_in_component_priority_dict raises KeyError for built-in components
        settings.set_in_component_priority_dict("DOWNLOADER_MIDDLEWARES", RetryMiddleware, None)
        settings.set_in_component_priority_dict("DOWNLOADER_MIDDLEWARES", RobotsTxtMiddleware, None)
        self._default(
            settings,
            "DOWNLOADER_MIDDLEWARES",
            "retryscrape.crawl.robots.QuietRobotsTxtMiddleware",
            100,
        )
        self._default(settings, "ITEM_PIPELINES", "retryscrape.crawl.pipeline.LedgerPipeline", 100)
        self._default(settings, "EXTENSIONS", "retryscrape.crawl.session.Session", 0)
        self._handlers(settings)

    @staticmethod
    def _default(settings: BaseSettings, name: str, path: str, order: int) -> None:
        settings.setdefault_in_component_priority_dict(name, load_object(path), order)

    def _choose(self, settings: BaseSettings, name: str, value: Any) -> None:
        """Set unless the project has chosen otherwise; say so where that matters."""
        if (settings.getpriority(name) or 0) > SETTINGS_PRIORITIES["default"]:
            if name in {"SCHEDULER", "DOWNLOADER"} and settings[name] != value:
                logger.warning(
                    "Setting %s of this project stays as it is: waits for hosts and retries "
                    "are kept only by %s.",
                    name,
                    value,
                )
            return
        settings.set(name, value, priority="addon")

    def _handlers(self, settings: BaseSettings) -> None:
        handlers = settings.getdict("DOWNLOAD_HANDLERS")
        for scheme in ("http", "https"):
            handlers.setdefault(scheme, _DOWNLOAD_HANDLER)
        # ``addon`` lies below ``project``: what is there already is kept as it is
        priority = max(settings.getpriority("DOWNLOAD_HANDLERS") or 0, SETTINGS_PRIORITIES["addon"])
        settings.set("DOWNLOAD_HANDLERS", handlers, priority=priority)
