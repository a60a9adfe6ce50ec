"""The merge rule, as a table of examples and as laws over everything."""

from __future__ import annotations

import tempfile
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ledger_makers import NOW, attempt, failure, fill, parked, success
from msgspec.structs import replace

from retryscrape.ledger.merge import merge
from retryscrape.ledger.records import NewRow, Result
from retryscrape.ledger.store import Ledger
from retryscrape.policy.outcomes import ErrorClass, Kind, Outcome, Status

TIMES = [None, *(f"2026-01-01T00:00:0{second}Z" for second in range(3)), "2026-01-01T00:00:01.5Z"]


def small(strategy: st.SearchStrategy) -> st.SearchStrategy:
    return st.none() | strategy


RESULTS = st.builds(
    Result,
    batch_id=st.just("b"),
    url=st.just("http://h.test/1"),
    line=small(st.integers(1, 3)),
    host=st.sampled_from(["", "h.test"]),
    status=st.sampled_from(Status),
    outcome=small(st.sampled_from(Outcome)),
    error_class=small(st.sampled_from(ErrorClass)),
    http_code=small(st.sampled_from([200, 403])),
    kind=small(st.sampled_from(Kind)),
    reason=small(st.sampled_from(["", "one", "two"])),
    attempts=st.integers(0, 3),
    passes=st.integers(0, 3),
    cost=st.sampled_from([0.0, 2.0, 7.5]),
    bytes=st.integers(0, 2),
    rung=small(st.sampled_from(["http", "browser"])),
    escalate=st.booleans(),
    not_before=small(st.sampled_from([0.0, 5.0, 9.0])),
    last_error_at=st.sampled_from(TIMES),
    page_path=small(st.just("b/pages/aa/aa.html")),
    job_id=small(st.sampled_from(["j1", "j2"])),
    fields=small(st.sampled_from([{"a": 1}, {"a": "1"}, {"b": None}])),
)

# What a failures feed may say of a row that was not asked for; people edit it, so any part of it.
PRIORS: list[dict[str, object]] = [
    {},
    {"attempts": 1},
    {"passes": 1},
    {"cost": 2},
    {"http_code": 403},
    {"vendor": "akamai"},
    {"reason": "parked: 429"},
    {"rung": "browser"},
    {"escalate": True},
    {"not_before": NOW},
    {"last_error_at": "2026-01-01T00:00:02Z"},
    {"final_url": "http://h.test/2"},
    {"job_id": "j0"},
]


@pytest.mark.parametrize(
    ("old", "new", "winner"),
    [
        (None, failure(), "new"),
        (success(), failure(at="2027-01-01T00:00:00Z"), "old"),
        (failure(), success(), "new"),
        (failure(at="2026-01-01T00:00:00Z"), failure(at="2026-01-02T00:00:00Z"), "new"),
        (failure(at="2026-01-02T00:00:00Z"), failure(at="2026-01-01T00:00:00Z"), "old"),
        (failure(at="2026-01-01T00:00:00Z"), failure(at="2026-01-01T00:00:00.500Z"), "new"),
        (failure(at=None), failure(at="2026-01-01T00:00:00Z"), "new"),
        (failure(), parked(), "old"),
        (success(), parked(), "old"),
        (parked(until=5), parked(until=9, reason="later"), "new"),
    ],
)
def test_which_evidence_wins(old: Result | None, new: Result, winner: str) -> None:
    expected = new if winner == "new" else old
    assert merge(old, new) == expected


def test_totals_are_the_greater_ones_whichever_side_wins() -> None:
    merged = merge(failure(attempts=5, cost=10.0, passes=2, bytes=7), success(attempts=2, cost=4.0))
    assert (merged.attempts, merged.cost, merged.passes, merged.bytes) == (5, 10.0, 2, 7)


def test_a_success_shows_no_trace_of_failures() -> None:
    stained = replace(success(), error_class=ErrorClass.RETRYABLE, reason="x", not_before=9.0)
    for merged in (merge(None, stained), merge(failure(), stained), merge(stained, failure())):
        assert (merged.status, merged.error_class, merged.reason, merged.not_before) == (
            Status.SUCCESS,
            None,
            None,
            None,
        )


@given(RESULTS, RESULTS)
def test_order_does_not_matter(first: Result, second: Result) -> None:
    assert merge(first, second) == merge(second, first)


@given(RESULTS, RESULTS, RESULTS)
def test_grouping_does_not_matter(first: Result, second: Result, third: Result) -> None:
    assert merge(merge(first, second), third) == merge(first, merge(second, third))


@given(RESULTS, RESULTS)
def test_repetition_does_not_matter(first: Result, second: Result) -> None:
    once = merge(first, second)
    assert merge(once, second) == merge(once, first) == merge(once, once) == once


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data(), results=st.lists(RESULTS, min_size=1, max_size=5))
def test_any_order_and_repetition_gives_the_same_ledger(
    data: st.DataObject, results: list[Result]
) -> None:
    """Through the database: results and attempts, shuffled, repeated, cut into transactions."""
    events: list[tuple[list, list]] = [([result], []) for result in results]
    events += [([], [attempt(n=n, cost=2.0)]) for n in (1, 2)]
    other = data.draw(st.permutations(events + data.draw(st.lists(st.sampled_from(events)))))
    cuts = sorted({0, len(other), *data.draw(st.lists(st.integers(0, len(other)), max_size=3))})
    with tempfile.TemporaryDirectory() as folder:
        entries = []
        for name, groups in (
            ("a", [events]),
            ("b", [other[start:end] for start, end in pairwise(cuts)]),
        ):
            with Ledger.open(str(Path(folder, f"{name}.db"))) as ledger:
                fill(ledger, ["http://h.test/1"])
                for group in groups:
                    ledger.write(
                        [result for written, _ in group for result in written],
                        [record for _, records in group for record in records],
                    )
                entries.append(ledger.entry("b", "http://h.test/1"))
    assert entries[0] == entries[1]


@pytest.mark.parametrize("new", [success(attempts=1), failure(), parked()], ids=lambda r: r.status)
def test_a_row_meets_its_first_result_by_the_same_rule(tmp_path: Path, new: Result) -> None:
    """The ledger does not read rows of which nothing was heard; what a feed said was heard."""
    rows = [
        NewRow(
            url=f"http://h.test/{n}", line=n, host="h.test", prior={"status": "pending", **prior}
        )
        for n, prior in enumerate(PRIORS, start=1)
    ]
    with Ledger.open(str(tmp_path / "ledger.db")) as ledger:
        ledger.open_batch("b", "m.txt", None, now=NOW)
        ledger.add_rows("b", rows, manifest="m.txt", read_to=len(rows), job_id="j1", now=NOW)
        before = [ledger.entry("b", row.url) for row in rows]
        results = [replace(new, url=row.url, line=row.line) for row in rows]
        ledger.write(results)
        after = [ledger.entry("b", row.url) for row in rows]
    assert after == [merge(*both) for both in zip(before, results, strict=True)]
