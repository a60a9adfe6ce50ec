"""Scenarios of statuses: refusals, faults and throttling, with every form of Retry-After."""

from __future__ import annotations

import datetime as dt
from email.utils import format_datetime

from retryscrape.hostile.page_scenes import ok, png
from retryscrape.hostile.scene import Scenario, Scene
from retryscrape.hostile.text import page
from retryscrape.hostile.wire import Reply, answer, phrase


def refusal(status: int, text: str = "") -> str:
    """The short page that servers send with an error status."""
    words = text or f"{status} {phrase(status)}"
    return page(words, f"<h1>{words}</h1><hr><address>nginx</address>")


def retry_after(scene: Scene) -> list[tuple[str, str]]:
    """The headers that ``?after=`` asks for, in the form that ``?form=`` names.

    ``raw`` (default) sends the text as it is; ``imf``, ``rfc850``, ``asctime``, ``iso`` send
    the date so many seconds ahead; ``two`` sends the header twice (separated by a comma).
    ``?skew=`` sends a ``Date`` that is so many seconds off.
    """
    text, form = scene.text("after"), scene.text("form", "raw")
    clock = dt.datetime.fromtimestamp(scene.epoch + scene.number("skew"), dt.UTC)
    headers = [("Date", format_datetime(clock, usegmt=True))] if scene.text("skew") else []
    if "after" not in scene.request.params:
        return headers
    values = text.split(",") if form == "two" else [_form(clock, text, form)]
    return headers + [("Retry-After", value) for value in values]


def _form(clock: dt.datetime, text: str, form: str) -> str:
    if form == "raw":
        return text
    # Rounded up: a date has whole seconds, and a wait must not come out shorter than asked.
    due = clock + dt.timedelta(seconds=float(text or 0), microseconds=999_999)
    patterns = {
        "rfc850": "%A, %d-%b-%y %H:%M:%S GMT",
        "asctime": "%a %b %e %H:%M:%S %Y",
        "iso": "%Y-%m-%dT%H:%M:%SZ",
    }
    return due.strftime(patterns[form]) if form in patterns else format_datetime(due, usegmt=True)


def _status(scene: Scene) -> Reply:
    """``/status/CODE/...``: that status with a short page; 2xx and 304 as they are."""
    code = scene.rest.partition("/")[0]
    status = int(code) if code.isdigit() and len(code) == 3 else 500
    if status == 200:
        return ok(scene)
    extra = retry_after(scene)
    if status == 401:
        extra.append(("WWW-Authenticate", 'Basic realm="members"'))
    if status == 451:
        extra.append(("Link", '<https://court.test/>; rel="blocked-by"'))
    body = "" if status in (204, 205, 304) else refusal(status)
    return answer(body, status, headers=extra)


def _throttle(scene: Scene) -> Reply:
    headers = retry_after(scene)
    return answer(refusal(429), 429, headers=headers)


def _reason(scene: Scene) -> Reply:
    return answer(refusal(403), 403, reason="ModSecurity Action")


STATUSES = (
    Scenario(
        "status", "any status: /status/CODE/...; ?after= adds Retry-After", _status, "/status/503/1"
    ),
    Scenario("gone", "404", lambda _: answer(refusal(404), 404)),
    Scenario("removed", "410", lambda _: answer(refusal(410), 410)),
    Scenario(
        "throttle",
        "429; ?after=N Retry-After, ?form= imf rfc850 asctime iso two",
        _throttle,
        "/throttle/1?after=2&times=1",
    ),
    Scenario("forbidden", "403 with no sign of why", lambda _: answer(refusal(403), 403)),
    Scenario(
        "json403",
        "403 as JSON",
        lambda _: answer('{"error": "forbidden"}', 403, "application/json"),
    ),
    Scenario("png403", "403 as a picture", lambda _: answer(png(), 403, "image/png")),
    Scenario(
        "text403", "403 as plain text", lambda _: answer("Block Automation", 403, "text/plain")
    ),
    Scenario("reason", "403 with a tell-tale reason phrase", _reason),
    Scenario("tiny404", "404 without a body", lambda _: answer("", 404)),
)
