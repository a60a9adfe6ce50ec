"""When a re-drive goes on, waits or stops: tables and properties, no processes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retryscrape.ledger.redrive import Rules, Step, Stop, Worklist, next_step, pace, spent_up
from retryscrape.ledger.store import Ledger
from retryscrape.ledger.worklist import worklist
from retryscrape.policy.outcomes import ErrorClass, Outcome
from tests.ledger_fixtures import *  # noqa: F403
from tests.ledger_makers import NOW, failure, fill, parked, success

RULES = Rules(passes=3, deadline=1000.0, floor=10, base=30.0, jitter=(5.0, 15.0), max_wait=300.0)


def step(work: Worklist, *, passes: int = 0, pause: float = 0.0, ends_in: float = 1000.0) -> Step:
    return next_step(work, RULES, passes=passes, ends_at=NOW + ends_in, pause=pause, now=NOW)


@pytest.mark.parametrize(
    ("why", "work", "passes", "ends_in", "expected"),
    [
        ("nothing is left", Worklist(), 0, 1000, Stop.CLEAN),
        ("nothing is left, after the last pass", Worklist(), 3, 1000, Stop.CLEAN),
        ("nothing is left, after the deadline", Worklist(), 1, -5, Stop.CLEAN),
        ("three passes are over", Worklist(due=50), 3, 1000, Stop.BUDGET),
        ("every row has had its passes", Worklist(spent=50), 0, 1000, Stop.BUDGET),
        ("the time is over", Worklist(due=50), 1, 0, Stop.DEADLINE),
        ("what is left may only be asked later", Worklist(parked=3), 0, 1000, Stop.DEADLINE),
        ("few rows are left after a pass", Worklist(due=9), 1, 1000, Stop.FLOOR),
        ("few rows before the first pass are worth it", Worklist(due=1), 0, 1000, None),
        ("enough rows are left", Worklist(due=10), 1, 1000, None),
        (
            "a few rows that wait were not asked yet",
            Worklist(waiting=1, first=NOW + 400, last=NOW + 400),
            1,
            1000,
            None,
        ),
    ],
)
def test_the_rule_that_holds(
    why: str, work: Worklist, passes: int, ends_in: float, expected: Stop | None
) -> None:
    assert step(work, passes=passes, ends_in=ends_in).stop == expected, why


def test_the_first_pass_starts_at_once_and_later_ones_are_paced() -> None:
    assert [pace(n, RULES, 0.0) for n in range(4)] == [0, 35, 65, 125]
    assert pace(1, RULES, 1.0) == 45
    assert step(Worklist(due=20)).at == NOW
    assert step(Worklist(due=20), passes=1, pause=35).at == NOW + 35


def test_rows_that_are_all_early_are_waited_for() -> None:
    work = Worklist(waiting=1, first=NOW + 400, last=NOW + 400)
    assert step(work).at == NOW + 400


def test_due_rows_do_not_wait_for_early_ones_except_in_the_last_pass() -> None:
    work = Worklist(due=20, waiting=5, first=NOW + 400, last=NOW + 500)
    assert step(work, passes=1, pause=35).at == NOW + 35
    assert step(work, passes=2, pause=65).at == NOW + 500


def test_a_pause_that_reaches_over_the_deadline_ends_the_loop() -> None:
    assert step(Worklist(due=20), passes=1, pause=40, ends_in=30).stop is Stop.DEADLINE


@pytest.mark.parametrize(
    ("outcome", "passes", "expected"),
    [
        (Outcome.BLOCKED, 2, False),
        (Outcome.BLOCKED, 3, True),
        (Outcome.NO_RESULT, 7, False),
        (None, 3, False),
    ],
)
def test_a_row_that_was_never_answered_is_not_spent(
    outcome: Outcome | None, passes: int, expected: bool
) -> None:
    assert spent_up(outcome, passes, 3) is expected


counts = st.integers(0, 30)


@given(counts, counts, counts, counts, st.integers(0, 5), st.floats(-100, 2000))
def test_a_loop_always_ends(
    due: int, waiting: int, parked_: int, spent: int, passes: int, ends_in: float
) -> None:
    """Whatever is left, a pass is only started before the deadline and below the limit."""
    times = (NOW + 400, NOW + 900) if waiting else (None, None)
    work = Worklist(
        due=due, waiting=waiting, first=times[0], last=times[1], parked=parked_, spent=spent
    )
    taken = step(work, passes=passes, ends_in=ends_in)
    if taken.stop is None:
        assert passes < RULES.passes
        assert taken.at < NOW + ends_in
        assert work.size > 0
    if not work.open:
        assert taken.stop is Stop.CLEAN


def test_the_worklist_counts_each_open_row_once(ledger: Ledger) -> None:
    fill(ledger, [f"http://h.test/{n}" for n in range(1, 11)])
    url = "http://h.test/{}".format
    ledger.write(
        [
            success(url(1)),
            failure(url(2), passes=1),
            failure(url(3), passes=3),
            failure(url(4), passes=3, outcome=Outcome.NO_RESULT),
            failure(url(5), passes=1, error_class=ErrorClass.PERMANENT),
            failure(url(6), passes=1, not_before=NOW + 200),
            failure(url(7), passes=1, not_before=NOW + 400),
            parked(url(8), until=NOW + 600),
            failure(url(9), passes=1, not_before=NOW + 5000),
        ]
    )
    assert worklist(ledger, "b", RULES, now=NOW, ends_at=NOW + 1000) == Worklist(
        due=4,  # 2, 4, 6 and the pending 10
        waiting=2,
        first=NOW + 400,
        last=NOW + 600,
        parked=1,
        spent=1,
    )
