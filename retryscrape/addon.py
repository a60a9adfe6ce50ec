"""The Scrapy add-on: one line in a project's ADDONS switches all of retryscrape on.

``ADDONS = {"retryscrape.addon.Retryscrape": 300}``. What a project sets itself
wins. Only settings are changed here; what they mean is with each component.
"""

from __future__ import annotations

import logging
from typing import Any

from scrapy.downloadermiddlewares.retry import RetryMiddleware
from scrapy.settings import SETTINGS_PRIORITIES, BaseSettings
from scrapy.utils.misc import load_object

logger = logging.getLogger("retryscrape")

_MIDDLEWARES = {
    "retryscrape.crawl.middlewares.ExitMiddleware": 690,
    "retryscrape.crawl.middlewares.ArrivalMiddleware": 605,
    "retryscrape.crawl.middlewares.AttemptMiddleware": 585,
}
_ORDINARY = "retryscrape.crawl.ordinary.OrdinaryMiddleware"
#: Ours in the place of Scrapy's, at Scrapy's own order, unless the project uses that place.
_INSTEAD = {
    "scrapy.downloadermiddlewares.robotstxt.RobotsTxtMiddleware": (
        "retryscrape.crawl.robots.QuietRobotsTxtMiddleware",
        100,
    ),
    "scrapy.downloadermiddlewares.redirect.MetaRefreshMiddleware": (
        "retryscrape.crawl.lean.LeanMetaRefresh",
        580,
    ),
    "scrapy.downloadermiddlewares.cookies.CookiesMiddleware": (
        "retryscrape.crawl.lean.LeanCookies",
        700,
    ),
    "scrapy.downloadermiddlewares.stats.DownloaderStats": (
        "retryscrape.crawl.lean.LeanDownloaderStats",
        850,
    ),
}
_DOWNLOAD_HANDLER = "retryscrape.crawl.download.DownloadHandler"

#: Scrapy's settings that we choose, each with its reason; the project's own win.
_SETTINGS: dict[str, Any] = {
    # waiting requests stay in our scheduler, and our downloader says where there is room
    "SCHEDULER": "retryscrape.crawl.scheduler.WaitingScheduler",
    "DOWNLOADER": "retryscrape.crawl.downloader.RoomyDownloader",
    # an expected failure of a target is a line, not a traceback
    "RETRY_GIVE_UP_LOG_LEVEL": "INFO",
    # the same with less to do on each page
    "STATS_CLASS": "retryscrape.crawl.lean.LeanStats",
    "LOG_FORMATTER": "retryscrape.crawl.lean.LeanLogFormatter",
    # RETRYSCRAPE_PROGRESS says more once a minute, or live
    "LOGSTATS_INTERVAL": 0,
}

#: Scrapy's extensions that do nothing while the setting is false.
_SWITCHED_OFF = {
    "scrapy.extensions.remote_control.RemoteControl": "REMOTE_CONTROL_ENABLED",
    "scrapy.extensions.telnet.TelnetConsole": "TELNETCONSOLE_ENABLED",
    "scrapy.extensions.memdebug.MemoryDebugger": "MEMDEBUG_ENABLED",
    "scrapy.extensions.throttle.AutoThrottle": "AUTOTHROTTLE_ENABLED",
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
        self._instead(settings)
        self._unused(settings)
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

    def _instead(self, settings: BaseSettings) -> None:
        own = {load_object(c) for c in settings.getdict("DOWNLOADER_MIDDLEWARES")}
        for theirs, (ours, order) in _INSTEAD.items():
            component = load_object(theirs)
            if component not in own:
                name = "DOWNLOADER_MIDDLEWARES"
                settings.set_in_component_priority_dict(name, component, None)
                self._default(settings, name, ours, order)

    @staticmethod
    def _unused(settings: BaseSettings) -> None:
        """Extensions that would find out that they are switched off: with them goes the import
        of a web client and of a shell, a quarter of the time that Scrapy takes to start."""
        base = settings.getdict("EXTENSIONS_BASE")
        for path, switch in _SWITCHED_OFF.items():
            if not settings.getbool(switch):
                # not None in EXTENSIONS: Scrapy would import it to find out what it is
                base.pop(path, None)
        settings.set("EXTENSIONS_BASE", base, priority="addon")

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
