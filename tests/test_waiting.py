"""What waits by group: priorities, times, full groups, and against a plain list."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from retryscrape.policy.waiting import Waiting


def put(waiting: Waiting[str], name: str, at: float = 0.0, *, priority: int = 0) -> None:
    host = name.partition("/")[0]
    waiting.put(name, priority, key=host, host=host, not_before=at, now=0.0)


def free(key: str, host: str, now: float) -> float:
    return 0.0


def names(waiting: Waiting[str], now: float) -> list[str]:
    found = []
    while (taken := waiting.take(now, free)) is not None:
        found.append(taken[0])
    return found


def test_nothing_leaves_before_its_time_and_the_nearest_is_known() -> None:
    waiting: Waiting[str] = Waiting()
    put(waiting, "a/1", at=5.0)
    put(waiting, "b/1", at=3.0)
    assert (names(waiting, 2.9), waiting.next_due, waiting.size, waiting.ready) == ([], 3.0, 2, 0)
    assert names(waiting, 3.0) == ["b/1"]
    assert names(waiting, 9.0) == ["a/1"]
    assert (waiting.size, waiting.ready, waiting.next_due) == (0, 0, math.inf)


def test_a_group_gives_the_most_urgent_first_and_groups_take_turns() -> None:
    waiting: Waiting[str] = Waiting()
    put(waiting, "a/1")
    put(waiting, "a/2", priority=1)
    put(waiting, "b/1")
    assert names(waiting, 0.0) == ["a/2", "b/1", "a/1"]


def test_a_full_group_is_looked_at_when_it_is_revived_and_a_paused_one_at_its_time() -> None:
    waiting: Waiting[str] = Waiting()
    put(waiting, "full/1")
    put(waiting, "paused/1")
    until = {"full": math.inf, "paused": 7.0}
    assert waiting.take(0.0, lambda key, host, now: until[key]) is None
    assert waiting.next_due == 7.0
    assert not waiting.revive("paused", 1.0)
    assert not waiting.revive("nobody", 1.0)
    assert waiting.revive("full", 1.0)
    assert names(waiting, 1.0) == ["full/1"]
    waiting.hurry(None, 2.0)  # its pause has ended
    assert names(waiting, 2.0) == ["paused/1"]


HOSTS = st.sampled_from("abc")
ITEMS = st.lists(st.tuples(HOSTS, st.integers(0, 5), st.integers(0, 2)), max_size=30)


@given(ITEMS, HOSTS)
def test_it_gives_what_a_look_through_all_would_give(items, gone: str) -> None:
    waiting: Waiting[str] = Waiting()
    for number, (host, at, priority) in enumerate(items):
        put(waiting, f"{host}/{number}", at=at, priority=priority)
    left = {f"{host}/{number}": at for number, (host, at, _) in enumerate(items)}
    taken = set(waiting.drain(gone))
    assert taken == {name for name in left if name.startswith(gone)}
    for now in range(6):
        expected = {name for name, at in left.items() if at <= now} - taken
        found = names(waiting, float(now))
        assert (set(found), len(found)) == (expected, len(expected))
        taken |= expected
    assert (waiting.size, waiting.ready) == (0, 0)
