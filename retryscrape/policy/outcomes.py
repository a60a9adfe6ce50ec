"""The words of the trade: outcomes, error classes, kinds, and the values that carry them.

Values only; rules live in the module named after them (classify, decide, ...).
DESIGN.md sections 2 and 5 are the source.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct, field


class Outcome(StrEnum):
    """What an attempt, and in the end a URL, came to."""

    OK = "ok"
    GONE = "gone"
    THROTTLED = "throttled"
    BLOCKED = "blocked"
    REFUSED = "refused"
    EMPTY = "empty"
    INVALID = "invalid"
    TARGET_ERROR = "target_error"
    NETWORK_ERROR = "network_error"
    PROXY_ERROR = "proxy_error"
    API_ERROR = "api_error"
    UNEXPECTED = "unexpected"
    REJECTED = "rejected"
    OVER_BUDGET = "over_budget"
    NO_RESULT = "no_result"


class ErrorClass(StrEnum):
    """Whether asking again can help, and whether waiting is owed first."""

    RETRYABLE = "retryable"
    BACKOFF_REQUIRED = "backoff_required"
    PERMANENT = "permanent"


class Kind(StrEnum):
    """What kind of block page it was."""

    CHALLENGE = "challenge"
    DENIAL = "denial"
    CAPTCHA = "captcha"
    CONSENT = "consent"


class Status(StrEnum):
    """The state of a ledger row."""

    PENDING = "pending"
    SUCCESS = "success"
    FAILED = "failed"


class At(StrEnum):
    """On whose side a fault happened."""

    TARGET = "target"
    PROXY = "proxy"
    UNKNOWN = "unknown"


#: The class a row gets when its outcome stands; ``decide`` may say otherwise.
ERROR_CLASS: Mapping[Outcome, ErrorClass | None] = {
    Outcome.OK: None,
    Outcome.GONE: ErrorClass.PERMANENT,
    Outcome.THROTTLED: ErrorClass.BACKOFF_REQUIRED,
    Outcome.BLOCKED: ErrorClass.RETRYABLE,
    Outcome.REFUSED: ErrorClass.PERMANENT,
    Outcome.EMPTY: ErrorClass.RETRYABLE,
    Outcome.INVALID: ErrorClass.RETRYABLE,
    Outcome.TARGET_ERROR: ErrorClass.RETRYABLE,
    Outcome.NETWORK_ERROR: ErrorClass.RETRYABLE,
    Outcome.PROXY_ERROR: ErrorClass.RETRYABLE,
    Outcome.API_ERROR: ErrorClass.RETRYABLE,
    Outcome.UNEXPECTED: ErrorClass.PERMANENT,
    Outcome.REJECTED: ErrorClass.PERMANENT,
    Outcome.OVER_BUDGET: ErrorClass.RETRYABLE,
    Outcome.NO_RESULT: ErrorClass.RETRYABLE,
}

#: Failures that nobody could still get: they do not make the exit code 1.
SETTLED = frozenset({Outcome.GONE, Outcome.REFUSED, Outcome.REJECTED})
#: Outcomes of which the last body is kept (RETRYSCRAPE_KEEP_BLOCKED).
KEPT_OUTCOMES = frozenset({Outcome.BLOCKED, Outcome.INVALID})


class Page(Struct, frozen=True, kw_only=True):
    """An answer as the classifier sees it: decompressed, headers by lower-case name.

    ``headers`` maps a lower-case name to all its values, stripped, in order.
    ``url`` is the address that answered (after redirects), ``partial`` says that
    the end of the body was told by the connection's end alone.
    """

    status: int
    url: str
    headers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    body: bytes = b""
    encoding: str | None = None
    partial: bool = False
    rendered: bool = False

    def header(self, name: str) -> str:
        """The first value of a header, or ``""``."""
        values = self.headers.get(name)
        return values[0] if values else ""


class Checks(Struct, frozen=True, kw_only=True):
    """What a good page must show (spider arguments of the same names)."""

    require: str | None = None
    min_text: int = 500
    final_host: str | None = None


class Verdict(Struct, frozen=True, kw_only=True):
    """What one answer, or one failure to get any, was found to be.

    ``evidence`` is a short machine word (``header:cf-mitigated``,
    ``title:just a moment...``, ``status:403``), ``reason`` a short text for a
    person; ``retry_after`` is the header as sent; ``html`` is false where a
    browser cannot help (JSON, images, ...). ``at`` says on whose side a fault was,
    ``proxy_status`` what the proxy itself answered where it refused.
    """

    outcome: Outcome
    http_code: int | None = None
    vendor: str | None = None
    kind: Kind | None = None
    evidence: str | None = None
    reason: str | None = None
    retry_after: tuple[str, ...] = ()
    date: str | None = None
    html: bool = True
    at: At = At.TARGET
    proxy_status: int | None = None
