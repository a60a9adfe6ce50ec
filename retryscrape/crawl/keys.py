"""Names in ``Request.meta`` and in the stats, and the one way a host is named.

Documented in docs/reference; a test holds that list and this one together.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import urlsplit

from scrapy import Request

from retryscrape.policy.ticket import Ticket

#: The ticket: what is known of the URL in this pass.
TICKET = "retryscrape"
#: Bytes on the wire of one download, set by the download handler.
BYTES = "retryscrape_bytes"
#: Cookies that a rendered page left, for the plain rung on the same exit.
COOKIES = "retryscrape_cookies"
#: The download slot that we chose (a user's own ``download_slot`` differs from it).
SLOT = "retryscrape_slot"
#: How a request without a ledger row was tried so far (robots.txt).
SIDE = "retryscrape_side"
#: How often a download of a user's own (FilesPipeline) was tried again, at once.
AGAIN = "retryscrape_again"

#: The user's own cookie jar, before the exit's name was put in front of it.
OWN_JAR = "retryscrape_jar"
#: The session token of the attempt under way, for gateways.
SESSION = "retryscrape_session"

#: The user's own ``proxy``, as it was given: such a request takes no exit of ours.
OWN_PROXY = "retryscrape_proxy"
#: What a scraping API was paid for the attempt under way (``Purchase``).
BOUGHT = "retryscrape_bought"
#: scrapy-playwright's own keys, and what of them was the user's before an exit's were set.
CONTEXT = "playwright_context"
CONTEXT_KWARGS = "playwright_context_kwargs"
OWN_CONTEXT = "retryscrape_context"
#: Those under which the user's own code has a part in rendering a page.
METHODS, INIT = "playwright_page_methods", "playwright_page_init_callback"
#: Under this key a settled success travels to the spider's callback.
SETTLED = "retryscrape_settled"
#: What the last attempt of an ordinary request came to, for the spider's callback.
OUTCOME = "retryscrape_outcome"

#: Our own value of ``dont_cache``, on retries.
NO_CACHE = "retry"
#: Our own value of ``dont_redirect``, told apart from a user's.
NO_FOLLOW = "rendered"

#: Prefix of the download slot of rendered pages: their concurrency is their own.
BROWSER_SLOT = "browser "
#: The same of pages that are bought: they wait elsewhere.
API_SLOT = "api "

#: Meta keys that belong to one attempt and must not reach the next.
ATTEMPT_KEYS = (
    "proxy",
    "_auth_proxy",
    "_scheme_proxy",
    "download_slot",
    "download_latency",
    "redirect_times",
    "redirect_ttl",
    "redirect_urls",
    "redirect_reasons",
    BOUGHT,
    BYTES,
    COOKIES,
    SESSION,
    SLOT,
)


class Purchase(NamedTuple):
    """An order at a scraping API: its name in the ledger, the mode that it was carried out
    in, and price units, as far as they are known."""

    task: str | None = None
    mode: str | None = None
    cost: float = 0.0


_DEFAULT_PORTS = {"http": 80, "https": 443}


#: The beginning of a URL that says whose it is.
_ORIGIN = re.compile(r"[^:]*://[^/?#]*")


def host_of(request: Request) -> str:
    """The host's name as the ledger and the policy know it: lower case, with the
    port unless it is the scheme's own."""
    origin = _ORIGIN.match(request.url)
    return _host(origin[0]) if origin else ""


@lru_cache(maxsize=4096)
def _host(origin: str) -> str:
    # asked for six times a page: a parse of each URL was 3 % of a crawl
    url = urlsplit(origin)
    name = (url.hostname or "").lower()
    try:
        port = url.port
    except ValueError:
        port = None
    if ":" in name:
        name = f"[{name}]"
    return name if port in (None, _DEFAULT_PORTS.get(url.scheme)) else f"{name}:{port}"


def ticket_of(request: Request) -> Ticket | None:
    """The ticket of a request, or None for robots.txt and the like."""
    ticket = request.meta.get(TICKET)
    return ticket if isinstance(ticket, Ticket) else None


def clear_attempt(request: Request) -> None:
    """Forget what belongs to the last attempt: proxy, credentials, slot, redirects.

    A ``Proxy-Authorization`` left here would reach the target (probes.md, B). What the user
    has set stays: ``playwright_page_methods``, a slot or a proxy of their own, and a
    ``Cookie`` header (where cookies are on, CookiesMiddleware sets it anew).
    """
    slot = request.meta.get("download_slot")
    own_slot = slot if slot != request.meta.get(SLOT) else None
    for key in ATTEMPT_KEYS:
        request.meta.pop(key, None)
    if own_slot is not None:
        request.meta["download_slot"] = own_slot
    if OWN_PROXY in request.meta:
        request.meta["proxy"] = request.meta[OWN_PROXY]
    if OWN_CONTEXT in request.meta:
        for key, value in zip(
            (CONTEXT, CONTEXT_KWARGS), request.meta.pop(OWN_CONTEXT), strict=True
        ):
            request.meta[key] = value
            if value is None:
                del request.meta[key]
    if request.meta.get("dont_redirect") == NO_FOLLOW:
        del request.meta["dont_redirect"]
    request.headers.pop(b"Proxy-Authorization", None)
