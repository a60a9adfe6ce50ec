"""The demo's manifest: one line for each kind of trouble, and how each must end.

``urls/demo.txt`` is this table as text (``python -m retryscrape.hostile.manifest`` prints
it; a test compares). Hosts are spread so that no bad one stops others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

#: The demo's exits: half of them are broken, and ``ban.test`` denies the first.
DEMO_PROXIES = (
    "good1",
    "good2",
    "good3",
    "auth1",
    "dead",
    "wrong-auth",
    "always-407",
    "closes-after",
)
#: The demo's own settings: a page that hangs is given up after this many seconds.
DEMO_TIMEOUT = 3


@dataclass(frozen=True, slots=True)
class Expected:
    """How a line ends in the first pass, with a browser and without one."""

    outcome: str
    without_browser: str
    vendor: str | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the manifest."""

    url: str
    about: str
    expected: Expected


def _rows(
    title: str,
    outcome: str,
    *rows: tuple[str, str],
    plain: str | None = None,
    vendor: str | None = None,
) -> tuple[str, list[Line]]:
    end = Expected(outcome, plain or outcome, vendor)
    return title, [Line(url, about, end) for url, about in rows]


_SECTIONS: tuple[tuple[str, list[Line]], ...] = (
    _rows(
        "Ordinary pages and files",
        "ok",
        ("http://shop.test/ok/1", "a page of 3 KB"),
        ("http://shop.test/large/2", "150 KB"),
        ("http://shop.test/product/3", "a product with a price"),
        ("http://shop.test/json/4", "JSON"),
        ("http://files.test/png/1", "a picture, kept as its bytes"),
        ("http://files.test/pdf/2", "a PDF document"),
        ("http://files.test/mislabelled/3", "a picture that calls itself HTML"),
        ("http://news.test/latin1/1", "ISO 8859-1"),
        ("http://news.test/encoded/br/2", "brotli"),
        ("http://news.test/encoded/zstd/3", "zstd"),
        ("http://news.test/chunked/4", "chunked"),
        ("https://secure.test/ok/1", "https, through a tunnel"),
    ),
    _rows(
        "Redirects: a row belongs to its input URL",
        "ok",
        ("http://moved.test/to/1", "to a page that the next line leads to as well"),
        ("http://moved.test/to/2", "the same page: a row of its own"),
        ("http://moved.test/chain/3", "three redirects"),
        ("http://moved.test/selfcookie/4", "to itself, once, for a cookie"),
        ("http://moved.test/host/5", "to another host"),
        ("http://moved.test/meta/6", "by meta refresh"),
    ),
    _rows(
        "Redirects that lead nowhere",
        "unexpected",
        ("http://lost.test/self/1", "to itself for ever"),
        ("http://lost.test/loop/2", "on and on"),
        ("http://lost.test/nolocation/3", "302 without a Location"),
        ("http://lost.test/scheme/file", "to file:///etc/hostname, which must not be read"),
    ),
    _rows(
        "Gone",
        "gone",
        ("http://gone.test/gone/1", "404"),
        ("http://gone.test/removed/2", "410"),
        ("http://gone.test/lookalike/akamai-404", "404 from behind a CDN"),
    ),
    _rows(
        "Refused",
        "refused",
        ("http://members.test/status/401/1", "sign in first"),
        ("http://members.test/status/402/2", "pay first"),
        ("http://members.test/status/451/3", "legal reasons"),
        ("http://members.test/private/4", "robots.txt says no"),
    ),
    _rows(
        "Throttled, and had after the wait",
        "ok",
        ("http://slow.test/throttle/1?after=2&times=1", "429, Retry-After: 2"),
        ("http://slow.test/ok/2", "waits with its host"),
        ("http://slow.test/status/503/3?after=2&times=1", "503, Retry-After: 2"),
        ("http://busy.test/ok/1", "a host that says 429 to everybody from the 4th request on"),
        ("http://busy.test/ok/2", "..."),
        ("http://busy.test/ok/3", "..."),
        ("http://busy.test/ok/4", "..."),
        ("http://busy.test/ok/5", "..."),
        ("http://busy.test/ok/6", "..."),
    ),
    _rows(
        "Throttled for longer than anybody waits: parked",
        "throttled",
        ("http://later.test/throttle/1?after=86400", "429, Retry-After: one day"),
    ),
    _rows(
        "Faults that pass",
        "ok",
        ("http://shaky.test/status/503/1?times=1", "503 once"),
        ("http://shaky.test/status/502/2?times=1", "502 once"),
        ("http://shaky.test/reset/3?times=1", "a TCP reset once"),
        ("http://shaky.test/cutbody/4?times=1", "closed in the middle of the body, once"),
        ("http://shaky.test/fakegzip/5", "says gzip and is none, unless asked for no gzip"),
    ),
    _rows(
        "Faults that stay: the server's",
        "target_error",
        ("http://broken.test/status/500/1", "500"),
        ("http://broken2.test/status/521/1", "521: the CDN's host is down"),
    ),
    _rows(
        "Faults that stay: the connection's",
        "network_error",
        ("http://cut.test/cutgzip/1", "half of a gzip stream, with a matching length"),
        ("http://cut.test/shortlength/2", "100 bytes promised, 3 sent"),
        ("http://stuck.test/hang/1", "no answer"),
    ),
    _rows(
        "Blocked for this address, had through another exit",
        "ok",
        ("http://ban.test/ok/1", "denies one of the exits"),
        ("http://ban.test/ok/2", "..."),
        ("http://ban.test/ok/3", "..."),
    ),
    _rows(
        "Challenges, had by a browser",
        "ok",
        ("http://check.test/challenge/1", "a challenge that a script solves"),
        ("http://check2.test/metachallenge/1", "a challenge that refreshes by itself"),
        plain="blocked",
        vendor="cloudflare",
    ),
    _rows(
        "Made by script, had by a browser",
        "ok",
        ("http://script.test/script/1", "an empty shell that its script fills"),
        plain="invalid",
    ),
    _rows(
        "Blocked for everybody",
        "blocked",
        ("http://wall1.test/block/cloudflare-deny", "a denial"),
        ("http://wall2.test/hardchallenge/1", "a challenge that never clears"),
        vendor="cloudflare",
    ),
    _rows(
        "Blocked, Akamai",
        "blocked",
        ("http://wall3.test/block/akamai", "a denial"),
        vendor="akamai",
    ),
    _rows(
        "Blocked, Google: the redirect is the evidence",
        "blocked",
        ("http://wall4.test/wall/sorry", "302 to /sorry/"),
        vendor="google",
    ),
    _rows(
        "Blocked, nobody knows by whom; no page for a browser",
        "blocked",
        ("http://wall5.test/json403/1", "403 as JSON"),
    ),
    _rows(
        "Look like block pages, and are none",
        "ok",
        ("http://fine.test/lookalike/turnstile-form", "a form with a captcha"),
        ("http://fine.test/lookalike/denied-article", "an article called Access denied"),
        ("http://fine.test/lookalike/jsd", "a CDN's script in an ordinary page"),
        ("http://robots-503.test/ok/1", "robots.txt cannot be had: allowed"),
    ),
    _rows(
        "Empty",
        "empty",
        ("http://empty.test/empty/1", "200 without a body"),
        ("http://empty.test/blank/2", "200 with white space"),
    ),
    _rows(
        "Too little on it",
        "invalid",
        ("http://thin.test/shell/1", "<html></html>"),
        ("http://thin.test/short/2", "one sentence"),
    ),
    _rows(
        "Nobody knows what that is",
        "unexpected",
        ("http://odd.test/status/418/1", "418"),
        ("http://odd.test/hugelength/2", "announces 2 GB"),
    ),
    _rows(
        "Not URLs that can be crawled",
        "rejected",
        ("www.shop.test/no-scheme", "no scheme"),
        ("mailto:somebody@shop.test", "mail"),
        ("http://shop.test:99999/", "no such port"),
    ),
)

_OPENING = """\
# The demo's manifest: every kind of trouble, on the hostile web (python -m retryscrape.hostile).
# The .test hosts exist behind its proxies only; `scrapy demo` starts both.
# Made from retryscrape/hostile/manifest.py; text form: one URL a line, # begins a comment.
"""
#: A line that comes twice: counted, not crawled twice.
_AGAIN = "http://shop.test/ok/1"


def lines() -> Iterator[Line]:
    """All lines but the repeated one."""
    for _, section in _SECTIONS:
        yield from section


def text() -> str:
    """The manifest as a text file."""
    parts = [_OPENING]
    for title, section in _SECTIONS:
        parts.append(f"\n# {title}\n")
        parts += [f"{line.url}  # {line.about}\n" for line in section]
    parts.append(f"\n# Twice: one row\n{_AGAIN}\n")
    return "".join(parts)


def expected() -> dict[str, Expected]:
    """How each input URL must end."""
    return {line.url: line.expected for line in lines()}


if __name__ == "__main__":
    print(text(), end="")
