"""The sums behind a report, made by the database in a few scans.

Plain mappings come out; what they add up to is reportdata.py's.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from operator import add, itemgetter
from typing import Any

from sqlalchemy import ColumnElement, Connection, case, func, literal_column, select

from retryscrape.ledger.dialect import Dialect
from retryscrape.ledger.forms import ENTRY_COLUMNS
from retryscrape.ledger.queries import all_unsuccessful, unsuccessful
from retryscrape.ledger.records import Result
from retryscrape.ledger.rows import to_result
from retryscrape.ledger.scan import whole
from retryscrape.ledger.schema import attempts, entries, exits
from retryscrape.policy.outcomes import SETTLED, Outcome, Status

TOP_HOSTS = 100
#: Points of the timeline: the unit of time is chosen so that there are at most so many.
POINTS = 240
# Of "2026-01-31T07:05:09.250Z" so many characters are the minute, the hour, the day.
_MINUTE, _HOUR, _DAY = 16, 13, 10
_SETTLED = frozenset(outcome.value for outcome in SETTLED)
_GROUPED = ("exit", "outcome", "rung", "vendor", "job_id", "wait")
_SUMMED = ("attempts", "first_attempts", "cost", "bytes", "elapsed", "waited")
#: Waits are counted in steps, of at most so many seconds each; the last has no end.
_WAITS = (1, 10, 60, 300)
_WAIT = case(
    (attempts.c.waited <= 0, literal_column("0")),
    *(
        (attempts.c.waited <= seconds, literal_column(str(step)))
        for step, seconds in enumerate(_WAITS, start=1)
    ),
    else_=literal_column(str(len(_WAITS) + 1)),
).label("wait")


def entries_summed(connection: Connection, dialect: Dialect, batch_id: str) -> dict[str, Any]:
    """One scan and one sort of the rows: sums over all, pages by attempts, and by host.

    Groups come in the order of hosts, so that only one host and the TOP_HOSTS
    busiest are held, however many there are.
    """
    keys = (entries.c.host, entries.c.outcome, entries.c.attempts)
    query = (
        select(*keys, func.count(), func.sum(entries.c.cost), func.sum(entries.c.bytes))
        .where(whole(connection, dialect, entries, batch_id))
        .group_by(*keys)
        .order_by(entries.c.host)
        .execution_options(stream_results=True)
    )
    sums = {"attempts": 0, "cost": 0.0, "bytes": 0}
    by_attempts: Counter[int] = Counter()
    top: list[tuple[int, int, dict[str, Any]]] = []
    number = 0
    groups = connection.execute(query)
    for number, (name, of_host) in enumerate(groupby(groups, itemgetter(0)), start=1):
        host = {"host": name, "rows": 0, "success": 0, "unresolved": 0, "outcomes": {}}
        host |= {"attempts": 0, "cost": 0.0, "bytes": 0}
        for _, outcome, attempted, rows, cost, size in of_host:
            spent = {"attempts": attempted * rows, "cost": cost, "bytes": int(size)}
            for what, amount in spent.items():
                sums[what] += amount
                host[what] += amount
            _count_into(host, outcome, rows)
            if outcome == Outcome.OK.value:
                by_attempts[attempted] += rows
        # The number breaks ties in favour of the earlier name: hosts are not comparable.
        keep = heapq.heappush if len(top) < TOP_HOSTS else heapq.heappushpop
        keep(top, (host["rows"], -number, host))
    pages = by_attempts.total()
    return {
        **sums,
        **{f"{name}_per_page": total / pages if pages else None for name, total in sums.items()},
        "pages_by_attempts": dict(sorted(by_attempts.items())),
        "hosts": [host for *_, host in sorted(top, key=itemgetter(0, 1), reverse=True)],
        "hosts_total": number,
    }


def _count_into(host: dict[str, Any], outcome: str | None, rows: int) -> None:
    host["rows"] += rows
    name = outcome or Status.PENDING.value
    host["outcomes"][name] = host["outcomes"].get(name, 0) + rows
    if outcome == Outcome.OK.value:
        host["success"] += rows
    elif outcome not in _SETTLED:
        host["unresolved"] += rows


def history(
    connection: Connection, dialect: Dialect, batch_id: str
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """One scan and one sort of the attempts: groups of them, from which everything about
    them is folded, and the timeline.

    The groups come by minute: that is nearly the order in which they were written, so that
    sorting them costs half, and only the sums over all minutes are held.
    """
    keys: list[ColumnElement[Any]] = [
        attempts.c[name] for name in ("exit", "outcome", "rung", "vendor", "job_id")
    ]
    # A literal: with two bound values PostgreSQL cannot know that both are the same.
    minute = func.substr(attempts.c.started_at, 1, literal_column(str(_MINUTE)))
    query = (
        select(
            minute,
            *keys,
            _WAIT,
            func.count(),
            func.sum(case((attempts.c.n == 1, 1), else_=0)),
            func.sum(attempts.c.cost),
            func.sum(attempts.c.bytes),
            func.coalesce(func.sum(attempts.c.elapsed), 0.0),
            func.sum(attempts.c.waited),
        )
        .where(whole(connection, dialect, attempts, batch_id))
        .group_by(minute, *keys, _WAIT)
        .execution_options(stream_results=True)
    )
    groups: dict[tuple[Any, ...], list[Any]] = {}
    minutes: Counter[tuple[str, str]] = Counter()
    for at, *row in connection.execute(query):
        key, sums = tuple(row[: len(_GROUPED)]), row[len(_GROUPED) :]
        into = groups.setdefault(key, [0] * len(_SUMMED))
        into[:] = map(add, into, sums)
        if at is not None:
            minutes[at, key[1]] += sums[0]
    return [_group(key, sums) for key, sums in groups.items()], _timeline(minutes)


def _group(key: tuple[Any, ...], sums: list[Any]) -> dict[str, Any]:
    group = dict(zip((*_GROUPED, *_SUMMED), (*key, *sums), strict=True))
    return {**group, **{name: int(group[name]) for name in ("bytes", "first_attempts")}}


def _timeline(minutes: Mapping[tuple[str, str], int]) -> list[dict[str, Any]]:
    """Attempts over time by outcome: per minute, hour or day, as the whole span asks for."""
    for length in (_MINUTE, _HOUR, _DAY):
        points: Counter[tuple[str, str]] = Counter()
        for (minute, outcome), count in minutes.items():
            points[minute[:length], outcome] += count
        if len({at for at, _ in points}) <= POINTS:
            break
    return [
        {"at": at, "outcome": outcome, "attempts": count}
        for (at, outcome), count in sorted(points.items())
    ]


def fold(history: Iterable[Mapping[str, Any]], key: str) -> list[dict[str, Any]]:
    """Attempts by one of their columns, the busiest first; ``elapsed`` becomes the mean."""
    found: dict[Any, dict[str, Any]] = {}
    for row in history:
        into = found.setdefault(row[key], {key: row[key], **nothing()})
        for name in _SUMMED:
            into[name] += row[name]
        outcome, count = row["outcome"], row["attempts"]
        into["ok"] += count if outcome == Outcome.OK.value else 0
        into["outcomes"][outcome] = into["outcomes"].get(outcome, 0) + count
    for into in found.values():
        into["elapsed"] = into["elapsed"] / into["attempts"]
    return sorted(found.values(), key=lambda row: -row["attempts"])


def nothing() -> dict[str, Any]:
    """What no attempt at all folds to."""
    return {
        "attempts": 0,
        "ok": 0,
        "first_attempts": 0,
        "cost": 0.0,
        "bytes": 0,
        "elapsed": 0.0,
        "waited": 0.0,
        "outcomes": {},
    }


def waits(history: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Attempts by how long they had waited: ``up_to`` seconds (0: not at all, None: longer)."""
    found: Counter[int] = Counter()
    for row in history:
        found[row["wait"]] += row["attempts"]
    limits = (0, *_WAITS, None)
    return [{"up_to": limit, "attempts": found[step]} for step, limit in enumerate(limits)]


def vendors(
    connection: Connection, batch_id: str, history: Iterable[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Who blocked: attempts over all passes, and rows that are still not a success."""
    query = (
        select(entries.c.vendor, func.count())
        .where(all_unsuccessful(batch_id), entries.c.vendor.is_not(None))
        .group_by(entries.c.vendor)
    )
    rows: dict[Any, int] = {row[0]: row[1] for row in connection.execute(query)}
    blocked = fold((row for row in history if row["vendor"]), "vendor")
    by_attempts = {row["vendor"]: row["attempts"] for row in blocked}
    return [
        {"vendor": name, "attempts": by_attempts.get(name, 0), "rows": rows.get(name, 0)}
        for name in sorted({*rows, *by_attempts}, key=lambda n: (-by_attempts.get(n, 0), n))
    ]


def with_health(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Exits with what the ledger knows of their health over all batches."""
    names = [row["exit"] for row in rows if row["exit"]]
    query = select(exits.c.exit, exits.c.ok, exits.c.fail, exits.c.updated_at).where(
        exits.c.host == "", exits.c.exit.in_(names)
    )
    health = {row.exit: row for row in connection.execute(query)}
    merged = []
    for row in rows:
        known = health.get(row["exit"])
        weight = known.ok + known.fail if known else 0.0
        share = known.ok / weight if known and weight else None
        merged.append({**row, "exit": row["exit"] or "direct", "health": share})
    return merged


def next_due(connection: Connection, batch_id: str, now: float) -> float | None:
    """When the first parked row is due, in epoch seconds."""
    query = select(func.min(entries.c.not_before)).where(
        unsuccessful(batch_id), entries.c.not_before > now
    )
    return connection.execute(query).scalar()


def residue(connection: Connection, batch_id: str, limit: int) -> list[Result]:
    """Up to ``limit`` rows that are not a success, the unresolved ones first."""
    settled = entries.c.outcome.in_([outcome.value for outcome in SETTLED])
    rank = case((settled, 1), else_=0)
    columns = [entries.c[name] for name in ENTRY_COLUMNS]
    found: list[Result] = []
    for wanted in (0, 1):  # two walks along the index instead of one sort of everything
        query = (
            select(*columns)
            .where(unsuccessful(batch_id), rank == wanted)
            .order_by(entries.c.line, entries.c.url)
            .limit(limit - len(found))
        )
        found += map(to_result, connection.execute(query))
    return found
