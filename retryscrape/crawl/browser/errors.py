"""Playwright's errors as our own faults. Chromium's own words are ``neterrors``'."""

from __future__ import annotations

from retryscrape.crawl.browser.engine import Session
from retryscrape.crawl.browser.looking import Navigated, Tab
from retryscrape.crawl.faults import At, FetchError

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
    if "has been closed" in text or "crashed" in text:
        if session and not (tab and tab.page.is_closed()):
            # closed without the page's own event: the driver is gone, and its browser
            # still says that it is connected
            session.lost = True
        return FetchError("reset", detail="the browser or its page went away")
    return FetchError("render_timeout", detail=text)
