"""What may still be spent: retries of a run, price units of a URL, price and bytes of a run.

Counters only: what a retry is, and what an attempt costs, is decided elsewhere.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

# Ten times 0.1 is 0.9999999999999999.
_EPSILON = 1e-9


@dataclass(slots=True)
class RetryBudget:
    """Keeps retries in proportion: a site that is down is not asked three times per URL.

    Starts full; each first attempt earns ``ratio``, each retry spends 1. With
    ``off`` every retry is allowed.
    """

    ratio: float = 0.1
    cap: float = 10.0
    off: bool = False
    left: float = field(init=False)

    def __post_init__(self) -> None:
        self.left = self.cap

    def first(self) -> None:
        """A first attempt left."""
        self.left = min(self.cap, self.left + self.ratio)

    def try_spend(self) -> bool:
        """Take one retry; False if the budget is empty."""
        if self.off:
            return True
        if self.left < 1.0 - _EPSILON:
            return False
        self.left = max(0.0, self.left - 1.0)
        return True


def parse_retry_budget(text: str) -> RetryBudget:
    """``"0.1,10"`` (earned per first attempt, cap) or ``"off"``.

    Raises ValueError with a sentence for a person.
    """
    words = [word.strip() for word in text.split(",")]
    if words == ["off"]:
        return RetryBudget(off=True)
    try:
        ratio, cap = (float(word) for word in words)
    except ValueError:
        ratio = cap = math.nan
    if not (0 <= ratio < math.inf and 0 <= cap < math.inf):
        raise ValueError(
            f"{text!r} is no retry budget: give 'earned per first attempt, cap', "
            "two numbers of 0 or more such as '0.1,10', or 'off'"
        )
    return RetryBudget(ratio, cap)


def fits(spent: float, price: float, budget: float | None) -> bool:
    """Whether one more attempt at ``price`` stays within ``budget`` (None: no limit)."""
    return budget is None or spent + price <= budget + _EPSILON


@dataclass(slots=True)
class RunBudget:
    """What a whole run may cost: price units, and bytes per tier of exits.

    ``bytes_limit`` maps a tier (``""`` for all exits together) to bytes. Price is
    reserved when an attempt leaves, so that the attempts in flight cannot overdraw it.
    """

    price_limit: float | None = None
    bytes_limit: Mapping[str, int] = field(default_factory=dict)
    spent: float = 0.0
    reserved: float = 0.0
    carried: dict[str, int] = field(default_factory=dict)

    def try_reserve(self, price: float) -> bool:
        """Set ``price`` aside for an attempt that is about to leave; False: it must not."""
        if self.over() or not fits(self.spent + self.reserved, price, self.price_limit):
            return False
        self.reserved += price
        return True

    def settle(
        self, reserved: float, cost: float, *, tier: str | None = None, size: int = 0
    ) -> None:
        """An attempt is over: what was set aside for it, its price units, its bytes."""
        self.reserved = max(0.0, self.reserved - reserved)
        self.spent += cost
        for name in {tier or "", ""}:
            self.carried[name] = self.carried.get(name, 0) + size

    @property
    def left(self) -> float | None:
        """Price units that no attempt has spent or reserved yet; None without a limit."""
        if self.price_limit is None:
            return None
        return max(0.0, self.price_limit - self.spent - self.reserved)

    def over(self) -> str | None:
        """The sentence that ends the run, or None while there is something left."""
        if self.price_limit is not None and self.spent >= self.price_limit - _EPSILON:
            return f"the run's budget of {self.price_limit:g} price units is spent"
        for tier, limit in self.bytes_limit.items():
            if self.carried.get(tier, 0) >= limit:
                where = f"tier {tier!r}" if tier else "all exits"
                return f"the run's budget of {limit} bytes for {where} is spent"
        return None


_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)(k|M|G|T)?B")
_UNITS = {None: 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


def parse_run_budget(text: str) -> RunBudget:
    """``"500"`` price units, ``"2GB"``, ``"residential=1.5GB"``, or several with commas.

    Raises ValueError with a sentence for a person.
    """
    price: float | None = None
    limits: dict[str, int] = {}
    for word in (part.strip() for part in text.split(",")):
        tier, _, amount = word.rpartition("=")
        size = _SIZE.fullmatch(amount.strip())
        if size:
            limits[tier.strip()] = int(float(size[1]) * _UNITS[size[2]])
        elif not tier and re.fullmatch(r"[0-9]+(?:\.[0-9]+)?", word):
            price = float(word)
        else:
            raise ValueError(
                f"{word!r} is no run budget: give price units ('500'), bytes ('2GB') "
                "or bytes of a tier ('residential=1.5GB')"
            )
    return RunBudget(price, limits)
