"""Backoff: bounds of every wait that is our own."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retryscrape.policy.backoff import (
    Backoff,
    Jitter,
    decorrelated,
    doubled,
    full_jitter,
    redrive_delay,
    throttle_pause,
)

SEEDS = st.integers(0, 2**32)
COUNTS = st.integers(-5, 10**9)


@given(COUNTS, SEEDS)
def test_full_jitter_lies_between_zero_and_the_doubled_base(n, seed):
    delay = full_jitter(n, base=1, cap=60, rng=random.Random(seed))
    assert 0 <= delay <= min(60, 2.0 ** min(max(n, 0), 10))


def test_full_jitter_uses_the_whole_range():
    rng = random.Random(1)
    delays = [full_jitter(3, base=1, cap=60, rng=rng) for _ in range(1000)]
    assert min(delays) < 0.1
    assert max(delays) > 7.9
    assert sum(delays) / 1000 == pytest.approx(4, abs=0.3)


@given(st.floats(0, 1e308), SEEDS)
def test_decorrelated_grows_from_the_wait_before_it(previous, seed):
    delay = decorrelated(previous, base=1, cap=60, rng=random.Random(seed))
    assert 1 <= delay <= max(1, min(60, previous * 3))


@given(COUNTS, SEEDS)
def test_a_throttle_pause_is_never_shorter_than_what_is_due(n, seed):
    pause = throttle_pause(n, base=30, cap=3600, rng=random.Random(seed))
    due = doubled(30, n, 3600)
    assert due <= pause <= min(3600, due * 1.25)


@pytest.mark.parametrize(("passes", "low", "high"), [(1, 35, 45), (2, 65, 75), (3, 125, 135)])
def test_redrive_passes_are_spaced_as_designed(passes, low, high):
    for seed in range(50):
        delay = redrive_delay(passes, base=30, jitter=(5, 15), rng=random.Random(seed))
        assert low <= delay <= high


def test_the_setting_chooses_the_kind():
    rng = random.Random(1)
    assert Backoff(kind=Jitter("full")).delay(0, rng) <= 1
    assert 1 <= Backoff(kind=Jitter("decorrelated")).delay(5, rng, previous=2) <= 6
