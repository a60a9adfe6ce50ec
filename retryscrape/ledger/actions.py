"""What a person can do about a row that is not a success: one table. Pure.

The rules that decide what the program does are policy's; this is advice.
"""

from __future__ import annotations

from msgspec import Struct

from retryscrape.ledger.records import Result
from retryscrape.ledger.times import iso
from retryscrape.policy.outcomes import ErrorClass, Kind, Outcome


class _Advice(Struct, frozen=True):
    """Applies if all that is given fits; ``reason`` is what the row's reason begins with."""

    text: str
    outcome: Outcome | None
    code: int | None = None
    kind: Kind | None = None
    error_class: ErrorClass | None = None
    rung: str | None = None
    reason: str | None = None

    def fits(self, row: Result) -> bool:
        return (
            self.outcome == row.outcome
            and self.code in (None, row.http_code)
            and self.kind in (None, row.kind)
            and self.error_class in (None, row.error_class)
            and self.rung in (None, row.rung)
            and (self.reason is None or (row.reason or "").lower().startswith(self.reason))
        )


_PERMANENT = ErrorClass.PERMANENT

# The first that fits; the last of each outcome fits always.
_TABLE = (
    _Advice("run the same command again: this URL was not asked yet", None),
    _Advice("remove it from the list: the page does not exist any more", Outcome.GONE),
    _Advice("re-drive with fewer requests at once, or with more exits", Outcome.THROTTLED),
    _Advice(
        "install the browser (playwright install chromium), then re-drive",
        Outcome.BLOCKED,
        reason="render unavailable",
    ),
    _Advice(
        "get other exits (another provider or country), or give it up: blocked on every rung",
        Outcome.BLOCKED,
        error_class=_PERMANENT,
    ),
    _Advice(
        "re-drive through exits of better repute: a captcha", Outcome.BLOCKED, kind=Kind.CAPTCHA
    ),
    _Advice(
        "send the consent cookie, or re-drive with the browser: a consent wall",
        Outcome.BLOCKED,
        kind=Kind.CONSENT,
    ),
    _Advice(
        "re-drive through other exits: this address is denied", Outcome.BLOCKED, kind=Kind.DENIAL
    ),
    _Advice(
        "re-drive: the browser may pass this challenge",
        Outcome.BLOCKED,
        kind=Kind.CHALLENGE,
        rung="http",
    ),
    _Advice(
        "re-drive through exits of better repute: the browser did not pass this challenge",
        Outcome.BLOCKED,
        kind=Kind.CHALLENGE,
    ),
    _Advice("re-drive through other exits; see whether it needs a login", Outcome.BLOCKED),
    _Advice(
        "leave it, or ask the site: its robots.txt forbids it", Outcome.REFUSED, reason="robots"
    ),
    _Advice("give credentials, or leave it: the page needs a login", Outcome.REFUSED, code=401),
    _Advice("leave it, or pay: the page asks for payment", Outcome.REFUSED, code=402),
    _Advice("leave it: withheld for legal reasons where the exit is", Outcome.REFUSED, code=451),
    _Advice("leave it: the site refuses it", Outcome.REFUSED),
    _Advice(
        "look at it in a browser: it was empty on every rung that was tried",
        Outcome.EMPTY,
        error_class=_PERMANENT,
    ),
    _Advice("re-drive: the next rung may show its content", Outcome.EMPTY),
    _Advice(
        "look at it, then change require, min_text, final_host or validate(): it fails the check",
        Outcome.INVALID,
        error_class=_PERMANENT,
    ),
    _Advice("re-drive: the next rung may pass the check", Outcome.INVALID),
    _Advice("re-drive later: the site has an error of its own", Outcome.TARGET_ERROR),
    _Advice("check the host's name: it has no address", Outcome.NETWORK_ERROR, reason="dns"),
    _Advice(
        "look at the site's certificate; re-drive through other exits",
        Outcome.NETWORK_ERROR,
        reason="tls",
    ),
    _Advice(
        "re-drive with a longer DOWNLOAD_TIMEOUT or other exits",
        Outcome.NETWORK_ERROR,
        reason="timeout",
    ),
    _Advice("re-drive: the connection failed", Outcome.NETWORK_ERROR),
    _Advice("check the proxies (scrapy proxies check FILE), then re-drive", Outcome.PROXY_ERROR),
    _Advice("check the API's key, quota and status, then re-drive", Outcome.API_ERROR),
    _Advice(
        "raise DOWNLOAD_MAXSIZE if you want it, then re-drive with -a include_permanent=1",
        Outcome.UNEXPECTED,
        reason="too_large",
    ),
    _Advice(
        "look at it once, then leave it or re-drive with -a include_permanent=1",
        Outcome.UNEXPECTED,
    ),
    _Advice(
        "look at what the scraping API says of it, and at RETRYSCRAPE_API",
        Outcome.REJECTED,
        reason="the scraping api",
    ),
    _Advice("correct this line of the manifest", Outcome.REJECTED),
    _Advice(
        "raise RETRYSCRAPE_URL_BUDGET (or RETRYSCRAPE_RUN_BUDGET), or re-drive",
        Outcome.OVER_BUDGET,
    ),
    _Advice(
        "make room or give rights in RETRYSCRAPE_OUT, then re-drive",
        Outcome.NO_RESULT,
        reason="the page could not be written",
    ),
    _Advice("re-drive: the run ended before it had a result", Outcome.NO_RESULT),
)


def action(row: Result) -> str:
    """A short recommendation for a person about a row that is not a success."""
    text = next((advice.text for advice in _TABLE if advice.fits(row)), "look at it once")
    if row.not_before and row.error_class is not _PERMANENT:
        at = iso(row.not_before).partition(".")[0]
        return f"wait until {at}Z, then {text}"
    return text
