"""The report as one HTML page that needs nothing else: no network, no other file.

Layout is in report.html.j2, charts are charts.py's. All text comes from sites and
manifests: it is escaped by jinja2, made harmless by ``plain``, and the page's own
policy forbids every script but ours, and all loading.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from importlib.resources import files
from typing import Any
from urllib.parse import urlsplit

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from retryscrape.ledger.reportdata import Report
from retryscrape.policy.redact import mask_url, plain
from retryscrape.report.charts import COLOURS, charts

#: Characters of a URL or a reason that are shown.
WIDEST = 300


def render_html(report: Report) -> str:
    """The page. Never raises for what the report holds."""
    script = _read("report.js")
    page = _environment().from_string(_read("report.html.j2"))
    return page.render(
        report=report,
        charts={name: Markup(svg) for name, svg in charts(report).items()},  # noqa: S704
        colours=COLOURS,
        style=Markup(_read("report.css")),  # noqa: S704
        script=Markup(script),  # noqa: S704
        policy=_policy(script),
    )


def _policy(script: str) -> str:
    """Our script by its hash, styles (the charts have some in attributes), nothing else."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; "
        "base-uri 'none'; form-action 'none'"
    )


def _read(name: str) -> str:
    return files("retryscrape.report").joinpath("page", name).read_text(encoding="utf-8")


def _environment() -> Environment:
    made = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    made.filters |= {
        "number": _number,
        "size": _size,
        "share": _share,
        "span": _span,
        "plain": lambda value: plain(str(value), WIDEST),
        "link": _link,
        "mix": _mix,
    }
    return made


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.2f}"


def _size(value: float | None) -> str:
    """Bytes in the unit that leaves one to three digits before the point."""
    if value is None:
        return "–"
    for unit in ("B", "kB", "MB", "GB"):
        if abs(value) < 1000:
            return f"{value:.0f} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:,.1f} TB"


def _share(part: float | None, whole: float | None = 1.0) -> str:
    return "–" if part is None or not whole else f"{part / whole:.1%}"


def _span(seconds: float) -> str:
    """Seconds as people say them."""
    if seconds < 100:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:,} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"


def _link(url: str) -> str:
    """Where a row may link to: a web address that is shown as it is, else nothing."""
    if not url.isprintable() or mask_url(url) != url or "***" in url:
        return ""
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    return url if parts.scheme.lower() in ("http", "https") and parts.netloc else ""


def _mix(outcomes: Mapping[str, Any]) -> str:
    parts = sorted(outcomes.items(), key=lambda item: -item[1])
    return ", ".join(f"{count:,} {outcome}" for outcome, count in parts)
