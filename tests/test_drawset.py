"""A set with a random draw."""

import random

from hypothesis import given
from hypothesis import strategies as st

from retryscrape.policy.drawset import DrawSet


@given(st.lists(st.tuples(st.booleans(), st.sampled_from("abcde"))))
def test_it_behaves_like_a_set(steps):
    drawn, right = DrawSet(), set()
    for add, item in steps:
        (drawn.add if add else drawn.discard)(item)
        (right.add if add else right.discard)(item)
        assert set(drawn) == right
        assert len(drawn) == len(right)
        assert all((one in drawn) == (one in right) for one in "abcde")


def test_every_member_is_drawn_equally_often():
    members = DrawSet()
    for item in "abcd":
        members.add(item)
    rng = random.Random(1)
    counts = [members.draw(rng) for _ in range(4000)]
    assert all(900 < counts.count(item) < 1100 for item in "abcd")
