"""Requests without a manifest: those of spiders that know nothing of a ledger.

What is theirs stays theirs (proxies, cookies, slots, statuses they handle), and
what is ours does not travel on with copies of ``response.meta``. A spider that
names a batch (``retryscrape_batch``) gets rows, written here.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterable
from typing import Any

from msgspec.structs import replace
from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.http import Response

from retryscrape.crawl.keys import (
    NO_CACHE,
    OUTCOME,
    OWN_JAR,
    OWN_PROXY,
    SETTLED,
    SIDE,
    TICKET,
    clear_attempt,
    host_of,
    ticket_of,
)
from retryscrape.crawl.runtime import Run, UsageProblem
from retryscrape.crawl.settle import GaveUp, Settled
from retryscrape.crawl.wishes import ladder_of
from retryscrape.ledger.pages import PageFile
from retryscrape.ledger.records import Result
from retryscrape.ledger.times import iso
from retryscrape.manifest.names import check_batch_name
from retryscrape.policy.ladder import parse_rung
from retryscrape.policy.outcomes import ErrorClass, Outcome, Status, Verdict
from retryscrape.policy.redact import mask_url
from retryscrape.policy.ticket import Ticket

logger = logging.getLogger("retryscrape")

#: Attribute (or argument) of a spider: its requests get rows in the ledger under this batch.
BATCH = "retryscrape_batch"

#: Answers below 400 that only a manifest's checks would object to: theirs to judge.
_THEIRS = frozenset({Outcome.EMPTY, Outcome.INVALID, Outcome.UNEXPECTED})


def adopt(run: Run, request: Request) -> Ticket:
    """The first ticket of a request that came without one."""
    # a falsy one asks for none, and with proxies nothing ever goes direct
    rendered_there = run.their_browser.renders(request)  # which takes no meta["proxy"]
    if run.their_browser.has_proxy(request) if rendered_there else request.meta.get("proxy"):
        request.meta[OWN_PROXY] = request.meta.get("proxy")
    first = Ticket(url=request.url, request_url=request.url, host=host_of(request))
    ticket = run.rungs.start(first, request.url, run.clock(), run.rng)
    ladder = ladder_of(run.rungs.ladder, request)
    if ticket.rung in ladder.rungs and (request.method == "GET" or plain(ticket)):
        return ticket
    rung = next((rung for rung in ladder.rungs if ladder.usable(rung)), ladder.rungs[0])
    return ticket.but(rung=rung, start_rung=rung)


def plain(ticket: Ticket) -> bool:
    """Whether the ticket's rung sends requests as they are (a browser and an API get pages)."""
    return parse_rung(ticket.rung).base == "http"


def forget(request: Request) -> Request:
    """Take everything of a past attempt out of a request that a callback yields.

    ``Request(url, meta=response.meta)`` and ``response.request.replace(url=...)``
    carry it along; a request that we hand out again has no attempt under way.
    """
    ticket = ticket_of(request)
    if ticket is None or not ticket.started:
        return request
    clear_attempt(request)
    if OWN_JAR in request.meta:
        own = request.meta.pop(OWN_JAR)
        request.meta["cookiejar"] = own
        if own is None:
            del request.meta["cookiejar"]
    if request.meta.get("dont_cache") == NO_CACHE:
        del request.meta["dont_cache"]
    for key in (TICKET, SETTLED, SIDE, OUTCOME, OWN_PROXY):
        request.meta.pop(key, None)
    return request


def judged(verdict: Verdict, status: int) -> Verdict:
    """The verdict on an answer to a request without a row."""
    if status < 400 and verdict.outcome in _THEIRS:
        return replace(verdict, outcome=Outcome.OK, reason=None)
    return verdict


def deliver(run: Run, request: Request, response: Response, settled: Settled) -> Response:
    """The last answer goes to the callback, or by HttpErrorMiddleware to the errback.

    Raises GaveUp, for the errback, when a block page comes with a good status: a
    callback would take it for data. Unless the spider handles that status itself.
    """
    outcome = settled.decision.outcome
    request.meta[OUTCOME] = str(outcome)
    ended(run, settled)
    blocked = outcome is Outcome.BLOCKED and response.status < 400
    if blocked and not _handles(run, request, response.status):
        raise GaveUp(settled, response)
    return response


def ended(run: Run, settled: Settled) -> None:
    """A URL that failed: its line in the log, and its row if there are rows."""
    row = settled.result
    what = f" ({row.vendor or row.reason})" if row.vendor or row.reason else ""
    logger.info(
        "%s%s code=%s attempts=%d %s",
        settled.decision.outcome,
        what,
        row.http_code or "-",
        settled.ticket.attempts,
        mask_url(settled.ticket.url),
    )
    run.note(row)


def _handles(run: Run, request: Request, status: int) -> bool:
    handled: Iterable[int] = request.meta.get(
        "handle_httpstatus_list", getattr(run.crawler.spider, "handle_httpstatus_list", ())
    )
    return bool(request.meta.get("handle_httpstatus_all")) or status in handled


def recorded_batch(spider: Spider) -> str | None:
    """The batch that an ordinary spider names, or None. Raises UsageProblem if it cannot be one."""
    name = getattr(spider, BATCH, None)
    if not name:
        return None
    complaint = check_batch_name(str(name))
    if complaint:
        raise UsageProblem(f"Attribute {BATCH} of spider {spider.name} {complaint}.")
    return str(name)


def first_row(run: Run, ticket: Ticket) -> None:
    """The row of a URL that is asked for the first time, pending."""
    if run.record is None or ticket.history or ticket.batch:
        return
    run.note(
        Result(
            batch_id=run.record,
            url=ticket.url,
            host=ticket.host,
            line=None,
            status=Status.PENDING,
            outcome=None,
            job_id=run.job_id,
        )
    )


class OrdinaryMiddleware:
    """The spider middleware: closest to the spider, it sees requests first and pages last."""

    def __init__(self, crawler: Crawler) -> None:
        self.run = Run.of(crawler)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> OrdinaryMiddleware:
        return cls(crawler)

    async def process_spider_output(
        self, response: Response, result: AsyncIterator[Any]
    ) -> AsyncIterator[Any]:
        """Outputs go on; when the last one has, the page counts as a success."""
        try:
            async for output in result:
                yield forget(output) if isinstance(output, Request) else output
        except Exception as error:
            self._failed(response, error)
            raise
        settled = self._settled(response)
        if settled is not None and self.run.books is not None:
            content = (response.headers.get(b"Content-Type") or b"").decode("latin-1") or None
            page = PageFile(body=response.body, content_type=content)
            row = replace(settled.result, content_type=content)
            self.run.books.writer.submit(row, page=page)

    def process_spider_exception(self, response: Response, exception: Exception) -> None:
        """A callback that failed at once."""
        self._failed(response, exception)

    def _failed(self, response: Response, error: Exception) -> None:
        settled = self._settled(response)
        if settled is not None:
            self.run.note(
                replace(
                    settled.result,
                    status=Status.FAILED,
                    outcome=Outcome.NO_RESULT,
                    error_class=ErrorClass.RETRYABLE,
                    reason=f"the callback failed: {type(error).__name__}: {error}"[:500],
                    last_error_at=iso(self.run.clock()),
                )
            )

    def _settled(self, response: Response) -> Settled | None:
        """The good end of a recorded page; only the first callback of it counts."""
        request = response.request
        if self.run.record is None or request is None:
            return None
        settled = request.meta.get(SETTLED)
        if isinstance(settled, Settled) and settled.result.batch_id == self.run.record:
            return settled
        return None
