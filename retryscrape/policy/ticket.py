"""The small picklable history that travels in ``Request.meta``.

One ticket a URL and pass. It is a value: every step makes a new one, so that
copies of a request never share state. What can be derived from the history
(attempts, exits used, cost, rendered already) is derived, not counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Self

from msgspec import Struct
from msgspec.structs import replace

from retryscrape.policy.outcomes import Kind, Outcome


class Past(NamedTuple):
    """One attempt that is over. ``cost`` in price units, ``waited`` in seconds."""

    rung: str
    exit: str | None
    outcome: Outcome
    http_code: int | None = None
    kind: Kind | None = None
    vendor: str | None = None
    reason: str | None = None
    cost: float = 0.0
    waited: float = 0.0
    html: bool = True
    #: this attempt made its host wait (counts towards the two waits a URL has)
    own_wait: bool = False
    #: false where the exit is the likelier culprit: no attempt of the rung is used up
    counts: bool = True


class Ticket(Struct, frozen=True, kw_only=True):
    """What is known of one URL in this pass.

    ``url`` is the ledger's key (the input string), ``request_url`` what is asked
    for, ``batch`` is ``""`` for requests without a ledger row. ``prior_*`` is what
    earlier passes came to.
    ``not_before`` is an epoch second before which the request must not leave.
    ``avoid`` are the exits of earlier passes: another one is better.
    ``exit``, ``started``, ``hops``, ``bytes`` and ``reserved`` (price units set aside)
    belong to the attempt under way.
    """

    url: str
    host: str
    request_url: str = ""
    batch: str = ""
    line: int | None = None
    fields: Mapping[str, Any] | None = None
    rung: str = "http"
    start_rung: str = "http"
    escalate: bool = False
    prior_attempts: int = 0
    prior_passes: int = 0
    prior_cost: float = 0.0
    prior_bytes: int = 0
    prior_outcome: Outcome | None = None
    avoid: frozenset[str] = frozenset()
    history: tuple[Past, ...] = ()
    not_before: float = 0.0
    identity: bool = False
    fresh_connection: bool = False
    exit: str | None = None
    started: float = 0.0
    released: float = 0.0
    hops: int = 0
    bytes: int = 0
    reserved: float = 0.0
    total_bytes: int = 0

    def but(self, **changes: Any) -> Self:
        """A ticket that differs in ``changes``. Raises TypeError for a name it has not."""
        return replace(self, **changes)

    @property
    def attempts(self) -> int:
        """Attempts of this pass, those lost to a proxy included."""
        return len(self.history)

    @property
    def cost(self) -> float:
        """Price units spent in this pass."""
        return sum(past.cost for past in self.history)

    @property
    def exits_used(self) -> frozenset[str]:
        """Exits that this URL has left through in this pass."""
        return frozenset(past.exit for past in self.history if past.exit)

    def on_rung(self, rung: str) -> int:
        """Attempts of ``rung`` that count: those that an exit is to blame for do not."""
        return sum(1 for past in self.history if past.rung == rung and past.counts)

    def count(self, outcome: Outcome, rung: str | None = None) -> int:
        """How often this pass has seen ``outcome`` (on ``rung``)."""
        return sum(
            1
            for past in self.history
            if past.outcome is outcome and (rung is None or past.rung == rung)
        )
