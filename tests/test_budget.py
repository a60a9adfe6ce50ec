"""Budgets: retries in proportion, prices that fit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retryscrape.policy.budget import (
    RetryBudget,
    RunBudget,
    fits,
    parse_retry_budget,
    parse_run_budget,
)


def test_the_retry_budget_starts_full_and_ten_first_attempts_earn_one_retry():
    budget = RetryBudget(0.1, 10)
    assert [budget.try_spend() for _ in range(11)] == [True] * 10 + [False]
    for _ in range(9):
        budget.first()
    assert not budget.try_spend()
    budget.first()
    assert budget.try_spend()
    assert not budget.try_spend()


def test_earning_stops_at_the_cap():
    budget = RetryBudget(0.5, 2)
    for _ in range(100):
        budget.first()
    assert [budget.try_spend() for _ in range(3)] == [True, True, False]


@given(st.lists(st.booleans(), max_size=300))
def test_retries_never_exceed_the_cap_and_the_ratio(steps):
    budget = RetryBudget(0.1, 10)
    firsts = retries = 0
    for is_first in steps:
        if is_first:
            firsts += 1
            budget.first()
        else:
            retries += budget.try_spend()
    assert retries <= 10 + 0.1 * firsts + 1e-6


def test_off_allows_every_retry():
    budget = parse_retry_budget(" off ")
    assert all(budget.try_spend() for _ in range(1000))


@pytest.mark.parametrize("text", ["", "0.1", "a,b", "0.1,10,3", "-1,10", "nan,1", "inf,1", "on"])
def test_a_wrong_retry_budget_is_named_in_one_sentence(text):
    with pytest.raises(ValueError, match="is no retry budget: give"):
        parse_retry_budget(text)


def test_a_right_retry_budget():
    budget = parse_retry_budget("0.2, 5")
    assert (budget.ratio, budget.cap, budget.left) == (0.2, 5, 5)


@pytest.mark.parametrize(
    ("spent", "price", "budget", "right"),
    [(0, 2, 12, True), (10, 2, 12, True), (11, 2, 12, False), (99, 5, None, True)],
)
def test_a_price_fits_up_to_the_budget(spent, price, budget, right):
    assert fits(spent, price, budget) is right


def test_attempts_in_flight_cannot_overdraw_the_run():
    run = RunBudget(price_limit=5)
    assert run.try_reserve(2)
    assert run.try_reserve(2)
    assert not run.try_reserve(2)
    run.settle(2, 0)  # lost to a proxy: costs nothing
    assert run.left == 3
    assert run.try_reserve(2)


def test_the_run_is_over_when_price_or_bytes_are_spent():
    run = parse_run_budget("4, residential=1kB, 10kB")
    run.settle(2, 2, tier="residential", size=999)
    assert run.over() is None
    run.settle(0, 0, tier="residential", size=1)
    assert run.over() == "the run's budget of 1000 bytes for tier 'residential' is spent"
    assert RunBudget(price_limit=0).over() == "the run's budget of 0 price units is spent"
    assert RunBudget().over() is None
    assert RunBudget().left is None


@pytest.mark.parametrize("text", ["", "much", "tier=5", "5XB", "-3", "1e3"])
def test_a_wrong_run_budget_is_named_in_one_sentence(text):
    with pytest.raises(ValueError, match="is no run budget: give"):
        parse_run_budget(text)
