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
_ORDINARY = "retryscrape.crawl.ordinary.OrdinaryMiddleware"
_ROBOTS = "retryscrape.crawl.robots.QuietRobotsTxtMiddleware"
_DOWNLOAD_HANDLER = "retryscrape.crawl.download.DownloadHandler"

#: Scrapy's settings that we choose, each with its reason; the project's own win.
_SETTINGS: dict[str, Any] = {
    # waiting requests stay in our scheduler, and our downloader says where there is room
    "SCHEDULER": "retryscrape.crawl.scheduler.WaitingScheduler",
    "DOWNLOADER": "retryscrape.crawl.downloader.RoomyDownloader",
    # an expected failure of a target is a line, not a traceback
    "RETRY_GIVE_UP_LOG_LEVEL": "INFO",
    # RETRYSCRAPE_PROGRESS says more once a minute, or live
    "LOGSTATS_INTERVAL": 0,
}

#: What is lost when the project keeps its own.
_WITHOUT = {
    "SCHEDULER": "requests that wait (retries, paused hosts) take up places of "
    "CONCURRENT_REQUESTS, and a manifest is read as fast as it can be",
    "DOWNLOADER": "requests of a slow host take up places of CONCURRENT_REQUESTS",
}


class Retryscrape:
    """Switches the components on."""

    def update_settings(self, settings: BaseSettings) -> None:
        for name, value in _SETTINGS.items():
            self._choose(settings, name, value)
        for path, order in _MIDDLEWARES.items():
            self._default(settings, "DOWNLOADER_MIDDLEWARES", path, order)
        self._default(settings, "SPIDER_MIDDLEWARES", _ORDINARY, 990)
        self._retries(settings)
        self._robots(settings)
        self._default(settings, "ITEM_PIPELINES", "retryscrape.crawl.pipeline.LedgerPipeline", 100)
        self._default(settings, "EXTENSIONS", "retryscrape.crawl.session.Session", 0)
        self._default(settings, "EXTENSIONS", "retryscrape.crawl.progress.ProgressLine", 10)
        self._handlers(settings)

    def _retries(self, settings: BaseSettings) -> None:
        """Scrapy's own retries are off; a subclass of the project's would multiply with ours."""
        for component, order in settings.getdict("DOWNLOADER_MIDDLEWARES").items():
            kind = load_object(component)
            own = kind is not RetryMiddleware and issubclass(kind, RetryMiddleware)
            if order is not None and own:
                logger.warning(
                    "%s retries too, and stays: its retries come on top of retryscrape's.",
                    kind.__qualname__,
                )
        # replace_in_component_priority_dict raises KeyError for built-in components
        settings.set_in_component_priority_dict("DOWNLOADER_MIDDLEWARES", RetryMiddleware, None)

    def _robots(self, settings: BaseSettings) -> None:
        """Ours in the place of Scrapy's, unless the project has put its hand on that place."""
        own = {load_object(c) for c in settings.getdict("DOWNLOADER_MIDDLEWARES")}
        if RobotsTxtMiddleware in own:
            return
        settings.set_in_component_priority_dict("DOWNLOADER_MIDDLEWARES", RobotsTxtMiddleware, None)
        self._default(settings, "DOWNLOADER_MIDDLEWARES", _ROBOTS, 100)

    @staticmethod
    def _default(settings: BaseSettings, name: str, path: str, order: int) -> None:
        settings.setdefault_in_component_priority_dict(name, load_object(path), order)

    def _choose(self, settings: BaseSettings, name: str, value: Any) -> None:
        """Set unless the project has chosen otherwise; say so where that matters."""
        if (settings.getpriority(name) or 0) > SETTINGS_PRIORITIES["default"]:
            if name in {"SCHEDULER", "DOWNLOADER"} and settings[name] != value:
                logger.warning(
                    "Setting %s of this project stays as it is; %s.",
                    name,
                    _WITHOUT[name],
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
