"""Pages for ``scrapy classify``: from a file, or fetched once."""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urljoin

from scrapy import Request
from scrapy.http import Response
from scrapy.statscollectors import DummyStatsCollector

from retryscrape.crawl.adapt import page_of
from retryscrape.crawl.faults import FetchError
from retryscrape.policy.decode import Fault, decode_body
from retryscrape.policy.outcomes import Checks, Page


class SavedPageError(ValueError):
    """The page cannot be had. The message is one sentence."""


def load_page(path: str, *, status: int | None, headers: Sequence[str], url: str | None) -> Page:
    """A saved body, or a JSON object with ``status``, ``headers`` and ``body``."""
    file = Path(path)
    try:
        body = file.read_bytes()
    except OSError as error:
        raise SavedPageError(f"{path} cannot be read: {error.strerror}.") from None
    case = _case(body)
    fields: dict[str, tuple[str, ...]] = {}
    if case is not None:
        body = str(case.get("body", "")).encode()
        status = case.get("status", 200) if status is None else status
        given = case.get("headers") or {}
        for name, value in given.items():
            fields[str(name).lower()] = tuple(
                str(v).strip() for v in (value if isinstance(value, list) else [value])
            )
        url = url or case.get("url")
    for line in headers:
        name, colon, value = line.partition(":")
        if not colon:
            raise SavedPageError(f"Option --header needs 'NAME: VALUE' (it is {line!r}).")
        key = name.strip().lower()
        fields[key] = (*fields.get(key, ()), value.strip())
    fields.setdefault("content-type", (_TYPES.get(file.suffix.lower(), "text/html"),))
    return Page(status=int(status or 200), url=url or "", headers=fields, body=body)


def _case(body: bytes) -> dict[str, Any] | None:
    """A JSON object that describes a page, or None for a page that is JSON itself."""
    if body.lstrip()[:1] != b"{":
        return None
    try:
        case = json.loads(body)
    except ValueError:
        return None
    return case if isinstance(case, dict) and {"status", "body"} <= set(case) else None


_TYPES = {
    ".json": "application/json",
    ".xml": "application/xml",
    ".txt": "text/plain",
    ".pdf": "application/pdf",
    ".png": "image/png",
    ".jpg": "image/jpeg",
}


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        return None


def fetch_page(url: str, settings: Any) -> Page:
    """Fetch a URL once, without proxies; redirects are followed unless they are a wall."""
    from retryscrape.policy.classify import classify_redirect

    opener = urllib.request.build_opener(_NoRedirect, urllib.request.ProxyHandler({}))
    limit = settings.getint("DOWNLOAD_MAXSIZE") or -1
    for _ in range(10):
        request = urllib.request.Request(  # noqa: S310 - the scheme was checked
            url,
            headers={
                "User-Agent": settings["USER_AGENT"],
                "Accept": "text/html,*/*;q=0.8",
                "Accept-Encoding": "gzip, deflate, br, zstd",
            },
        )
        try:
            answer = opener.open(request, timeout=settings.getfloat("DOWNLOAD_TIMEOUT"))
        except urllib.error.HTTPError as error:
            answer = error
        except (OSError, ValueError) as error:
            raise SavedPageError(f"{url} cannot be fetched: {error}.") from None
        with answer:
            page = _page(url, answer, limit)
        location = page.header("location")
        if not (300 <= page.status < 400 and location) or classify_redirect(page) is not None:
            return page
        url = urljoin(url, location)
        if not url.startswith(("http://", "https://")):
            return page
    return page


def _page(url: str, answer: Any, limit: int) -> Page:
    fields: dict[str, tuple[str, ...]] = {}
    for name, value in answer.headers.items():
        fields[name.lower()] = (*fields.get(name.lower(), ()), value.strip())
    body = answer.read(limit)
    encodings = [w.strip() for v in fields.get("content-encoding", ()) for w in v.split(",")]
    decoded = decode_body(body, encodings, max(limit, 0)) if encodings else body
    if not isinstance(decoded, Fault):
        body = decoded
    return Page(status=answer.status, url=url, headers=fields, body=body)


#: Seconds for a page that ``scrapy classify --render`` renders.
RENDER = 60.0


def render_page(url: str, settings: Any, checks: Checks) -> Page:
    """What a browser makes of a URL, without proxies. Raises SavedPageError."""
    from retryscrape.crawl.browser.handler import Browser
    from retryscrape.crawl.browser.options import BrowserOptions

    async def rendered() -> Response:
        options = BrowserOptions.from_settings(
            settings, enough_text=checks.min_text, require=checks.require
        )
        crawler: Any = SimpleNamespace(settings=settings)
        crawler.stats = DummyStatsCollector(crawler)
        browser = Browser(crawler, options)
        try:
            why = browser.available()
            if why:
                raise SavedPageError(why)
            return await browser.fetch(
                Request(url), proxy=None, host=url, escalated=False, timeout=RENDER
            )
        finally:
            await browser.close()

    try:
        return page_of(asyncio.run(rendered()), rendered=True)
    except FetchError as error:
        raise SavedPageError(f"{url} cannot be rendered: {error}.") from None
