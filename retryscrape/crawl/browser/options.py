"""What the browser rung is told once (options) and per page (the exit, the job).

Values only, read from Scrapy's settings in one place. No playwright.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypedDict

from scrapy.utils.misc import load_object

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

#: What is not loaded unless the user says otherwise: most of a page's bytes, none of its text.
ABORTED_TYPES = ("Image", "Font", "Media")
#: Idle contexts kept for their cookies; one without a page costs 1 to 2 MB.
CONTEXTS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowserProxy:
    """An exit as the browser needs it: ``server`` is ``scheme://host:port``, the rest decoded."""

    id: str
    server: str
    username: str | None = None
    password: str | None = field(default=None, repr=False)


class How(TypedDict):
    """What ``Browser.fetch`` is told of a page besides its request, handed on as it is."""

    proxy: BrowserProxy | None
    host: str
    escalated: bool
    timeout: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """How long a page is waited for, in seconds. All of it lies within the page's watchdog.

    A page with ``enough_text`` is done once it was ``quiet`` that long, at the latest
    after ``busy`` (tickers and clocks never rest). A thinner one with scripts is given
    ``sparse`` without any change, at most ``limit``.
    """

    quiet: float = 0.1
    sparse: float = 3.0
    busy: float = 2.5
    limit: float = 8.0
    hang: float = 3.0
    challenge: float = 15.0
    scroll: float = 10.0
    network: float = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowserOptions:
    """Options of the run.

    ``enough_text`` (visible characters) and ``require`` (a CSS selector) say when a
    page looks complete; ``abort`` is the user's own rule, ``abort_types`` ours.
    """

    pages: int = 4
    recycle: int = 500
    max_contexts: int = CONTEXTS
    enough_text: int = 500
    require: str | None = None
    user_agent: str | None = None
    verify_tls: bool = True
    max_size: int = 0
    abort_types: tuple[str, ...] = ABORTED_TYPES
    abort: Callable[[Any], Any] | None = None
    context_kwargs: dict[str, Any] = field(default_factory=dict)
    waits: Waits = Waits()

    @property
    def slots(self) -> int:
        """Pages at once: never more than contexts, so that a page never waits for one."""
        return max(1, min(self.pages, self.max_contexts))

    @classmethod
    def from_settings(cls, settings: BaseSettings, **own: Any) -> BrowserOptions:
        """Read Scrapy's and scrapy-playwright's settings; ``own`` are fields set by the caller."""
        values: dict[str, Any] = {
            "max_contexts": settings.getint("PLAYWRIGHT_MAX_CONTEXTS") or CONTEXTS,
            "user_agent": _user_agent(settings),
            "verify_tls": verify_tls(settings),
            "max_size": settings.getint("DOWNLOAD_MAXSIZE"),
            "context_kwargs": dict(settings.getdict("PLAYWRIGHT_CONTEXTS").get("default", {})),
        }
        if "PLAYWRIGHT_ABORT_REQUEST" in settings:
            rule = settings.get("PLAYWRIGHT_ABORT_REQUEST")
            values["abort_types"] = ()
            values["abort"] = load_object(rule) if rule else None
        return cls(**{**values, **own})


def _user_agent(settings: BaseSettings) -> str | None:
    """The user's own USER_AGENT. Scrapy's default would name a downloader in a browser."""
    if not settings.getpriority("USER_AGENT"):
        return None
    return settings.get("USER_AGENT") or None


def verify_tls(settings: BaseSettings) -> bool:
    """Whether certificates are checked: yes, unless somebody said no. Scrapy's own default is
    no; here strangers' proxies are in between."""
    name = "DOWNLOAD_VERIFY_CERTIFICATES"
    return not settings.getpriority(name) or settings.getbool(name)
