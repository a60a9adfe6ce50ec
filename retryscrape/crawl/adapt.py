"""Responses and exceptions in, pages and verdicts out.

The only place that knows Scrapy's and Twisted's error types; what they mean is
a table. Nothing here decides.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping

from scrapy import exceptions as scrapy_errors
from scrapy.http import Response, TextResponse

from retryscrape.crawl.browser.neterrors import fault_of
from retryscrape.crawl.faults import ApiFault, FetchError, OwnCodeError
from retryscrape.policy.outcomes import At, Outcome, Page, Verdict
from retryscrape.policy.redact import mask_url


def page_of(response: Response, *, rendered: bool = False) -> Page:
    """The answer as the classifier sees it."""
    headers: dict[str, tuple[str, ...]] = {}
    for name, values in response.headers.items():
        headers[name.decode("latin-1").lower()] = tuple(
            value.decode("latin-1").strip() for value in values
        )
    return Page(
        status=response.status,
        url=response.url,
        headers=headers,
        body=response.body,
        encoding=response._declared_encoding() if isinstance(response, TextResponse) else None,
        partial="partial" in response.flags or "dataloss" in response.flags,
        rendered=rendered,
    )


#: Scrapy's errors, by class, as the machine words of DESIGN.md section 5.
_REASONS: Mapping[type[BaseException], str] = {
    scrapy_errors.CannotResolveHostError: "dns",
    scrapy_errors.DownloadConnectionRefusedError: "connect",
    scrapy_errors.DownloadTimeoutError: "timeout",
    scrapy_errors.ResponseDataLossError: "truncated",
    scrapy_errors.DownloadFailedError: "reset",
    scrapy_errors.DownloadCancelledError: "too_large",
    scrapy_errors.UnsupportedURLSchemeError: "scheme",
    scrapy_errors.NotSupported: "scheme",
    zlib.error: "decode",
    EOFError: "truncated",
    UnicodeError: "scheme",
    TimeoutError: "timeout",
    ConnectionError: "reset",
    OSError: "reset",
}

#: With a proxy set, the client itself looks up and connects to nothing but the proxy.
_ALWAYS_PROXY = frozenset({"dns", "connect"})

_FINAL: Mapping[str, str] = {
    "too_large": "too_large",
    "scheme": "the URL cannot be fetched",
}


def verdict_of(exception: BaseException, *, proxied: bool) -> Verdict:
    """What an attempt without an answer came to.

    ``proxied`` says that it left through a proxy. Never raises.
    """
    if isinstance(exception, FetchError):
        return _fetch_error(exception, proxied)
    if isinstance(exception, OwnCodeError):
        return _verdict(Outcome.NO_RESULT, f"a page method failed: {exception}", "own code")
    if isinstance(exception, ApiFault):
        return _verdict(exception.outcome, exception.reason, "api")
    if type(exception).__module__.startswith("playwright."):
        return _fetch_error(_rendering(exception), proxied)
    if isinstance(exception, scrapy_errors.IgnoreRequest):
        return _ignored(str(exception))
    for kind, reason in _REASONS.items():
        if isinstance(exception, kind):
            at = At.PROXY if proxied and reason in _ALWAYS_PROXY else At.UNKNOWN
            detail = f"{type(exception).__name__}: {exception}"
            return _fetch_error(FetchError(reason, at, detail=detail), proxied)
    name = type(exception).__name__
    return _verdict(Outcome.UNEXPECTED, f"{name}: {exception}", f"error:{name}")


def _rendering(exception: BaseException) -> FetchError:
    """What a project's own scrapy-playwright raises."""
    if "Timeout" in type(exception).__name__:
        return FetchError("render_timeout", At.UNKNOWN, detail=str(exception).split("\n", 1)[0])
    return fault_of(str(exception))


def _fetch_error(error: FetchError, proxied: bool) -> Verdict:
    evidence = f"error:{error.reason} {error.detail}".strip()
    if error.reason in _FINAL and not (proxied and error.at is At.PROXY):
        return _verdict(Outcome.UNEXPECTED, _FINAL[error.reason], evidence)
    if error.reason == "cancelled":
        return _verdict(Outcome.NO_RESULT, "the run ended first", evidence)
    at = error.at if proxied else At.TARGET
    if at is not At.PROXY:
        return _verdict(Outcome.NETWORK_ERROR, error.reason, evidence, at)
    reason = f"proxy: {error.reason}" + (f" {error.status}" if error.status else "")
    return _verdict(Outcome.PROXY_ERROR, reason, evidence, at, error.status)


def _ignored(text: str) -> Verdict:
    for word, (outcome, reason) in _IGNORED.items():
        if word in text.lower():
            return _verdict(outcome, reason, f"ignored:{word}")
    return _verdict(Outcome.UNEXPECTED, f"dropped by a middleware: {text}", "ignored")


#: What Scrapy's IgnoreRequest says, by a word in its text.
_IGNORED: Mapping[str, tuple[Outcome, str]] = {
    "robots.txt": (Outcome.REFUSED, "robots.txt"),
    "redirections": (Outcome.UNEXPECTED, "redirect loop"),
    "maxsize": (Outcome.UNEXPECTED, "too_large"),
}


def _verdict(
    outcome: Outcome,
    reason: str,
    evidence: str,
    at: At = At.TARGET,
    proxy_status: int | None = None,
) -> Verdict:
    return Verdict(
        outcome=outcome,
        reason=mask_url(reason[:300]),
        evidence=mask_url(evidence[:300]),
        html=False,
        at=at,
        proxy_status=proxy_status,
    )
