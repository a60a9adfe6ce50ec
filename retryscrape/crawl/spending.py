"""What a run has spent, and whether the next attempt may leave: the run's budget at work.

The counters are ``policy.budget``'s. Here is only what they need to know of a crawl:
prices of rungs and exits, and the row of a URL that there was no money for.
"""

from __future__ import annotations

from collections.abc import Collection

from msgspec.structs import replace

from retryscrape.config import Config
from retryscrape.ledger.records import Result
from retryscrape.policy.budget import RunBudget, fits, parse_run_budget
from retryscrape.policy.exits import Exit
from retryscrape.policy.outcomes import ERROR_CLASS, ErrorClass, Outcome, Status
from retryscrape.policy.ticket import Ticket

#: Seconds until it is looked again whether attempts under way left something over.
LOOK_AGAIN = 0.5


class OverBudget(Exception):
    """The attempt must not leave. The message is the sentence for the row."""


class OverUrlBudget(OverBudget):
    """It is the URL's own budget that has no room for it, not the run's."""


class Spending:
    """Price units and bytes of one run. ``usable`` rungs set the least price of an attempt."""

    def __init__(self, config: Config) -> None:
        self._price = config.price
        self.budget = parse_run_budget(config.run_budget) if config.run_budget else RunBudget()
        self.least = min(map(config.price, config.ladder))

    def price(self, rung: str, exit_: Exit | None, size: int = 0) -> float:
        """Price units of an attempt: the rung's, and what the exit takes for it and its bytes."""
        if exit_ is None:
            return self._price(rung)
        return self._price(rung) + exit_.cost + exit_.cost_gb * size / 1e9

    def reserve(self, price: float) -> bool:
        """Set the price of an attempt aside; False: wait for those under way.

        Raises OverBudget if waiting would not help.
        """
        if self.budget.try_reserve(price):
            return True
        if self.over() is None and self.budget.reserved:
            return False
        raise OverBudget(
            self.over()
            or f"the run's budget has {self.budget.left:g} price units left, "
            f"and this attempt costs {price:g}"
        )

    @staticmethod
    def check_url(ticket: Ticket, price: float, budget: float) -> None:
        """Raises OverUrlBudget if the URL's own budget has no room for an attempt. What decided
        on a retry knew its rung's price, not yet what the exit takes."""
        if not fits(ticket.cost, price, budget):
            raise OverUrlBudget(
                f"an attempt costs {price:g} price units, and {max(0.0, budget - ticket.cost):g} "
                f"of RETRYSCRAPE_URL_BUDGET are left"
            )

    def settle(self, ticket: Ticket, cost: float, exit_: Exit | None, size: int) -> None:
        """An attempt is over: ``cost`` in price units, ``size`` in bytes, both as they came."""
        tier = exit_.tier if exit_ else None
        self.budget.settle(ticket.reserved, cost, tier=tier, size=size)

    def never_spent(self, tiers: Collection[str | None]) -> list[str]:
        """A sentence for each tier with a limit that no exit (of ``tiers``) is of."""
        return [
            f"Setting RETRYSCRAPE_RUN_BUDGET limits the tier {tier!r}, and no proxy is of it."
            for tier in self.budget.bytes_limit
            if tier and tier not in tiers
        ]

    def full(self) -> bool:
        """Whether all that is left is set aside for attempts under way."""
        left = self.budget.left
        return left is not None and self.budget.reserved > 0 and left < self.least

    def over(self) -> str | None:
        """The sentence that ends the run, or None while something is left."""
        left = self.budget.left
        sentence = self.budget.over()
        if sentence is None and left is not None and not self.budget.reserved and left < self.least:
            sentence = (
                f"the run's budget of {self.budget.price_limit:g} price units is spent: "
                f"{left:g} are left, and an attempt costs {self.least:g}"
            )
        return sentence


def too_dear(row: Result, ticket: Ticket, why: str) -> Result:
    """The row of a URL whose own budget is spent: it keeps what the last attempt came to."""
    last = ticket.history[-1] if ticket.history else None
    return replace(
        row,
        status=Status.FAILED,
        outcome=Outcome.OVER_BUDGET,
        error_class=ERROR_CLASS[last.outcome] if last else ErrorClass.RETRYABLE,
        reason=(last.reason if last else None) or why,
        not_before=None,
    )


def unpaid(row: Result, why: str) -> Result:
    """The row of a URL that the run's budget did not reach: a re-drive takes it.

    Without an attempt in this pass it has no ``last_error_at``, so that by the merge rule
    what an earlier pass found out stays.
    """
    return replace(
        row,
        status=Status.FAILED,
        outcome=Outcome.OVER_BUDGET,
        error_class=ErrorClass.RETRYABLE,
        reason=why,
        not_before=None,
    )
