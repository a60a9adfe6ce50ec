"""What the main frame was answered with, and Scrapy responses made of it. No playwright."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urljoin, urlsplit

from msgspec import Struct, field
from scrapy import Request
from scrapy.http import Response
from scrapy.http.headers import Headers
from scrapy.responsetypes import responsetypes
from w3lib.encoding import html_body_declared_encoding, http_content_type_encoding

from retryscrape.policy.outcomes import Page

#: Headers that describe the bytes on the wire, not what is handed on.
_WIRE = ("Content-Encoding", "Content-Length", "Transfer-Encoding")
_HTML = frozenset({"text/html", "application/xhtml+xml"})
_LOOKS_HTML = re.compile(
    rb"\s*(?:<!--.{0,2000}?-->\s*)*<(?:!doctype html|html|head|body|title|"
    rb"h1|p|div|script|style|table|a|br|meta|b|iframe)\b",
    re.I | re.S,
)


class Document(Struct):
    """One answer to a main-frame navigation. ``body`` is set where it is no HTML."""

    id: str
    url: str
    status: int
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None

    def header(self, name: str) -> str:
        """The first value of a header (name in lower case), or ``""``."""
        return next((value.strip() for key, value in self.headers if key.lower() == name), "")

    @property
    def length(self) -> int | None:
        """The Content-Length, if it is a number."""
        text = self.header("content-length")
        return int(text) if text.isascii() and text.isdigit() else None

    @property
    def redirect(self) -> bool:
        return self.status in (301, 302, 303, 307, 308) and bool(self.header("location"))

    @property
    def leaves_the_web(self) -> bool:
        """Whether it redirects to what no browser fetches."""
        scheme = urlsplit(urljoin(self.url, self.header("location"))).scheme
        return self.redirect and scheme not in ("http", "https")

    @property
    def rendered(self) -> bool | None:
        """Whether a browser shows it as a page; None if its type is not told."""
        if self.header("content-disposition").lower().startswith("attachment"):
            return False
        kind = self.header("content-type").partition(";")[0].strip().lower()
        return kind in _HTML if kind else None


class Rendered(Struct):
    """What a rendered page came to: its last document, and the HTML unless that has a body."""

    document: Document
    url: str
    html: str = ""
    redirects: list[Document] = field(default_factory=list)


def looks_html(body: bytes) -> bool:
    """Whether bytes without a content type are a page."""
    return _LOOKS_HTML.match(body[:4096].removeprefix(b"\xef\xbb\xbf")) is not None


def page_of(document: Document, url: str, html: str) -> Page:
    """The page as the classifier sees it."""
    headers: dict[str, tuple[str, ...]] = {}
    for name, value in document.headers:
        low = name.lower()
        if low not in ("content-encoding", "content-length", "transfer-encoding"):
            headers[low] = (*headers.get(low, ()), value.strip())
    body = html.encode("utf-8", "replace")
    return Page(
        status=document.status, url=url, headers=headers, body=body, encoding="utf-8", rendered=True
    )


def response_of(request: Request, rendered: Rendered) -> Response:
    """The response: the bytes as sent, or the final DOM in the encoding that the page declares."""
    document = rendered.document
    headers = Headers()
    for name, value in document.headers:
        for part in value.split("\n"):
            headers.appendlist(name, part.strip().encode("utf-8"))
    for name in _WIRE:
        headers.pop(name, None)
    encoding = None
    if document.body is None:
        body, encoding = _encoded(headers, rendered.html)
    else:
        body = document.body
    kind = responsetypes.from_args(headers=headers, url=rendered.url, body=body)
    named: dict[str, Any] = {"encoding": encoding} if encoding and hasattr(kind, "encoding") else {}
    return kind(
        url=rendered.url,
        status=document.status,
        headers=headers,
        body=body,
        request=request,
        flags=["playwright"],
        **named,
    )


def _encoded(headers: Headers, html: str) -> tuple[bytes, str]:
    declared = http_content_type_encoding((headers.get("Content-Type") or b"").decode("latin-1"))
    for encoding in (declared, html_body_declared_encoding(html[:4096])):
        if encoding:
            try:
                return html.encode(encoding), encoding
            except (UnicodeEncodeError, LookupError):
                continue
    if declared:
        headers["Content-Type"] = "text/html; charset=utf-8"
    return html.encode("utf-8", "replace"), "utf-8"
