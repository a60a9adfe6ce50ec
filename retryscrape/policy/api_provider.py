"""What a scraping API is like, as a checked value. No key is in it.

Providers differ in names, not in kind: the two kinds of protocol are code (api_answers,
api_batch). Defaults, and the check of what a user declares, are api_declaration's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from retryscrape.policy.ladder import parse_rung


class ApiKind(StrEnum):
    """The kinds of protocol: one task a URL, or many URLs in a batch."""

    TASKS = "tasks"
    BATCHES = "batches"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """Where events of tasks come in: ``port`` on 127.0.0.1, ``url`` as the provider sees it.

    ``secret`` signs the events (None: one is made of the key).
    """

    port: int
    url: str
    secret: str | None = field(default=None, repr=False)
    header: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """A checked declaration. Seconds, price units and numbers; ``slots`` are tasks (or
    batches) at once, ``chunk`` is the most URLs of a batch, ``jitter`` the base and the cap
    of the waits after a refusal. The mappings have all names of the kind."""

    kind: ApiKind
    base: str
    poll: float
    deadline: float
    stale: float
    slots: int
    chunk: int
    jitter: tuple[float, float]
    mode: str
    country: str | None
    prices: Mapping[str, float]
    endpoints: Mapping[str, str]
    headers: Mapping[str, str]
    fields: Mapping[str, str]
    submit: Mapping[str, Any]
    escalated: Mapping[str, Any]
    finished: frozenset[str]
    failed: frozenset[str]
    webhook: Hook | None

    @property
    def at_once(self) -> int:
        """URLs that may be under way at once."""
        return self.slots if self.kind is ApiKind.TASKS else self.slots * self.chunk

    def submit_url(self) -> str:
        """Where tasks and batches are ordered."""
        return self.base + self.endpoints["submit"]

    def read_url(self, task_id: str) -> str:
        """Where the state of one is read; ``task_id`` is quoted by the caller."""
        return self.base + self.endpoints["read"].replace("{id}", task_id)

    def mode_of(self, rung: str) -> str:
        """``api:browser`` names the mode; plain ``api`` takes the declared one."""
        return parse_rung(rung).tier or self.mode

    def country_of(self, rung: str) -> str | None:
        """``api:browser:GB`` names the country of the provider's exits."""
        return parse_rung(rung).country or self.country

    def price_of(self, rung: str) -> float:
        """What an attempt is taken to cost before it is known (``credits_used``)."""
        return self.prices[self.mode_of(rung)]
