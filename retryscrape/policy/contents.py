"""What an answer is (HTML, JSON, something else), and whether a good one is good enough.

The checks of a good page; block evidence is not looked for here.
"""

from __future__ import annotations

import json
import re
from enum import StrEnum
from functools import lru_cache
from urllib.parse import urlsplit

from parsel import Selector

from retryscrape.policy.markup import decode
from retryscrape.policy.outcomes import Checks, Page
from retryscrape.policy.text import visible_text


class Content(StrEnum):
    """What a browser could help with (HTML, nothing, unknown), and what it could not."""

    HTML = "html"
    JSON = "json"
    OTHER = "other"
    NONE = "none"


#: First bytes of formats that servers send under any name, text/html included.
_MAGIC = (
    b"\x89PNG",
    b"\xff\xd8\xff",
    b"GIF8",
    b"%PDF-",
    b"PK\x03\x04",
    b"\x1f\x8b",
    b"RIFF",
    b"\x00\x00\x01\x00",
    b"OggS",
    b"ID3",
    b"\x7fELF",
    b"7z\xbc\xaf",
    b"wOF",
    b"\x00\x00\x00\x18ftyp",
    b"\x00\x00\x00\x20ftyp",
)
_HTML_TYPES = frozenset({"text/html", "application/xhtml+xml"})
_UNKNOWN_TYPES = frozenset({"", "application/octet-stream", "text/plain", "unknown/unknown"})
#: Types whose bytes may well be the source of a page, which a browser would not show as one.
_SOURCES = frozenset({"text/plain", "text/css", "text/javascript", "application/javascript"})
_LOOKS_HTML = re.compile(
    rb"\s*(?:\xef\xbb\xbf)?\s*(?:<\?xml[^>]{0,200}>\s*)?(?:<!--.{0,2000}?-->\s*){0,9}"
    rb"<(?:!doctype\s+html|html|head|title|body)\b",
    re.IGNORECASE | re.DOTALL,
)
#: What a piece of HTML without a frame has near its start.
_HAS_TAGS = re.compile(
    rb"<(?:a|b|br|center|div|form|h[1-6]|iframe|img|link|meta|noscript|p|script|span|style|table)"
    rb"[\s/>]",
    re.IGNORECASE,
)
#: Put before JSON against being run as a script; browsers' code takes it off.
_JSON_GUARD = re.compile(rb"\s*(?:\)\]\}'?,?|while\s*\(1\);|for\s*\(;;\);)")
_OPENED = re.compile(rb"<(?:html|body)\b", re.IGNORECASE)
_LINES_TYPES = ("ndjson", "jsonl", "json-seq", "jsonlines")


def content_of(page: Page) -> Content:
    """What the body is: by its type, and by its first bytes where the type is wrong or missing."""
    body, kind = page.body, _essence(page)
    if not body.strip():
        known = kind not in _UNKNOWN_TYPES and kind not in _HTML_TYPES
        return Content.OTHER if known else Content.NONE
    if body.startswith(_MAGIC) or body[4:8] == b"ftyp":
        return Content.OTHER
    if kind in _HTML_TYPES:
        return Content.JSON if _is_json_object(body) else Content.HTML
    start = body[:4096]
    if kind not in _SOURCES and _LOOKS_HTML.match(start):
        return Content.HTML  # block pages come under the type that was asked for, too
    if kind.endswith(("/json", "+json")):
        return Content.JSON
    if kind in _UNKNOWN_TYPES and kind != "text/plain":
        return _guess(body, start)
    return Content.OTHER


def _guess(body: bytes, start: bytes) -> Content:
    """What a body without a type is."""
    if _is_json_object(body):
        return Content.JSON
    tagged = _HAS_TAGS.search(start) and b"\0" not in start and not start.lstrip().startswith(b"<?")
    return Content.HTML if tagged else Content.OTHER


def _essence(page: Page) -> str:
    return page.header("content-type").partition(";")[0].strip().lower()


def _is_json_object(body: bytes) -> bool:
    """JSON under an HTML type: it must look like it, have no tag near its start, and parse."""
    start = body[:512].lstrip()
    if start[:1] not in (b"{", b"[") or b"<html" in start.lower() or len(body) > 4_000_000:
        return False
    return not _json_fault(body, None)


def _json_fault(body: bytes, encoding: str | None) -> str | None:
    """Why this is no JSON. Numbers stay text: Python refuses to read very long ones."""
    guard = _JSON_GUARD.match(body)
    text = body[guard.end() :] if guard else body
    legacy = encoding is not None and not encoding.lower().startswith("utf")
    try:
        json.loads(decode(text, encoding) if legacy else text, parse_int=str)
    except (ValueError, RecursionError) as error:
        return str(error)[:120] or type(error).__name__
    return None


def empty_reason(page: Page) -> str:
    """Why nothing came."""
    if page.status in (204, 205, 304):
        return f"{page.status}: no content"
    return "only white space" if page.body else "no body"


def fault_of(
    page: Page, content: Content, checks: Checks, seen: int = 0
) -> tuple[str, str, str] | None:
    """The outcome, the evidence and the reason if a good page is not good enough.

    ``network_error`` (a body that was cut), or ``invalid``. ``seen`` is how many visible
    characters are known of already.
    """
    kind = _essence(page)
    if content is Content.JSON or (content is Content.HTML and kind.endswith(("/json", "+json"))):
        several = any(word in kind for word in _LINES_TYPES)
        fault = None if several else _json_fault(page.body, page.encoding)
        if fault:
            return _cut(page) or ("invalid", "check:json", f"JSON that does not parse: {fault}")
    if content is Content.HTML:
        fault_html = _html_fault(page, checks, seen)
        if fault_html:
            return fault_html
    if checks.final_host and not _ends_on(page.url, checks.final_host):
        where = _hostname(page.url) or "nowhere"
        return "invalid", "check:final_host", f"ended on {where}, final_host is {checks.final_host}"
    return None


def _html_fault(page: Page, checks: Checks, seen: int) -> tuple[str, str, str] | None:
    if page.partial and _unclosed(page.body):
        return _cut(page)
    if checks.require and not _matches(page, checks.require):
        return "invalid", "check:require", f"nothing matches {checks.require!r}"
    if seen < checks.min_text:
        seen = visible_text(page.body, page.encoding, enough=checks.min_text)
    if seen < checks.min_text:
        text = f"only {seen} visible characters, min_text is {checks.min_text}"
        return "invalid", "check:min_text", text
    return None


def _unclosed(body: bytes) -> bool:
    """Whether a document began and has no end. A fragment that never opened one tells nothing:
    simple servers send such pages without a length."""
    end = body[-4096:].lower()
    if b"</html" in end or b"</body" in end:
        return False
    return _OPENED.search(body[:65536]) is not None


def _cut(page: Page) -> tuple[str, str, str] | None:
    """A body whose end only the closed connection told, and that has no end of its own."""
    return ("network_error", "check:partial", "truncated") if page.partial else None


def _matches(page: Page, selector: str) -> bool:
    text = decode(page.body, page.encoding)
    return bool(Selector(text=text, type="html").css(selector))


def _ends_on(url: str, host: str) -> bool:
    name = (_hostname(url) or "").lower().rstrip(".")
    host = host.lower().strip(".")
    return name == host or name.endswith(f".{host}")


@lru_cache(maxsize=1024)
def _hostname(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None
