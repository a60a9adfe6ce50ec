"""From what was settled to the item that stands for it."""

from __future__ import annotations

from msgspec.structs import replace
from scrapy.http import Response

from retryscrape.crawl.settle import Settled
from retryscrape.items import FailureItem, PageItem
from retryscrape.ledger.feed import feed_row
from retryscrape.ledger.records import Result
from retryscrape.policy.outcomes import ErrorClass, Outcome, Status


def page_item(settled: Settled, response: Response) -> PageItem:
    """The item of a good page; the ledger pipeline writes its body and its row."""
    result = settled.result
    content_type = response.headers.get(b"Content-Type", b"") or b""
    item = PageItem(
        url=result.url,
        batch_id=result.batch_id,
        final_url=result.final_url,
        http_code=result.http_code,
        rung=result.rung,
        attempts=result.attempts,
        cost=result.cost,
        content_type=content_type.decode("latin-1") or None,
        fields=result.fields,
    )
    item._result = result  # type: ignore[misc]
    item._body = response.body  # type: ignore[misc]
    return item


def failure_item(settled: Settled) -> FailureItem:
    """The item of a URL that ended without a page."""
    return _failure(settled.result)


def no_result(settled: Settled, reason: str) -> FailureItem:
    """The item of a good page that the user's own code failed on."""
    row = settled.result
    return _failure(
        replace(
            row,
            status=Status.FAILED,
            outcome=Outcome.NO_RESULT,
            error_class=ErrorClass.RETRYABLE,
            reason=reason[:500],
            last_error_at=row.last_error_at or settled.at,
        )
    )


def _failure(row: Result) -> FailureItem:
    item = FailureItem(**feed_row(row))
    item._result = row  # type: ignore[misc]
    return item
