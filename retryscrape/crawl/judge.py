"""Stored pages under today's checks: the classifier, and the spider's own ``validate``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from scrapy import Spider
from scrapy.http import HtmlResponse, Response, TextResponse
from scrapy.responsetypes import responsetypes

from retryscrape.crawl.arguments import Arguments
from retryscrape.ledger.pagecheck import Judge, PageRow
from retryscrape.policy.classify import classify
from retryscrape.policy.outcomes import Outcome, Page, Verdict
from retryscrape.spiders.manifest import ManifestSpider


def page_classifier(
    spidercls: type[Spider], arguments: Mapping[str, str]
) -> Callable[[Page], Verdict]:
    """A function that gives today's verdict on a stored page.

    Raises ArgumentError if the arguments are wrong. Errors of the user's ``validate``
    are a verdict, too: ``no_result``.
    """
    checks = Arguments.from_kwargs({**arguments, "urls": "", "batch": "stored"}).checks
    validate = _validator(spidercls, arguments)

    def classified(page: Page) -> Verdict:
        last = (lambda: validate(_response(page))) if validate is not None else None
        try:
            return classify(page, checks, last)
        except Exception as error:  # the user's own code
            reason = f"validate() failed: {type(error).__name__}: {error}"
            return Verdict(outcome=Outcome.NO_RESULT, http_code=page.status, reason=reason)

    return classified


def page_judge(spidercls: type[Spider], arguments: Mapping[str, str]) -> Judge:
    """A function that says what is wrong with a stored page, or None.

    Raises ArgumentError if the arguments are wrong.
    """
    classified = page_classifier(spidercls, arguments)

    def judge(row: PageRow, body: bytes) -> str | None:
        verdict = classified(_page(row, body))
        if verdict.outcome is Outcome.OK:
            return None
        if verdict.outcome is Outcome.NO_RESULT:
            return verdict.reason
        return f"{verdict.outcome}: {verdict.reason or verdict.evidence or 'by its content'}"

    return judge


def _validator(
    spidercls: type[Spider], arguments: Mapping[str, str]
) -> Callable[[Response], Any] | None:
    """The spider's ``validate``, if it has one of its own."""
    own = getattr(spidercls, "validate", None)
    if own is None or own is ManifestSpider.validate:
        return None
    return spidercls(**arguments).validate  # type: ignore[attr-defined,no-any-return]


def _page(row: PageRow, body: bytes) -> Page:
    headers = {"content-type": (row.content_type,)} if row.content_type else {}
    return Page(
        status=row.http_code or 200,
        url=row.final_url or row.url,
        headers=headers,
        body=body,
        rendered=(row.rung or "").startswith("browser"),
    )


def _response(page: Page) -> Response:
    headers = {name: list(values) for name, values in page.headers.items()}
    kind = responsetypes.from_args(headers=headers, url=page.url, body=page.body)  # type: ignore[arg-type]
    if not issubclass(kind, TextResponse):
        kind = HtmlResponse
    return kind(url=page.url, status=page.status, headers=headers, body=page.body)
