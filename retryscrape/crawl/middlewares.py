"""The three downloader middlewares. Each hook reads meta, asks, writes meta.

Where they sit, and why (Scrapy's own orders in brackets):

* ``ExitMiddleware`` 690: after robots.txt [100], so that a forbidden page takes no
  exit; before cookies [700] and proxies [750], which use what it sets.
* ``ArrivalMiddleware`` 605: above redirects [600], for blocks that are redirects,
  and above decompression [590], which would hide that a body was cut.
* ``AttemptMiddleware`` 585: below decompression, above meta refresh [580], so that
  it sees challenge pages that refresh.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any
from urllib.parse import urljoin, urlsplit

from msgspec.structs import replace
from scrapy import Request, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Response
from scrapy.http.request import NO_CALLBACK
from scrapy.responsetypes import responsetypes
from scrapy.utils.misc import load_object
from scrapy.utils.response import get_meta_refresh
from w3lib.url import safe_url_string

from retryscrape.crawl.adapt import page_of, verdict_of
from retryscrape.crawl.exits import EXIT_WAIT, ExitChooser
from retryscrape.crawl.faults import FetchError, NotYet
from retryscrape.crawl.keys import BYTES, SETTLED, SIDE, TICKET, host_of, ticket_of
from retryscrape.crawl.lean import may_refresh
from retryscrape.crawl.ordinary import adopt, deliver, ended, first_row, judged
from retryscrape.crawl.runtime import NO_CHECKS, Run
from retryscrape.crawl.scheduler import WaitingScheduler
from retryscrape.crawl.settle import GaveUp, Settled, Settler
from retryscrape.crawl.spending import OverBudget
from retryscrape.crawl.wishes import FileRetries, checks_of, limits_of
from retryscrape.manifest.urls import Good, check_url
from retryscrape.policy.attribution import AUTH_VERDICT, side_verdict
from retryscrape.policy.classify import REDIRECTS, classify, classify_redirect
from retryscrape.policy.decide import LOST_TO_EXITS
from retryscrape.policy.decode import Fault, decode_body
from retryscrape.policy.outcomes import KEPT_OUTCOMES, At, Outcome, Page, Verdict
from retryscrape.policy.ticket import Ticket

logger = logging.getLogger("retryscrape")

#: Tries of a robots.txt where the fault need not be the exits'; then it counts as allowed.
SIDE_TRIES = 3


class _Middleware:
    def __init__(self, crawler: Crawler) -> None:
        self.crawler = crawler
        self.run = Run.of(crawler)
        self.settler = Settler(self.run)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Any:
        return cls(crawler)


class ExitMiddleware(_Middleware):
    """Gives every attempt its exit, and every request without a ticket one of its own."""

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self.exits = ExitChooser(self.run)
        if self.run.config.proxies is not None:
            reached = signals.request_reached_downloader
            crawler.signals.connect(self.exits.overruled, signal=reached)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> ExitMiddleware:
        scheduler = load_object(crawler.settings["SCHEDULER"])
        # not issubclass: to Scrapy, everything with a scheduler's methods is a subclass
        ours = WaitingScheduler in scheduler.__mro__
        return (cls if ours else PatientExitMiddleware)(crawler)

    def process_request(self, request: Request) -> Any:
        ticket = ticket_of(request)
        if ticket is None and request.callback is NO_CALLBACK:
            return None if self.exits.side(request) else self._when_one_is_free(request)
        if ticket is None:
            ticket = adopt(self.run, request)
            first_row(self.run, ticket)
        if not ticket.batch and not ticket.started:
            why = self.run.parking.too_long(request)
            if why is not None:
                raise HostPaused(why)
        if ticket.started:
            self.exits.hop(request, ticket)
            return None
        request.meta[TICKET] = ticket
        try:
            return self.exits.begin(request, ticket)
        except OverBudget as over:
            raise GaveUp(self.settler.over_budget(request, over)) from None

    async def _when_one_is_free(self, request: Request) -> None:
        """robots.txt is not done without because every exit is cooling down."""
        while not self.exits.side(request):  # noqa: ASYNC110 -- time frees exits, nobody tells
            await asyncio.sleep(EXIT_WAIT)


class PatientExitMiddleware(ExitMiddleware):
    """For a project that has a scheduler of its own: waits here what ours would wait there.

    A request that waits takes up a place of CONCURRENT_REQUESTS.
    """

    async def process_request(self, request: Request) -> Any:
        ticket = ticket_of(request)
        if ticket is None or not ticket.started:
            not_before = ticket.not_before if ticket is not None else 0.0
            pause = self.run.hosts.pause_of(host_of(request), self.run.clock())
            until = max(not_before, pause.until if pause is not None else 0.0)
            wait = until - self.run.clock()
            if 0 < wait <= limits_of(self.run.limits, request).max_wait:
                await asyncio.sleep(wait)
        found = super().process_request(request)
        return await found if asyncio.iscoroutine(found) else found


class HostPaused(IgnoreRequest):
    """The host of a request without a row is paused for longer than anybody waits."""


class ArrivalMiddleware(_Middleware):
    """Looks at what later middlewares would hide: redirect walls, and bodies that were cut."""

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self.max_size = crawler.settings.getint("DOWNLOAD_MAXSIZE")

    def process_response(self, request: Request, response: Response) -> Request | Response:
        if 300 <= response.status < 400:
            if ticket_of(request) is None:
                return response
            page = page_of(response)
            wall = classify_redirect(page)
            if wall is None and leads_nowhere(request, response):
                # nothing that can be asked for: RedirectMiddleware would raise, or let it pass
                wall = classify(page, NO_CHECKS)
            return response if wall is None else _carry_out(self, request, response, wall)
        if b"Content-Encoding" not in response.headers or request.method == "HEAD":
            return response
        encodings = [
            word.strip().lower()
            for value in response.headers.getlist(b"Content-Encoding")
            for word in value.decode("latin-1").split(",")
        ]
        limit = request.meta.get("download_maxsize", self.max_size)
        body = decode_body(response.body, encodings, limit)
        if not isinstance(body, Fault):
            return _decoded(response, body)
        if ticket_of(request) is None:
            return response
        return _carry_out(self, request, response, _fault_verdict(body))


class AttemptMiddleware(_Middleware):
    """Classifies what came, decides, records; success goes on to the spider."""

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        settings = crawler.settings
        self.follows = settings.getbool("METAREFRESH_ENABLED")
        self.max_delay = settings.getint("METAREFRESH_MAXDELAY")
        self.ignore_tags = settings.getlist("METAREFRESH_IGNORE_TAGS")
        self.files = FileRetries(settings)

    def process_response(self, request: Request, response: Response) -> Request | Response:
        ticket = ticket_of(request)
        if ticket is None:
            return self._side(request, response)
        page = page_of(response, rendered=ticket.rung.startswith("browser"))
        verdict = self._verdict(request, response, ticket, page)
        good = bool(ticket.batch) and verdict.outcome is Outcome.OK
        if verdict.outcome is not Outcome.BLOCKED and self._refreshes(request, response, good):
            return response
        if verdict.outcome is Outcome.OK:
            verdict = self.run.suspicion.judge(ticket, verdict, page)
        return _carry_out(self, request, response, verdict)

    def process_exception(self, request: Request, exception: Exception) -> Request | None:
        if isinstance(exception, GaveUp | HostPaused):
            return None
        ticket = ticket_of(request)
        if ticket is None:
            return self._side_failed(request, exception)
        if isinstance(exception, NotYet):
            return self.settler.not_yet(request, exception)
        # one that never left for want of an exit has no proxy, and is the exits' fault all the same
        kept_back = self.run.pool is not None and not ticket.started
        proxied = kept_back or bool(request.meta.get("proxy"))
        if (why := no_browser(exception, ticket)) is not None:
            settled = self.settler.without_browser(request, why)
        else:
            verdict = verdict_of(exception, proxied=proxied)
            settled = self.settler.settle(request, verdict, size=request.meta.get(BYTES, 0))
        if isinstance(settled, Request):
            return settled
        if not ticket.batch:
            ended(self.run, settled)
            return None
        raise GaveUp(settled)

    def _verdict(self, request: Request, response: Response, ticket: Ticket, page: Page) -> Verdict:
        checks = checks_of(self.run.checks if ticket.batch else NO_CHECKS, request)
        spider: Any = self.crawler.spider
        validate = getattr(spider, "validate", None) if ticket.batch else None
        if not ticket.batch and (checks is NO_CHECKS or request.method == "HEAD"):
            return judged(classify(page, NO_CHECKS), response.status)
        try:
            return classify(page, checks, (lambda: validate(response)) if validate else None)
        except Exception as error:
            # The user's own code: not a failure of the target (DESIGN.md section 5).
            logger.error("validate() failed for %s", request, exc_info=True)
            reason = f"validate() failed: {type(error).__name__}: {error}"
            return Verdict(outcome=Outcome.NO_RESULT, http_code=response.status, reason=reason)

    def _refreshes(self, request: Request, response: Response, good: bool) -> bool:
        """Whether MetaRefreshMiddleware is to follow this page to another. A ``good`` page that
        keeps itself fresh (a ticker, a board) was followed once, for a cookie: it is the page."""
        if not self.follows or not may_refresh(response):
            return False
        if request.meta.get("dont_redirect") or not hasattr(response, "text"):
            return False
        try:
            interval, url = get_meta_refresh(response, ignore_tags=self.ignore_tags)  # type: ignore[arg-type]
        except ValueError:  # "http://[": no URL, not even a relative one
            return False
        if url is None or interval is None or interval >= self.max_delay:
            return False
        been = good and url.partition("#")[0] in request.meta.get("redirect_urls", ())
        return not been and isinstance(check_url(url), Good)

    # --- requests without a ticket: robots.txt and users' own downloads --------

    def _side(self, request: Request, response: Response) -> Request | Response:
        """An exit's fault is tried again at once elsewhere; the answer is passed on."""
        if self.run.pool is not None and SIDE in request.meta:
            self.run.blame.side_done(request, side_verdict(response.status))
            if response.status == 407:
                return self._side_again(request, AUTH_VERDICT) or response
        return self.files.again(request, response.status) or response

    def _side_failed(self, request: Request, exception: Exception) -> Request | None:
        if self.run.pool is not None and SIDE in request.meta:
            verdict = verdict_of(exception, proxied=True)
            self.run.blame.side_done(request, verdict)
            return self._side_again(request, verdict)
        fault = verdict_of(exception, proxied=False).outcome is Outcome.NETWORK_ERROR
        return self.files.again(request, None) if fault else None

    def _side_again(self, request: Request, verdict: Verdict) -> Request | None:
        lost = verdict.outcome is Outcome.PROXY_ERROR
        tries = LOST_TO_EXITS if lost else SIDE_TRIES
        return request.copy() if len(request.meta[SIDE]) < tries else None


def no_browser(exception: Exception, ticket: Ticket) -> str | None:
    """Why there is no browser to render with, where that is what went wrong."""
    if not ticket.rung.startswith("browser") or not isinstance(exception, FetchError):
        return None
    return exception.detail if exception.reason == "unavailable" else None


def _carry_out(
    middleware: _Middleware, request: Request, response: Response, verdict: Verdict
) -> Request | Response:
    """Settle, and hand on what follows: a request, the response, or its end."""
    size = request.meta.get(BYTES) or len(response.body) + 500
    settled = middleware.settler.settle(request, verdict, size=size, final_url=response.url)
    if isinstance(settled, Request):
        return settled
    if settled.verdict.outcome is Outcome.OK:
        request.meta[SETTLED] = settled
        return response
    if not settled.ticket.batch:
        return deliver(middleware.run, request, response, settled)
    content_type = response.headers.get(b"Content-Type", b"") or b""
    outcome = settled.verdict.outcome
    if outcome in KEPT_OUTCOMES:
        kind = content_type.decode("latin-1")
        middleware.run.keep_blocked(settled.result, response.body, kind, outcome)
    raise GaveUp(settled)


def leads_nowhere(request: Request, response: Response) -> bool:
    """Whether a redirect names no http(s) address, though it has to."""
    location = response.headers.get(b"Location")
    if response.status not in REDIRECTS or not location or request.meta.get("dont_redirect"):
        return False
    if location.startswith(b"//"):  # as RedirectMiddleware reads it
        location = urlsplit(request.url).scheme.encode() + b"://" + location.lstrip(b"/")
    try:
        url = urljoin(request.url, safe_url_string(location))
    except ValueError:
        return True
    return not isinstance(check_url(url), Good)


def _decoded(response: Response, body: bytes) -> Response:
    """The response with its body decompressed; its class may be another then."""
    headers = response.headers.copy()
    del headers[b"Content-Encoding"]
    kind = responsetypes.from_args(headers=headers, url=response.url, body=body)
    return response.replace(cls=kind, body=body, headers=headers)


def _fault_verdict(fault: Fault) -> Verdict:
    error = FetchError(fault.reason, At.UNKNOWN, detail=fault.detail)
    return verdict_of(error, proxied=True)


def settle_failure(settler: Settler, request: Request, error: BaseException) -> Request | Settled:
    """For errors that reach no middleware of ours, straight at the errback."""
    if isinstance(error, GaveUp):
        return error.settled
    proxied = bool(request.meta.get("proxy"))
    verdict = verdict_of(error, proxied=proxied)
    if not proxied:
        verdict = replace(verdict, at=At.TARGET)
    return settler.settle(request, verdict, size=request.meta.get(BYTES, 0))


__all__ = [
    "SETTLED",
    "TICKET",
    "ArrivalMiddleware",
    "AttemptMiddleware",
    "ExitMiddleware",
    "settle_failure",
]
