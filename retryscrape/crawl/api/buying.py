"""Placing orders of one task a URL, and what every order's answer leads to.

The tables are ``policy.api_answers``'; here is what is done about them.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from retryscrape.crawl.api.client import Client
from retryscrape.crawl.api.orders import Job, Orders, new_ref
from retryscrape.crawl.faults import ApiFault, NotYet
from retryscrape.crawl.runtime import Run
from retryscrape.ledger.tasks import OPEN, TaskRow
from retryscrape.policy.api_answers import REFUSALS, Order, Sent, ordered
from retryscrape.policy.api_hook import secret_of
from retryscrape.policy.api_provider import Provider
from retryscrape.policy.backoff import full_jitter
from retryscrape.policy.outcomes import Outcome
from retryscrape.policy.redact import mask_text

logger = logging.getLogger("retryscrape")


class Buyer:
    """Places orders of tasks."""

    def __init__(
        self, run: Run, provider: Provider, client: Client, orders: Orders, key: str
    ) -> None:
        self.run, self.provider, self.client, self.orders = run, provider, client, orders
        self._secret = secret_of(key)

    async def buy(self, job: Job) -> TaskRow:
        """Order a URL; the row of an order that the API has taken.

        Raises NotYet (refused: no task exists) and ApiFault.
        """
        row = self.orders.new(job, new_ref())
        return (await self.place([job], [row], self._order(job, row.ref)))[0]

    async def close(self) -> None:
        """Nothing waits here."""

    async def place(
        self, jobs: Sequence[Job], rows: Sequence[TaskRow], order: dict[str, Any]
    ) -> list[TaskRow]:
        """Send one order for these rows; they are in the ledger before it leaves."""
        await self.orders.begin(rows)
        self.count("orders")
        came = ordered(await self.client.submit(order), self.provider)
        self.count(came.sent)
        came = replace(came, why=mask_text(came.why, self.run.secrets))
        if came.sent is Sent.ACCEPTED:
            await self.orders.accepted(rows, came.task_id)
            for job in jobs:
                self.orders.refused.pop(job.key, None)
            return [replace(row, state=OPEN, task_id=came.task_id) for row in rows]
        if came.sent is Sent.UNKNOWN:
            await self.orders.lost(rows)
            raise self._unknown(rows, came)
        await self.orders.close(rows, "rejected" if came.sent is Sent.REJECTED else "refused")
        raise self._not_made(jobs, came)

    def count(self, what: str, by: float = 1) -> None:
        """One of the stats of this rung."""
        self.run.crawler.stats.inc_value(f"retryscrape/api/{what}", by)  # type: ignore[arg-type]

    def hook_url(self, ref: str) -> str:
        """Where events of this order come in: they name it, also if its answer is lost."""
        assert self.provider.webhook is not None
        return f"{self.provider.webhook.url}/{ref}"

    def _order(self, job: Job, ref: str) -> dict[str, Any]:
        provider, names = self.provider, self.provider.fields
        order: dict[str, Any] = {
            **provider.submit,
            **(provider.escalated if job.escalated else {}),
            names["url"]: job.target,
            names["mode"]: provider.mode_of(job.rung),
        }
        country = provider.country_of(job.rung)
        if country:
            order[names["country"]] = country
        if provider.webhook is not None:
            order[names["webhook"]] = {
                "url": self.hook_url(ref),
                "type": "custom",
                "secret": provider.webhook.secret or self._secret,
                "events": ["completed", "failed"],
            }
        return order

    def _unknown(self, rows: Sequence[TaskRow], came: Order) -> ApiFault:
        """It may have been made, and cost money: not sent again at once."""
        what = "an order" if len(rows) == 1 else f"an order of {len(rows)} URLs"
        logger.warning(
            "The answer to %s at the scraping API was lost (%s): it may have been made, and is "
            "placed again in %g s unless it turns up",
            what,
            came.why,
            self.provider.stale,
        )
        return ApiFault(Outcome.API_ERROR, f"unknown: the order's answer was lost ({came.why})")

    def _not_made(self, jobs: Sequence[Job], came: Order) -> Exception:
        if came.sent is Sent.REJECTED:
            return ApiFault(Outcome.REJECTED, f"the scraping API rejects it ({came.why})")
        if came.sent is Sent.STOP:
            sentence = f"the scraping API takes no orders of ours ({came.why})"
            self.run.stop("api_stopped", sentence)
            return ApiFault(Outcome.NO_RESULT, sentence)
        for job in jobs:
            self.orders.refused[job.key] += 1
        times = max(self.orders.refused[job.key] for job in jobs)
        if times > REFUSALS:
            for job in jobs:
                del self.orders.refused[job.key]
            return ApiFault(Outcome.API_ERROR, f"refused: {REFUSALS} times again ({came.why})")
        base, cap = self.provider.jitter
        wait = full_jitter(times - 1, base=base, cap=cap, rng=self.run.rng)
        return NotYet(self.run.clock() + wait, f"the scraping API refuses it ({came.why})")
