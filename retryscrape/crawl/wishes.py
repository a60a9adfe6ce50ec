"""What one request asks for itself: ``Request.meta`` wins over settings and arguments.

Documented in docs/addon.md; a test holds that list and this one together. No rule
lives here: the values go where those of the run would have gone.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from msgspec.structs import replace
from scrapy import Request
from scrapy.settings import SETTINGS_PRIORITIES, BaseSettings

from retryscrape.config import parse_value
from retryscrape.crawl.arguments import parse_argument
from retryscrape.crawl.keys import AGAIN, NO_CACHE
from retryscrape.policy.decide import Limits
from retryscrape.policy.ladder import Ladder
from retryscrape.policy.outcomes import Checks, Outcome
from retryscrape.policy.ticket import Ticket

logger = logging.getLogger("retryscrape")

#: Keys in meta, with how they are read; the names are those of settings and arguments.
_LIMITS = ("attempts", "url_budget", "max_wait")
_CHECKS = ("require", "min_text", "final_host")
KEYS: Mapping[str, Callable[[Any], Any]] = {
    **{f"retryscrape_{name}": partial(parse_value, name.upper()) for name in (*_LIMITS, "ladder")},
    **{f"retryscrape_{name}": partial(parse_argument, name) for name in _CHECKS},
}


#: Most requests wish for nothing.
_WISHES = frozenset(KEYS)


def wish(request: Request, name: str) -> Any:
    """The checked value of ``meta["retryscrape_NAME"]``, or None. A wrong one is said and left."""
    key = f"retryscrape_{name}"
    raw = request.meta.get(key)
    if raw is None:
        return None
    try:
        return KEYS[key](raw)
    except ValueError as error:
        logger.warning("Request.meta[%r] of %s is not used: it %s", key, request, error)
        del request.meta[key]
        return None


def limits_of(run_limits: Limits, request: Request) -> Limits:
    """The limits of this request."""
    if _WISHES.isdisjoint(request.meta):
        return run_limits
    wishes = {name: wish(request, name) for name in _LIMITS}
    given = {name: value for name, value in wishes.items() if value is not None}
    return replace(run_limits, **given) if given else run_limits


def checks_of(run_checks: Checks, request: Request) -> Checks:
    """What a good page of this request must show."""
    if _WISHES.isdisjoint(request.meta):
        return run_checks
    wishes = {name: wish(request, name) for name in _CHECKS}
    given = {name: value for name, value in wishes.items() if value is not None}
    return replace(run_checks, **given) if given else run_checks


def ladder_of(ladder: Ladder, request: Request) -> Ladder:
    """The rungs that this request may use; what is not on the run's ladder is not there."""
    if _WISHES.isdisjoint(request.meta):
        return ladder
    rungs = wish(request, "ladder")
    if rungs is None:
        return ladder
    kept = tuple(rung for rung in ladder.rungs if rung in rungs)
    return Ladder(kept, ladder.available) if kept else ladder


def retries_of(settings: BaseSettings) -> int | None:
    """The project's own ``RETRY_TIMES`` and ``RETRY_ENABLED``; None where it has none."""

    def own(name: str) -> bool:
        return (settings.getpriority(name) or 0) > SETTINGS_PRIORITIES["addon"]

    if own("RETRY_ENABLED") and not settings.getbool("RETRY_ENABLED"):
        return 0
    return settings.getint("RETRY_TIMES") if own("RETRY_TIMES") else None


class FileRetries:
    """Retries of what FilesPipeline and ``engine.download`` fetch, as Scrapy's own settings say.

    They pass by the scheduler, so nothing can wait: a try is repeated at once. robots.txt,
    which travels the same way, is not tried again (it would hold up its host's pages).
    """

    def __init__(self, settings: BaseSettings) -> None:
        self._times = settings.getint("RETRY_TIMES") if settings.getbool("RETRY_ENABLED") else 0
        self._codes = {int(code) for code in settings.getlist("RETRY_HTTP_CODES")}

    def again(self, request: Request, status: int | None) -> Request | None:
        """The request once more, after ``status`` or (None) after an error of the network."""
        meta = request.meta
        if meta.get("dont_retry") or meta.get("dont_obey_robotstxt"):
            return None
        if status is not None and status not in self._codes:
            return None
        tried = meta.get(AGAIN, 0)
        if tried >= int(meta.get("max_retry_times", self._times)):
            return None
        again = request.copy()
        again.dont_filter = True
        again.meta[AGAIN] = tried + 1
        again.meta.setdefault("dont_cache", NO_CACHE)
        return again


def refused_retry(request: Request, ticket: Ticket, project_cap: int | None) -> str | None:
    """Why there is no further try, as Scrapy's own keys and settings say it; None if they do not.

    What a proxy has lost is no try of the target.
    """
    if request.meta.get("dont_retry"):
        return "dont_retry is set"
    cap = request.meta.get("max_retry_times", project_cap)
    if cap is None:
        return None
    tries = sum(past.outcome is not Outcome.PROXY_ERROR for past in ticket.history)
    return f"{cap} retries are allowed" if tries > int(cap) else None
