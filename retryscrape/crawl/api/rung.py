"""``Api``: buys a request's page and gives back the target's answer.

The rest of the crawl knows this class only. It raises ApiFault, NotYet and FetchError, and
nothing else for what an API may do.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from scrapy import Request
from scrapy.http import Headers, Response
from scrapy.responsetypes import responsetypes

from retryscrape.crawl.api.batching import BatchBuyer
from retryscrape.crawl.api.buying import Buyer
from retryscrape.crawl.api.client import Client
from retryscrape.crawl.api.orders import Job, Orders
from retryscrape.crawl.api.reading import Reading
from retryscrape.crawl.api.receiver import Receiver
from retryscrape.crawl.faults import ApiFault, At, FetchError, NotYet
from retryscrape.crawl.keys import BOUGHT, BYTES, Purchase
from retryscrape.crawl.runtime import Run
from retryscrape.crawl.spending import LOOK_AGAIN
from retryscrape.ledger.tasks import SUBMITTING, TaskRow
from retryscrape.policy.api_answers import Bought, Look
from retryscrape.policy.api_provider import ApiKind, Provider
from retryscrape.policy.outcomes import Outcome, Page
from retryscrape.policy.redact import mask_text, mask_url
from retryscrape.policy.ticket import Ticket

logger = logging.getLogger("retryscrape")

#: Bytes of an answer: a page in JSON is larger than a page, and a batch has many.
MOST = 512 << 20


class Api:
    """The rung of one run. Nothing is sent before its first URL."""

    def __init__(self, run: Run, provider: Provider, key: str) -> None:
        self.run, self.provider = run, provider
        tasks = provider.kind is ApiKind.TASKS
        size = run.crawler.settings.getint("DOWNLOAD_MAXSIZE") * (
            2 if tasks else 2 * provider.chunk
        )
        self.client = Client(provider, key, most=min(size + (1 << 20), MOST) if size else MOST)
        self.orders = Orders(run)
        self.reading = Reading(run, provider, self.client, self.orders)
        parts = (run, provider, self.client, self.orders, key)
        self.buyer = Buyer(*parts) if tasks else BatchBuyer(*parts, reading=self.reading)
        self.receiver = Receiver.of(run, provider, self.orders, self.reading, key)
        self._room = asyncio.Semaphore(provider.at_once)
        #: URLs of batches whose price is on a row already (two rows may want one URL)
        self._priced: set[tuple[str | None, str]] = set()

    async def start(self) -> None:
        """Listen for events, and say what earlier runs left open. Raises UsageProblem."""
        if self.receiver is not None:
            await self.receiver.start()
        books = self.run.books
        assert books is not None
        for batch_id in books.batches:
            left = await asyncio.to_thread(self.orders.book.open_tasks, batch_id)
            if left:
                logger.info(
                    "Batch %s: %d orders of earlier runs are open at the scraping API: they are "
                    "read, not placed again",
                    batch_id,
                    left,
                )

    async def close(self) -> None:
        """Stop listening and waiting; open tasks are the next run's to read."""
        if self.receiver is not None:
            await self.receiver.close()
        await self.buyer.close()
        await self.reading.close()
        await self.client.close()

    async def fetch(self, request: Request, ticket: Ticket) -> Response:
        """The target's answer, bought unless it was before.

        Sets ``retryscrape_bought`` and ``retryscrape_bytes`` in the request's meta.
        """
        request.meta[BOUGHT] = Purchase()
        if request.method != "GET":
            raise ApiFault(Outcome.UNEXPECTED, f"no {request.method} can be bought, only a page")
        job = Job(
            batch_id=ticket.batch or self.run.record or "",
            url=ticket.url,
            target=request.url,
            rung=ticket.rung,
            host=ticket.host,
            escalated=ticket.escalate,
        )
        async with self._room:
            row, paid, look, found = await self._bought(job)
        request.meta[BOUGHT] = Purchase(task=row.ref)
        result = await self._ended(row, look, found)
        return self._answer(request, job, row, result, paid)

    # --- buy, or read what was bought ------------------------------------------

    async def _bought(self, job: Job) -> tuple[TaskRow, float, Look, Bought | None]:
        """The order, what is on record for it, and what it came to."""
        row, paid = await self._standing(job)
        if row is None:
            row = await self._buy(job)
            return row, 0.0, *await self.reading.result(row, soon=False)
        overdue = self.run.clock() > row.submitted_at + self.provider.deadline
        self.buyer.count("resumed")
        look, found = await self.reading.result(row, soon=True)
        if look is Look.AGAIN and overdue:
            logger.warning(
                "An order at the scraping API did not end within %g s, nor until now: given up, "
                "and placed again: %s",
                self.provider.deadline,
                mask_url(job.target),
            )
            await self.orders.close([row], "expired")
            row = await self._buy(job)
            return row, 0.0, *await self.reading.result(row, soon=False)
        return row, paid, look, found

    async def _standing(self, job: Job) -> tuple[TaskRow | None, float]:
        """The order to be read. Raises NotYet for one that may still turn up."""
        held = await self.orders.held(job)
        if held is None:
            return None, 0.0
        if held.row.state != SUBMITTING:
            return held.row, held.paid
        now = self.run.clock()
        until = min(held.row.submitted_at, now) + self.provider.stale
        if now < until:
            if self.provider.webhook is not None:
                until = min(until, now + self.provider.poll)  # an event may have named its task
            raise NotYet(until, "its order may have arrived at the scraping API")
        logger.warning(
            "An order at the scraping API never turned up (it may have been billed): "
            "placed again: %s",
            mask_url(job.target),
        )
        self.buyer.count("stale")
        await self.orders.close([held.row], "stale")
        return None, 0.0

    async def _buy(self, job: Job) -> TaskRow:
        if self.reading.ending():
            raise FetchError("cancelled", At.UNKNOWN, detail="the run ends")
        worker = self.run.worker
        if worker is not None and job.batch_id and not (worker.sure and worker.holds(job.host)):
            # another worker may be about to buy it
            raise NotYet(self.run.clock() + LOOK_AGAIN, "the lease on its host is looked at")
        return await self.buyer.buy(job)

    # --- what was bought -------------------------------------------------------

    async def _ended(self, row: TaskRow, look: Look, found: Bought | None) -> Bought:
        """The result, as far as there is one; its order has come to its end."""
        if look is Look.LOST:
            await self.orders.close([row], "lost")
            raise ApiFault(Outcome.API_ERROR, "lost: the scraping API does not know its task")
        if look is Look.AGAIN:
            seconds = f"{self.provider.deadline:g} s"
            raise ApiFault(
                Outcome.NO_RESULT, f"no result of the scraping API within {seconds}; it stays open"
            )
        await self.orders.hand_out(row)
        if found is None:
            raise ApiFault(Outcome.API_ERROR, "failed: absent from the results of its batch")
        return found

    def _answer(
        self, request: Request, job: Job, row: TaskRow, found: Bought, paid: float
    ) -> Response:
        cost = max(0.0, self._cost(job, row, found) - paid)
        self.buyer.count("credits", cost)
        request.meta[BOUGHT] = Purchase(task=row.ref, mode=found.mode, cost=cost)
        if found.page is None:
            problem = mask_text(found.problem, self.run.secrets)
            raise ApiFault(Outcome.API_ERROR, f"failed: {problem}")
        request.meta[BYTES] = len(found.page.body) + 500
        return response_of(request, found.page)

    def _cost(self, job: Job, row: TaskRow, found: Bought) -> float:
        """As the API says it, else what is declared for a page."""
        if found.cost is not None:
            return found.cost
        key = (row.task_id, job.target)
        if found.page is None or key in self._priced:
            return 0.0
        if self.provider.kind is ApiKind.BATCHES:
            self._priced.add(key)
        return self.run.config.price(job.rung)


def response_of(request: Request, page: Page) -> Response:
    """The page as a response: its text is UTF-8, whatever it was on the wire."""
    headers = Headers({name: list(values) for name, values in page.headers.items()})
    if "Content-Type" not in headers:
        headers["Content-Type"] = _kind(page.body)
    kind = responsetypes.from_args(headers=headers, url=page.url, body=page.body)
    named: dict[str, Any] = {"encoding": "utf-8"} if hasattr(kind, "encoding") else {}
    return kind(
        url=page.url,
        status=page.status,
        headers=headers,
        body=page.body,
        request=request,
        flags=["api"],
        **named,
    )


def _kind(body: bytes) -> str:
    """What a text without a type is."""
    start = body[:200].lstrip()[:1]
    if start == b"<":
        return "text/html; charset=utf-8"
    return "application/json" if start in (b"{", b"[") else "text/plain; charset=utf-8"
