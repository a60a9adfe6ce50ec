"""The charts of the HTML report: report data in, inline SVG out. Nothing of them acts.

pygal draws; what it adds besides (a script with its settings, comments, hidden
texts for its own tooltips) is taken out, and browsers' own tooltips put in.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import pygal
from lxml import etree
from pygal.style import Style

from retryscrape.ledger.reportdata import Report
from retryscrape.policy.outcomes import Outcome
from retryscrape.policy.redact import plain

#: Bars of a chart by host; the table below it has more.
HOSTS = 12
_LABEL = 40
#: One colour an outcome on the whole page: green is got, grey is settled, the rest is not.
COLOURS: Mapping[str, str] = {
    Outcome.OK: "#2f9e5b",
    Outcome.GONE: "#8b95a1",
    Outcome.REFUSED: "#a9b1bb",
    Outcome.REJECTED: "#c5cbd3",
    "pending": "#7fa8d9",
    Outcome.THROTTLED: "#e0a526",
    Outcome.BLOCKED: "#d0443e",
    Outcome.EMPTY: "#b98adf",
    Outcome.INVALID: "#8659c4",
    Outcome.TARGET_ERROR: "#e07b39",
    Outcome.NETWORK_ERROR: "#3f8fa8",
    Outcome.PROXY_ERROR: "#2b6377",
    Outcome.API_ERROR: "#5a7fb0",
    Outcome.UNEXPECTED: "#c2509a",
    Outcome.OVER_BUDGET: "#9a7b4f",
    Outcome.NO_RESULT: "#4a5058",
}
_BAR = "#3b76c4"
# Of a time as the timeline has it, by its length: the format and the step.
_UNITS = {
    16: ("%Y-%m-%dT%H:%M", timedelta(minutes=1)),
    13: ("%Y-%m-%dT%H", timedelta(hours=1)),
    10: ("%Y-%m-%d", timedelta(days=1)),
}
#: More gaps than this are not filled with empty columns.
_MOST_COLUMNS = 480

Series = Mapping[str, Sequence[int]]


def charts(report: Report) -> dict[str, str]:
    """The SVG texts by name; a chart that would be empty is left out. Legends are the page's."""
    drawn = {
        "timeline": _timeline(report.timeline),
        "outcomes": _outcomes(report.outcomes),
        "hosts": _mixes("hosts", [(row["host"] or "-", row) for row in report.hosts[:HOSTS]]),
        "rungs": _mixes("rungs", [(row["rung"] or "-", row) for row in report.rungs]),
        "attempts": _bars("attempts", "pages", dict(report.pages_by_attempts)),
        "waits": _bars("waits", "attempts", waits(report.waits)),
    }
    return {name: svg for name, svg in drawn.items() if svg}


def waits(steps: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Attempts by the words for how long they had waited; those that had not are left out."""
    words, before = {}, 0
    for step in steps[1:]:
        limit = step["up_to"]
        words[f"> {before} s" if limit is None else f"up to {limit} s"] = step["attempts"]
        before = limit
    return words if any(words.values()) else {}


def _timeline(points: Sequence[Mapping[str, Any]]) -> str:
    counted = {(point["at"], point["outcome"]): point["attempts"] for point in points}
    moments = _filled(sorted({at for at, _ in counted}))
    names = _ordered(Counter({name: count for (_, name), count in counted.items()}))
    series = {name: [counted.get((at, name), 0) for at in moments] for name in names}
    shown = _times(moments)
    chart = pygal.StackedBar(
        **_options(names, height=300, spacing=0),
        x_labels_major=_some(shown),
        show_minor_x_labels=False,
    )
    return _drawn(chart, "timeline", shown, series)


def _filled(moments: Sequence[str]) -> Sequence[str]:
    """With the minutes (hours, days) in between in which nothing happened."""
    if not moments or len(moments[0]) not in _UNITS:
        return moments
    form, step = _UNITS[len(moments[0])]
    first, last = (datetime.strptime(at, form) for at in (moments[0], moments[-1]))  # noqa: DTZ007
    columns = (last - first) // step + 1
    if columns > _MOST_COLUMNS:
        return moments
    return [(first + number * step).strftime(form) for number in range(columns)]


def _times(moments: Sequence[str]) -> list[str]:
    """Without what all of them share: the year, and the date if it is one."""
    same_day = len({at[:10] for at in moments}) == 1 and len(moments[0]) > 10
    return [at[11:] if same_day else at[5:].replace("T", " ") for at in moments]


def _some(labels: Sequence[str]) -> list[str]:
    """About six of them: all would cover each other."""
    step = max(1, len(labels) // 6)
    return list(labels[::step])


def _outcomes(rows: Sequence[Mapping[str, Any]]) -> str:
    counts: Counter[str] = Counter()
    for row in rows:
        counts[row["outcome"] or "pending"] += row["rows"]
    names = _ordered(counts)
    chart = pygal.Pie(**_options(names, height=260, wide=False), inner_radius=0.6)
    return _drawn(chart, "outcomes", (), {name: [counts[name]] for name in names})


def _mixes(chart_name: str, rows: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
    """One horizontal bar a row, made of its outcomes; the first row on top."""
    rows = list(reversed(rows))
    counts: Counter[str] = Counter()
    for _, row in rows:
        counts.update(row["outcomes"])
    names = _ordered(counts)
    series = {name: [row["outcomes"].get(name, 0) for _, row in rows] for name in names}
    height, wide = 60 + 34 * len(rows), chart_name == "hosts"
    chart = pygal.HorizontalStackedBar(**_options(names, height=height, wide=wide))
    return _drawn(chart, chart_name, [label for label, _ in rows], series)


def _bars(name: str, what: str, counts: Mapping[Any, int]) -> str:
    chart = pygal.Bar(**_options((), height=260, wide=False))
    labels = [str(label) for label in counts]
    return _drawn(chart, name, labels, {what: list(counts.values())} if counts else {})


def _ordered(counts: Mapping[str, int]) -> list[str]:
    """Outcomes that occur, in the order of the colours; strange ones last."""
    rank = {str(name): number for number, name in enumerate(COLOURS)}
    return sorted(filter(counts.get, counts), key=lambda name: (rank.get(name, 99), name))


def _options(
    names: Sequence[str], *, height: int, spacing: int = 10, wide: bool = True
) -> dict[str, Any]:
    style = Style(
        background="transparent",
        plot_background="transparent",
        foreground="var(--ink)",
        foreground_strong="var(--ink)",
        foreground_subtle="var(--soft)",
        guide_stroke_color="var(--line)",
        major_guide_stroke_color="var(--line)",
        font_family="inherit",
        label_font_size=12,
        major_label_font_size=12,
        opacity="1",
        opacity_hover=".8",
        transition="none",
        colors=tuple(COLOURS.get(word, "#777777") for word in names) or (_BAR,),
    )
    return {
        "style": style,
        "js": [],
        "width": 1100 if wide else 540,
        "height": height,
        "spacing": spacing,
        "margin": 8,
        "truncate_label": _LABEL,
        "show_legend": False,
        "formatter": lambda value: f"{value:,.0f}",
    }


def _drawn(chart: Any, name: str, labels: Iterable[str], series: Series) -> str:
    if not any(sum(values) for values in series.values()):
        return ""
    chart.uuid = name
    chart.x_labels = [plain(label, _LABEL) for label in labels]
    for title, values in series.items():
        # an empty part of a bar is none: no element for it
        chart.add(plain(title, _LABEL), [value or None for value in values])
    root = chart.render_tree()
    _quiet(root)
    text: str = etree.tostring(root, encoding="unicode")
    return text


def _quiet(root: Any) -> None:
    """Take out what acts or is not seen, and put in tooltips."""
    for parent in list(root.iter()):
        texts: dict[str, str] = {}
        for child in list(parent):
            tag = child.tag.rpartition("}")[2] if isinstance(child.tag, str) else "comment"
            if tag == "desc":
                texts[child.get("class", "")] = child.text or ""
            if tag in ("desc", "script", "comment"):
                parent.remove(child)
        if texts.get("value"):
            space, bracket, _ = parent.tag.rpartition("}")
            title = parent.makeelement(f"{space}{bracket}title")
            title.text = ": ".join(filter(None, (texts.get("x_label"), texts["value"])))
            parent.insert(0, title)
