"""Words and numbers for ``scrapy proxies``: what was tried, and what the ledger knows of exits.

Pure: rows in, text or plain values out. No secret comes here: exits go by their names.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from retryscrape.ledger.records import ExitRow


class CheckedLike(Protocol):
    """One tried line (see ``crawl.proxycheck.Checked``)."""

    @property
    def line(self) -> int: ...
    @property
    def exit(self) -> str | None: ...
    @property
    def usable(self) -> bool: ...
    @property
    def seconds(self) -> float | None: ...
    @property
    def seen(self) -> str | None: ...
    @property
    def tier(self) -> str | None: ...
    @property
    def country(self) -> str | None: ...
    @property
    def wrong(self) -> str | None: ...


def render_checked(rows: Sequence[CheckedLike], url: str | None, duplicates: int) -> str:
    """A table of all lines, and what they come to."""
    table = [("line", "proxy", "", "seconds", "seen as", "tier", "country", "what is wrong")]
    for row in rows:
        table.append(
            (
                str(row.line),
                row.exit or "-",
                "ok" if row.usable else "NO",
                "-" if row.seconds is None else f"{row.seconds:.2f}",
                row.seen or "-",
                row.tier or "-",
                row.country or "-",
                row.wrong or "",
            )
        )
    return "\n".join([*_aligned(table), "", *_sum(rows, url, duplicates)])


def _sum(rows: Sequence[CheckedLike], url: str | None, duplicates: int) -> list[str]:
    good = [row for row in rows if row.usable]
    seen = {row.seen for row in good if row.seen}
    asked = f"usable (asked for {url})" if url else "usable as far as a connection shows"
    text = f"{len(good)} of {len(rows)} lines are {asked}"
    if duplicates:
        text += (
            f"; {duplicates} repeated {'line was' if duplicates == 1 else 'lines were'} left out"
        )
    lines = [text + "."]
    if seen:
        lines.append(f"The target saw {len(seen)} address{'' if len(seen) == 1 else 'es'}.")
    elif good and not url:
        lines.append("Nothing was fetched through them: --url names a page to try.")
    elif good:
        lines.append("The page did not say who asked: give --url one that does.")
    reasons = Counter(row.wrong for row in rows if row.wrong and not row.usable)
    lines += [f"  {count} x {reason}" for reason, count in reasons.most_common(8)]
    return lines


def exits_by_host(
    rows: Iterable[ExitRow], *, now: float, host: str | None = None
) -> list[dict[str, Any]]:
    """The ledger's exits table: one object per exit, its hosts below it, the busiest first.

    ``ok`` and ``fail`` are counts of attempts, ``bytes`` carried, ``cost`` in price units,
    ``elapsed`` the usual seconds of an answer, ``rests_for`` the seconds that the exit still
    keeps away from the host (0: it may be used), ``age`` seconds since the last news.
    """
    overall: dict[str, ExitRow] = {}
    pairs: dict[str, list[ExitRow]] = defaultdict(list)
    for row in rows:
        if not row.host:
            overall[row.exit] = row
        elif host is None or row.host == host:
            pairs[row.exit].append(row)
    names = set(pairs) if host is not None else set(pairs) | set(overall)
    data = [
        {
            "exit": name,
            **_numbers(overall.get(name) or ExitRow(exit=name), now),
            "hosts": [
                {"host": pair.host, **_numbers(pair, now)}
                for pair in sorted(pairs[name], key=lambda p: (-p.ok - p.fail, p.host))
            ],
        }
        for name in names
    ]
    return sorted(data, key=lambda one: (-one["ok"] - one["fail"], one["exit"]))


def _numbers(row: ExitRow, now: float) -> dict[str, Any]:
    try:
        state = json.loads(row.state or "{}")
    except ValueError:
        state = {}
    until = state.get("rest_until", 0.0) if isinstance(state, dict) else 0.0
    return {
        "ok": int(row.ok),
        "fail": int(row.fail),
        "bytes": row.bytes,
        "cost": round(row.cost, 6),
        "elapsed": None if row.elapsed is None else round(row.elapsed, 3),
        "rests_for": round(max(0.0, until - now), 1) if isinstance(until, int | float) else 0.0,
        "age": None if row.updated_at is None else round(max(0.0, now - row.updated_at), 1),
    }


def render_exits(data: Sequence[dict[str, Any]]) -> str:
    """The same as a table: an exit's own line, then its hosts, indented."""
    if not data:
        return "The ledger knows of no exit: no run has used proxies."
    table = [("exit / host", "ok", "failed", "bytes", "cost", "seconds", "state")]
    for exit_ in data:
        table.append((exit_["exit"], *_cells(exit_)))
        table += [("  " + pair["host"], *_cells(pair)) for pair in exit_["hosts"]]
    return "\n".join(_aligned(table))


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    if row["rests_for"]:
        state = f"kept away for {row['rests_for']:.0f} s more"
    elif row["ok"]:
        state = "works"
    else:
        state = "nothing came through" if row["fail"] else "not tried"
    return (
        str(row["ok"]),
        str(row["fail"]),
        str(row["bytes"]),
        f"{row['cost']:g}",
        "-" if row["elapsed"] is None else f"{row['elapsed']:.2f}",
        state,
    )


def _aligned(table: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in table
    ]
