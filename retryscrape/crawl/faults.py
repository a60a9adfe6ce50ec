"""The exceptions that our own download handlers raise, and nothing else.

They name what failed and on whose side; :mod:`retryscrape.crawl.adapt` makes a
verdict of it. Scrapy's, Twisted's and Playwright's errors are translated there.
"""

from __future__ import annotations

from retryscrape.policy.outcomes import At, Outcome

__all__ = ["ApiFault", "At", "FetchError", "NotYet"]


class FetchError(Exception):
    """An attempt that brought no answer.

    ``reason`` is one of ``dns connect reset timeout tls truncated decode
    render_timeout too_large cancelled unavailable scheme``; ``status`` is the
    proxy's own status where it refused a tunnel; ``detail`` holds no secret.
    ``bytes`` is what had been received by then.
    """

    def __init__(
        self,
        reason: str,
        at: At = At.UNKNOWN,
        *,
        status: int | None = None,
        detail: str = "",
        bytes: int = 0,
    ) -> None:
        super().__init__(reason, at, status, detail, bytes)
        self.reason = reason
        self.at = at
        self.status = status
        self.detail = detail
        self.bytes = bytes

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (self.reason, self.at, self.status, self.detail, self.bytes))

    def __str__(self) -> str:
        where = "" if self.at is At.UNKNOWN else f" at the {self.at}"
        code = f" ({self.status})" if self.status else ""
        return f"{self.reason}{where}{code}: {self.detail}" if self.detail else self.reason


def _rebuild(reason: str, at: At, status: int | None, detail: str, size: int) -> FetchError:
    return FetchError(reason, at, status=status, detail=detail, bytes=size)


class OwnCodeError(Exception):
    """The user's own code failed while a page was rendered: no failure of target or exit."""


class ApiFault(Exception):
    """A scraping API brought no answer of the target: ``outcome`` says whose matter that is,
    ``reason`` begins with a machine word (``refused:``, ``unknown:``, ``lost:``, ``failed:``)
    where it is the API's. No secret in it."""

    def __init__(self, outcome: Outcome, reason: str) -> None:
        super().__init__(outcome, reason)
        self.outcome = outcome
        self.reason = reason


class NotYet(Exception):
    """No attempt was made, and none may be before ``until`` (an epoch second)."""

    def __init__(self, until: float, why: str) -> None:
        super().__init__(until, why)
        self.until = until
        self.why = why
