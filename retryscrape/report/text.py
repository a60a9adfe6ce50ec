"""The report for a terminal: plain aligned text out of report data. No colours, no I/O."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from retryscrape.ledger.reportdata import Report
from retryscrape.policy.redact import plain

#: Rows of each table: a terminal is for a look, the rest is in the JSON and the feed.
SHOWN = 20
WIDEST_URL = 100


def render(report: Report, *, shown: int = SHOWN) -> str:
    """The report as text with a line break at its end; at most ``shown`` rows a table."""
    return "\n".join(_lines(report, shown)) + "\n"


def _lines(report: Report, shown: int) -> Iterator[str]:
    yield from _head(report)
    yield from _section(
        "outcomes",
        ("outcome", "class", "rows"),
        [
            (row["outcome"] or "not asked yet", row["error_class"] or "-", row["rows"])
            for row in report.outcomes
        ],
        shown,
    )
    yield from _section(
        "hosts",
        ("host", "rows", "success", "unresolved", "outcomes"),
        [
            (row["host"] or "-", row["rows"], row["success"], row["unresolved"], _mix(row))
            for row in report.hosts
        ],
        shown,
        report.hosts_total,
    )
    yield from _section(
        "blocked by",
        ("vendor", "attempts", "rows left"),
        [(row["vendor"], row["attempts"], row["rows"]) for row in report.vendors],
        shown,
    )
    yield from _section(
        "rungs",
        ("rung", "attempts", "ok", "mean s", "bytes", "cost"),
        [(row["rung"] or "-", *_effort(row)) for row in report.rungs],
        shown,
    )
    yield from _section(
        "exits",
        ("exit", "health", "attempts", "ok", "mean s", "bytes", "cost"),
        [(row["exit"], _share(row["health"]), *_effort(row)) for row in report.exits],
        shown,
        report.exits_total,
    )
    yield from _section(
        "runs",
        ("job", "started", "finished", "reason", "attempts", "cost"),
        [(*_run(job), job["attempts"], _number(job["cost"])) for job in report.jobs],
        shown,
    )
    yield from _section(
        "re-drives",
        ("started", "finished", "stopped by", "passes", "rows before", "left"),
        [
            (
                loop["started_at"],
                loop["finished_at"] or "-",
                loop["reason"] or "goes on, or was killed",
                loop["passes"],
                loop["before"],
                loop["left_over"],
            )
            for loop in report.redrives
        ],
        shown,
    )
    yield from _residue(report, shown)


def _head(report: Report) -> Iterator[str]:
    yield f"batch {plain(report.batch_id)} of {plain(report.manifest)}, begun {report.created_at}"
    yield ""
    yield from _aligned(
        [
            ("input", _input(report)),
            ("success", f"{report.success:,}{_percent(report.success, report.rows)}"),
            ("unresolved", f"{report.unresolved:,}{_percent(report.unresolved, report.rows)}"),
            ("settled", f"{report.settled:,} (gone, refused, rejected)"),
            ("parked", f"{report.parked:,}{_until(report.next_due)}"),
            ("passes", f"{report.passes:,}"),
            ("attempts", f"{report.attempts:,}{_each(report.attempts_per_page)}"),
            ("cost", f"{_number(report.cost)} price units{_each(report.cost_per_page)}"),
            ("bytes", f"{report.bytes:,}{_each(report.bytes_per_page)}"),
            ("waited", f"{report.waited:,.0f} s"),
        ]
    )


def _residue(report: Report, shown: int) -> Iterator[str]:
    if not report.residue_total:
        yield ""
        yield "every row is a success" if report.rows else "no rows"
        return
    yield ""
    yield f"not a success: {report.residue_total:,} rows{_more(shown, report.residue_total)}"
    for row in report.residue[:shown]:
        state = [
            row["outcome"] or "not asked yet",
            row["http_code"],
            row["vendor"],
            row["error_class"],
        ]
        tries = "1 attempt" if row["attempts"] == 1 else f"{row['attempts']} attempts"
        yield f"  {plain(row['url'], WIDEST_URL)}"
        yield (
            f"    {', '.join(str(part) for part in state if part)}; {tries}"
            + (f"; {plain(row['reason'], WIDEST_URL)}" if row["reason"] else "")
        )
        yield f"    to do: {row['action']}"


def _section(
    title: str,
    header: Sequence[str],
    rows: Sequence[Sequence[Any]],
    shown: int,
    total: int | None = None,
) -> Iterator[str]:
    if not rows:
        return
    yield ""
    yield f"{title}{_more(shown, total or len(rows))}"
    yield from _aligned([header, *rows[:shown]])


def _aligned(rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    """Columns as wide as their widest cell; numbers to the right."""
    cells = [[_cell(value) for value in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    kinds = [_is_number(column[-1]) for column in zip(*cells, strict=True)]
    for row in cells:
        padded = [
            cell.rjust(width) if number else cell.ljust(width)
            for cell, width, number in zip(row, widths, kinds, strict=True)
        ]
        yield f"  {'  '.join(padded)}".rstrip()


def _cell(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else plain(str(value), WIDEST_URL)


def _is_number(text: str) -> bool:
    return bool(text) and not text.strip("0123456789.,%")


def _effort(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return (row["attempts"], row["ok"], f"{row['elapsed']:.2f}", row["bytes"], _number(row["cost"]))


def _run(job: Mapping[str, Any]) -> tuple[str, ...]:
    names = ("job_id", "started_at", "finished_at", "finish_reason")
    return tuple(job[name] or "-" for name in names)


def _mix(row: Mapping[str, Any]) -> str:
    parts = sorted(row["outcomes"].items(), key=lambda item: -item[1])
    return ", ".join(f"{count:,} {outcome}" for outcome, count in parts)


def _number(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.2f}"


def _percent(part: int, whole: int) -> str:
    return f" ({part / whole:.1%})" if whole else ""


def _each(value: float | None) -> str:
    return "" if value is None else f", {_number(round(value, 2))} a page"


def _input(report: Report) -> str:
    return (
        f"{report.lines:,} lines: {report.rows:,} rows, {report.duplicates:,} duplicates,"
        f" {report.rejected:,} rejected"
    )


def _until(at: str | None) -> str:
    return f", the first until {at}" if at else ""


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"


def _more(shown: int, total: int) -> str:
    return f" (the first {shown:,} of {total:,})" if total > shown else ""
