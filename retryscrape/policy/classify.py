"""What one answer was found to be, in the order of DESIGN.md section 5.1.

Decisive headers, decisive body markers, titles, the status, the content checks; the
first that speaks decides. What each vendor's page looks like is data (signatures/).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec.structs import replace

from retryscrape.policy import retry_after
from retryscrape.policy import signatures as data
from retryscrape.policy.contents import Content, content_of, empty_reason, fault_of
from retryscrape.policy.match import (
    Look,
    Match,
    body_match,
    header_match,
    rows_for,
    title_match,
    wall_match,
)
from retryscrape.policy.outcomes import At, Checks, Outcome, Page, Verdict

#: Statuses with a Location that is followed (300 offers a choice, which nobody makes).
REDIRECTS = frozenset({301, 302, 303, 307, 308})
#: Statuses whose meaning needs no look at the page. 407 comes from the target here:
#: without a proxy, or through one that has let the request pass.
_BY_STATUS: Mapping[int, Outcome] = {
    **dict.fromkeys((404, 410), Outcome.GONE),
    **dict.fromkeys((401, 402, 407, 451), Outcome.REFUSED),
    **dict.fromkeys((408, 500, 502, 503, 504, *range(520, 528), 530), Outcome.TARGET_ERROR),
    403: Outcome.BLOCKED,
    429: Outcome.THROTTLED,
}
#: Refusals that no title can turn into a block page: the status says it all.
_PLAIN_REFUSALS = frozenset({402, 407, 451})
_NO_CONTENT = frozenset({204, 205, 304})
#: Answers that may say when to come again (a blocked 403 too).
_MAY_WAIT = frozenset({403, 429, 503})
#: Characters of a Retry-After that go into the reason.
SAID = 80


def classify(
    page: Page,
    checks: Checks = Checks(),  # noqa: B008 - a frozen value
    validate: Callable[[], str | None] | None = None,
) -> Verdict:
    """The verdict on an answer. Never raises for what a site may send.

    ``validate`` is the user's own check, asked last and only about a page that is
    fine otherwise; what it raises comes through.
    """
    content = content_of(page)
    look = Look(page)
    match = _evidence(look, content)
    if match is not None:
        return _blocked(page, content, match)
    outcome = _by_status(page, content)
    if outcome is Outcome.OK:
        return _checked(look, content, checks, validate)
    return _verdict(page, content, outcome, f"status:{page.status}", _status_reason(page, outcome))


def classify_redirect(page: Page) -> Verdict | None:
    """A redirect that is a vendor's wall; None if it is an ordinary one.

    Looked at before it is followed: afterwards only the wall's address is left.
    """
    location = page.header("location")
    match = header_match(Look(page)) or (wall_match(location, "location") if location else None)
    if match is None and b"sucuri_cloudproxy_js" in page.body[:20_000]:
        match = body_match(Look(page), (row for row in data.BODIES if row.vendor == "sucuri"))
    return _blocked(page, Content.NONE, match) if match else None


def _evidence(look: Look, content: Content) -> Match | None:
    """Block evidence in the order of section 5.1."""
    page = look.page
    match = header_match(look) or wall_match(page.url, "url")
    if match is None and content is Content.HTML:
        match = body_match(look, rows_for(look))
        match = None if _only_a_widget(page, match) else match
    elif match is None and content is Content.JSON:
        match = body_match(look, data.JSON_BODIES)
    titled = page.status != 429 and page.status not in _PLAIN_REFUSALS
    if match is None and content is Content.HTML and titled:
        match = title_match(look)
    if match is None and page.status in data.STATUSES:
        vendor, kind, _ = data.STATUSES[page.status]
        match = Match(vendor, kind, f"status:{page.status}", f"{vendor} answers {page.status}")
    return match


def _only_a_widget(page: Page, match: Match | None) -> bool:
    """A captcha's widget on a page that names a wait is a throttle page with a form on it."""
    return match is not None and match.vendor is None and "retry-after" in page.headers


def _by_status(page: Page, content: Content) -> Outcome:
    status = page.status
    if status == 503 and _names_a_wait(page):
        return Outcome.THROTTLED
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    if status in _NO_CONTENT or (200 <= status < 300 and not page.body.strip()):
        return Outcome.EMPTY
    return Outcome.OK if 200 <= status < 300 else Outcome.UNEXPECTED


def _names_a_wait(page: Page) -> bool:
    """Whether a Retry-After says anything: garbage is as if absent (DESIGN.md section 6)."""
    return retry_after.parse(page.headers.get("retry-after", ()), date=None, now=0.0) is not None


def _checked(
    look: Look,
    content: Content,
    checks: Checks,
    validate: Callable[[], str | None] | None,
) -> Verdict:
    page = look.page
    fault = fault_of(page, content, checks, look.seen if content is Content.HTML else 0)
    if fault is not None:
        outcome, evidence, reason = fault
        return _verdict(page, content, Outcome(outcome), evidence, reason, cut=outcome != "invalid")
    complaint = validate() if validate is not None else None
    if complaint:
        return _verdict(page, content, Outcome.INVALID, "check:validate", str(complaint)[:300])
    return _verdict(page, content, Outcome.OK, f"status:{page.status}", None)


def _blocked(page: Page, content: Content, match: Match) -> Verdict:
    verdict = Verdict(
        outcome=Outcome.BLOCKED,
        http_code=page.status,
        vendor=match.vendor,
        kind=match.kind,
        evidence=match.evidence,
        reason=match.reason,
        html=content in (Content.HTML, Content.NONE),
    )
    return _with_wait(verdict, page)


def _verdict(
    page: Page,
    content: Content,
    outcome: Outcome,
    evidence: str,
    reason: str | None,
    *,
    cut: bool = False,
) -> Verdict:
    verdict = Verdict(
        outcome=outcome,
        http_code=page.status,
        evidence=evidence,
        reason=reason,
        html=content in (Content.HTML, Content.NONE),
        at=At.UNKNOWN if cut else At.TARGET,
    )
    return _with_wait(verdict, page)


def _with_wait(verdict: Verdict, page: Page) -> Verdict:
    """The verdict with Retry-After as sent, where it counts."""
    if page.status not in _MAY_WAIT or "retry-after" not in page.headers:
        return verdict
    sent = page.headers["retry-after"]
    said = f"Retry-After: {', '.join(sent)[:SAID]}"
    reason = f"{verdict.reason}, {said}" if verdict.reason else said
    date = page.header("date") or None
    return replace(verdict, retry_after=sent, date=date, reason=reason)


def _status_reason(page: Page, outcome: Outcome) -> str:
    if outcome is Outcome.EMPTY:
        return empty_reason(page)
    if outcome is Outcome.UNEXPECTED and page.status in REDIRECTS:
        location = page.header("location")
        return f"a redirect that leads nowhere ({location[:100] or 'no Location'})"
    return f"status {page.status}"
