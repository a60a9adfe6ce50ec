"""The ledger pipeline: page, then row; an item goes on when its row is committed."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import Any

from msgspec.structs import replace
from scrapy.crawler import Crawler
from scrapy.exceptions import DropItem

from retryscrape.crawl.runtime import Run
from retryscrape.crawl.secrets import MASKED
from retryscrape.items import FailureItem, PageItem
from retryscrape.ledger.dialect import LedgerError
from retryscrape.ledger.pages import PageFile
from retryscrape.ledger.records import Result
from retryscrape.ledger.times import iso
from retryscrape.policy.outcomes import ErrorClass, Outcome, Status
from retryscrape.policy.redact import mask_url

logger = logging.getLogger("retryscrape")

_MASKED = {MASKED: True}


class LedgerPipeline:
    """Sits first, so that no user's pipeline sees a success before it is on disk."""

    def __init__(self, crawler: Crawler) -> None:
        self.crawler = crawler
        self.run = Run.of(crawler)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> LedgerPipeline:
        return cls(crawler)

    async def process_item(self, item: Any) -> Any:
        if not isinstance(item, PageItem | FailureItem) or self.run.books is None:
            return item
        result: Result = item._result
        page = None
        if isinstance(item, PageItem):
            broken = self.run.item_errors.pop(result.url, None)
            if broken:
                result = _no_result(result, broken, iso(self.run.clock()))
            else:
                page = PageFile(body=item._body, content_type=item.content_type)
        worker = self.run.worker
        if worker is not None and not await worker.may_write(result.host):
            raise DropItem("its row is another worker's now", log_level="DEBUG")
        future: asyncio.Future[Result | LedgerError] = asyncio.get_running_loop().create_future()
        self.run.books.writer.hand_over(result, page, partial(_resolve, future))
        written = await future
        if isinstance(written, LedgerError):
            # The run stops with this sentence: not a traceback for each page under way.
            raise DropItem(str(written), log_level="DEBUG") from None
        self._said(written)
        if isinstance(item, PageItem):
            if written.status is not Status.SUCCESS:
                raise DropItem(written.reason or "it is no success")
            item.page_path = written.page_path
            item.page_sha256 = written.page_sha256
            item.page_bytes = written.page_bytes
        return item

    def _said(self, row: Result) -> None:
        """The one line of a finished URL."""
        stats = self.crawler.stats
        stats.inc_value(f"retryscrape/urls/{row.outcome}")
        what = f" ({row.vendor or row.reason})" if row.vendor or row.reason else ""
        logger.info(
            "%s%s code=%s rung=%s attempts=%d cost=%g %s",
            row.outcome,
            what,
            row.http_code or "-",
            row.rung or "-",
            row.attempts,
            row.cost,
            mask_url(row.url),
            extra=None if row.reason else _MASKED,
        )


def _resolve(future: asyncio.Future[Any], value: object) -> None:
    if not future.done():  # a stop may have cancelled it
        future.set_result(value)


def _no_result(row: Result, reason: str, at: str) -> Result:
    return replace(
        row,
        status=Status.FAILED,
        outcome=Outcome.NO_RESULT,
        error_class=ErrorClass.RETRYABLE,
        reason=reason,
        last_error_at=at,
    )
