"""Pages for ``scrapy classify``: from a file, or fetched once."""

from __future__ import annotations

import asyncio
import http.client
import json
import sys
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
from w3lib.http import basic_auth_header
from w3lib.url import safe_url_string

from retryscrape.crawl.adapt import page_of
from retryscrape.crawl.faults import At, FetchError
from retryscrape.manifest.urls import Bad, check_url
from retryscrape.policy.decode import Fault, decode_body
from retryscrape.policy.outcomes import Checks, Page
from retryscrape.policy.redact import mask_url


class SavedPageError(ValueError):
    """The page cannot be had. The message is one sentence."""


def load_page(path: str, *, status: int | None, headers: Sequence[str], url: str | None) -> Page:
    """A saved body, or a JSON object with ``status``, ``headers`` and ``body``. ``-`` is
    standard input."""
    file = Path(path)
    try:
        body = sys.stdin.buffer.read() if path == "-" else file.read_bytes()
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
    """Fetch a URL once, without proxies; redirects are followed unless they are a wall.

    Raises SavedPageError, and FetchError for a body that was cut or cannot be decoded.
    """
    from retryscrape.policy.classify import classify_redirect

    opener = urllib.request.build_opener(_NoRedirect, urllib.request.ProxyHandler({}))
    limit = settings.getint("DOWNLOAD_MAXSIZE") or -1
    for _ in range(10):
        target = check_url(url)
        if isinstance(target, Bad):
            raise SavedPageError(f"{mask_url(url)} cannot be fetched: {target.reason}.")
        user = target.credentials
        request = urllib.request.Request(  # noqa: S310 - the scheme was checked
            safe_url_string(target.url),
            headers={
                **(
                    {"Authorization": basic_auth_header(*user, encoding="utf-8").decode()}
                    if user
                    else {}
                ),
                "User-Agent": settings["USER_AGENT"],
                "Accept": "text/html,*/*;q=0.8",
                "Accept-Encoding": "gzip, deflate, br, zstd",
            },
        )
        try:
            answer = opener.open(request, timeout=settings.getfloat("DOWNLOAD_TIMEOUT"))
        except urllib.error.HTTPError as error:
            answer = error
        except (OSError, ValueError, http.client.HTTPException) as error:
            why = getattr(error, "reason", None) or error
            raise SavedPageError(f"{mask_url(url)} cannot be fetched: {why}.") from None
        with answer:
            page = _page(target.url, answer, limit)
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
    try:
        body = answer.read(limit)
        if len(body) != limit and getattr(answer, "length", None):
            raise http.client.IncompleteRead(body)
    except (OSError, http.client.HTTPException) as error:
        raise FetchError("truncated", At.TARGET, detail=type(error).__name__) from None
    encodings = [w.strip() for v in fields.get("content-encoding", ()) for w in v.split(",")]
    decoded = decode_body(body, encodings, max(limit, 0)) if encodings else body
    if isinstance(decoded, Fault):
        raise FetchError(decoded.reason, At.TARGET, detail=decoded.detail)
    return Page(status=answer.status, url=url, headers=fields, body=decoded)


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
