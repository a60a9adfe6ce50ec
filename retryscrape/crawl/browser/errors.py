"""Playwright's errors as our own faults. Chromium's own words are ``neterrors``'."""

from __future__ import annotations

from typing import TYPE_CHECKING

from retryscrape.crawl.browser.looking import Navigated, Tab
from retryscrape.crawl.faults import At, FetchError

if TYPE_CHECKING:
    from retryscrape.crawl.browser.engine import Session

#: Of an error's text, what may go into the ledger.
_TEXT = 120


def playwright_fault(
    error: Exception, tab: Tab | None, session: Session | None
) -> FetchError | None:
    """What an error means that ended a page; None if it is nobody's but the user's own.

    Marks the session as lost where it is.
    """
    from playwright.async_api import Error
    from playwright.async_api import TimeoutError as PlaywrightTimeout

    if isinstance(error, Navigated):
        return FetchError("render_timeout", detail="the page never came to rest")
    if isinstance(error, PlaywrightTimeout):
        return FetchError("render_timeout", detail="a page method took too long")
    if not isinstance(error, Error):
        return None
    text = " ".join(error.message.split("\n", 1)[0].split())[:_TEXT]
    if "does not support" in text and "proxy" in text:
        return FetchError("scheme", At.PROXY, detail="the browser does not speak to this exit")
    if "invalid URL" in text:
        return FetchError("scheme", At.TARGET, detail="the browser does not take this URL")
    if "has been closed" in text:
        if session and not (tab and tab.page.is_closed()):
            # closed without the page's own event: the driver is gone, and its browser
            # still says that it is connected
            session.lost = True
        return FetchError("reset", detail="the browser or its page went away")
    return FetchError("reset", detail=text)


#: What a browser says that does not start, and what a person can do about it.
_HINTS = (
    ("$DISPLAY", "there is no display: leave headless on in PLAYWRIGHT_LAUNCH_OPTIONS"),
    ("unexpected keyword argument", "PLAYWRIGHT_LAUNCH_OPTIONS has a wrong name in it"),
    ("while loading shared libraries", "it lacks a system library: playwright install-deps"),
    ("Executable doesn't exist", "it is not installed: playwright install chromium"),
    ("Timeout", "it did not answer in time"),
    ("has been closed", "it ended at once"),
)


def launch_sentence(error: Exception, path: str | None) -> str:
    """One sentence on a browser (or driver) that could not be started."""
    text = str(error)
    first = " ".join(text.split("\n", 1)[0].split())[:_TEXT]
    if isinstance(error, TimeoutError):
        text = "Timeout"
    why = next((hint for mark, hint in _HINTS if mark in text), first)
    return f"The browser {path or 'of Playwright'} could not be started: {why}."
