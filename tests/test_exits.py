"""The pool of exits: who is taken, who rests, whose fault it was, and how near to an oracle."""

import importlib.util
import math
import random
import statistics
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retryscrape.policy.attribution import in_hindsight, side_verdict, signal_for
from retryscrape.policy.exits import Pool, PoolRules, Signal
from retryscrape.policy.outcomes import Outcome
from retryscrape.policy.proxies import Exit, parse_proxies
from retryscrape.policy.ticket import Past, Ticket

GOOD, BLOCK, DEAD, AUTH, UNSURE = (
    Signal.GOOD,
    Signal.BLOCK,
    Signal.DEAD,
    Signal.AUTH,
    Signal.UNSURE,
)
H = "shop.test"


def exits(count: int, attributes: str = "") -> list[Exit]:
    lines = [f"10.0.0.{n}:80 {attributes}" for n in range(1, count + 1)]
    return list(parse_proxies(lines, "x").exits)


def pool_of(count: int, **rules) -> Pool:
    return Pool(exits(count), rng=random.Random(1), rules=PoolRules(**rules))


def tell(pool: Pool, exit_: Exit | str, signal: Signal, now: float, host: str = H, elapsed=0.2):
    exit_id = exit_ if isinstance(exit_, str) else exit_.id
    pool.sent(exit_id, host, now)
    pool.done(exit_id, host, now, signal, elapsed)


def shares(pool: Pool, now: float, host: str = H, times: int = 1000) -> Counter[str]:
    return Counter(pool.choose(host, now).id for _ in range(times))


# --- the choice --------------------------------------------------------------------


def test_a_retry_leaves_through_an_exit_that_the_url_has_not_used():
    pool = pool_of(4)
    used: list[str] = []
    for _ in range(4):
        exit_ = pool.choose(H, 0, used=used)
        assert exit_.id not in used
        used.append(exit_.id)
        tell(pool, exit_, BLOCK, 0)
    assert pool.choose(H, 0, used=used).id in used


def test_unused_counts_the_exits_that_are_left_for_a_url():
    pool = pool_of(4)
    ids = [one.id for one in exits(4)]
    assert pool.unused(H, ids[:1], 0) == 3
    pool.pause(ids[1], H, 50)
    assert pool.unused(H, ids[:1], 0) == 2
    tell(pool, ids[2], DEAD, 0)
    assert pool.unused(H, ids[:1], 0) == 1
    tell(pool, ids[3], AUTH, 0)
    assert pool.unused(H, ids[:1], 0) == 0


def test_with_one_proxy_it_is_used_again():
    pool = pool_of(1)
    only = pool.choose(H, 0)
    assert pool.choose(H, 0, used=[only.id]) == only


def test_the_tier_and_country_of_a_rung_are_kept():
    cheap, home = exits(2), parse_proxies(["1.1.1.1:1 tier=res country=gb"], "x").exits
    pool = Pool([*cheap, *home], rng=random.Random(1))
    assert {pool.choose(H, 0, tier="res", country="GB").id for _ in range(50)} == {home[0].id}
    assert pool.choose(H, 0, tier="res", country="DE") is None
    assert pool.due(H, 0, tier="res", country="DE") == math.inf
    assert pool.unused(H, [], 0, tier="res") == 1


def test_dear_exits_get_less_than_cheap_ones_that_do_as_well():
    cheap, dear = parse_proxies(["1.1.1.1:1", "1.1.1.2:1 cost=4"], "x").exits
    pool = Pool([cheap, dear], rng=random.Random(1))
    for now in range(20):
        tell(pool, cheap, GOOD, now)
        tell(pool, dear, GOOD, now)
    assert shares(pool, 20)[cheap.id] > 950


def test_load_is_spread_over_exits_that_do_equally_well():
    pool = pool_of(10)
    for now in range(10):
        for exit_ in exits(10):
            tell(pool, exit_, GOOD, now)
    counts = shares(pool, 10)
    assert len(counts) == 10
    assert max(counts.values()) < 250


def test_no_exit_gets_more_than_its_share_at_once_while_others_are_free():
    pool = pool_of(4, concurrency=2)
    for one in exits(4):
        tell(pool, one, GOOD, 0)
    for _ in range(8):
        pool.sent(pool.choose(H, 0).id, H, 0)
    assert sorted(pool._health[one.id].in_flight for one in exits(4)) == [2, 2, 2, 2]
    assert pool.choose(H, 0) is not None


def test_a_least_interval_between_two_requests_of_an_exit_to_a_host():
    pool = pool_of(2, interval=5)
    first = pool.choose(H, 0)
    pool.sent(first.id, H, 0)
    second = pool.choose(H, 1)
    assert second != first
    pool.sent(second.id, H, 1)
    assert pool.choose(H, 2) is None
    assert pool.due(H, 2) == 5
    assert pool.unused(H, [first.id], 2) == 1  # not now, but soon
    assert pool.due("other.test", 2) == 0
    pool.left(first.id, H, 3)  # it had to wait in the loop
    assert pool.due(H, 4) == 6
    assert pool.choose(H, 7).id == second.id
    assert pool.choose(H, 8).id in (first.id, second.id)


def test_slow_exits_get_less():
    pool = pool_of(3)
    slow, *fast = exits(3)
    for now in range(10):
        tell(pool, slow, GOOD, now, elapsed=8.0)
        for exit_ in fast:
            tell(pool, exit_, GOOD, now, elapsed=0.4)
    assert shares(pool, 10)[slow.id] < 50


def test_unknown_exits_are_tried_early_but_not_on_a_url_that_has_failed():
    pool = pool_of(30)
    known, failed = exits(30)[:2]
    for now in range(5):
        tell(pool, known, GOOD, now)
    assert len(shares(pool, 5)) > 15
    again = {pool.choose(H, 5, used=[failed.id]).id for _ in range(300)}
    assert again == {known.id}


# --- blocks, deaths, credentials ---------------------------------------------------


def test_unknown_exits_are_tried_one_request_each_before_any_is_tried_twice():
    pool = pool_of(20)
    taken = []
    for _ in range(12):
        taken.append(pool.choose(H, 0).id)
        pool.sent(taken[-1], H, 0)
    assert len(set(taken)) >= 10


def test_an_exit_that_fails_fast_is_not_asked_again_before_the_others_have_answered():
    """Failures are back first: nothing that only failed may look better than the unknown."""
    pool = pool_of(20)
    failing = exits(20)[0].id
    asked = Counter()
    for number in range(40):
        host = f"h{number % 5}.test"
        exit_ = pool.choose(host, 0)
        if exit_ is None:
            break
        asked[exit_.id] += 1
        pool.sent(exit_.id, host, 0)
        if exit_.id == failing:
            pool.done(failing, host, 0, UNSURE, 0.01)
    assert len(asked) == 20
    assert set(asked.values()) == {1}
    # all are being found out, for a second; the first that works takes what waits
    assert 0 < pool.due(H, 0) < 1
    assert pool.choose(H, 1.01) is not None
    pool.done(exits(20)[7].id, H, 0.2, GOOD, 0.2)
    assert pool.due(H, 0.2) == 0
    assert {pool.choose(H, 0.2).id for _ in range(50)} == {exits(20)[7].id}


def test_the_first_answer_is_told_to_those_who_wait_for_it():
    pool = pool_of(3)
    one, two, _ = exits(3)
    for number, exit_ in enumerate((one, two)):
        pool.sent(exit_.id, f"h{number}.test", 0)
    assert pool.due(H, 0.1) == 0  # the third exit
    assert pool.done(one.id, "h0.test", 0.1, UNSURE, 0.1) is False
    assert pool.done(two.id, "h1.test", 0.2, GOOD, 0.2) is True
    pool.sent(one.id, H, 0.3)
    assert pool.done(one.id, H, 0.4, GOOD, 0.1) is False


def test_where_nothing_works_nobody_waits_for_a_first_answer_that_is_there():
    pool = pool_of(2)
    for one in exits(2):
        tell(pool, one, UNSURE, 0)
    assert pool.due(H, 0.1) == 0
    assert pool.choose(H, 0.1) is not None


def test_one_doubt_is_enough_where_an_exit_never_worked_and_others_do():
    pool = pool_of(2)
    broken, fine = exits(2)
    tell(pool, fine, GOOD, 0)
    tell(pool, broken, UNSURE, 1)
    assert pool.describe(1) == "2 exits: 1 work, 1 cannot be reached"
    assert set(shares(pool, 1)) == {fine.id}


def test_an_exit_that_only_failed_is_left_alone_for_a_while_where_others_work():
    """Its fault was on a host that had let nobody through yet: that may have been the host."""
    pool = pool_of(3)
    failed, fine, fresh = exits(3)
    tell(pool, failed, UNSURE, 0)
    tell(pool, fine, GOOD, 0, "elsewhere.test")
    assert failed.id not in shares(pool, 5, "third.test")
    assert shares(pool, 5, "third.test")[fresh.id] > 0
    assert failed.id in shares(pool, 11, "third.test")


def test_a_hosts_first_good_answer_shows_whose_its_faults_were():
    pool = pool_of(3)
    failed, fine, proven = exits(3)
    tell(pool, proven, GOOD, 0, "elsewhere.test")
    tell(pool, failed, UNSURE, 0)
    tell(pool, proven, UNSURE, 0)
    assert pool.unused(H, [], 0) == 3
    tell(pool, fine, GOOD, 0)
    assert pool.describe(0) == "3 exits: 2 work, 1 cannot be reached"
    assert pool.unused(H, [], 0) == 2


def test_a_block_speaks_against_an_exit_on_that_host_only():
    pool = pool_of(2)
    blocked, other = exits(2)
    for now in range(5):
        tell(pool, other, GOOD, now)
    tell(pool, blocked, BLOCK, 5)
    assert set(shares(pool, 6)) == {other.id}
    assert shares(pool, 6, "elsewhere.test")[blocked.id] > 300


def test_a_proven_exit_that_is_banned_is_dropped_at_once():
    pool = pool_of(5)
    for now in range(20):
        for exit_ in exits(5):
            tell(pool, exit_, GOOD, now)
    banned = exits(5)[0]
    tell(pool, banned, BLOCK, 20)
    assert shares(pool, 20)[banned.id] < 60
    tell(pool, banned, BLOCK, 20)
    assert shares(pool, 20)[banned.id] < 15


def test_a_banned_exit_that_recovered_is_found_again():
    pool = pool_of(3)
    banned, *others = exits(3)
    for now in range(5):
        for exit_ in others:
            tell(pool, exit_, GOOD, now)
    for now in (5, 6):
        tell(pool, banned, BLOCK, now)
    later = 8000.0
    tries = 0
    while banned.id not in shares(pool, later, times=1):
        tries += 1
        assert tries < 300
    for now in range(10):
        tell(pool, banned, GOOD, later + now)
    assert shares(pool, later + 10)[banned.id] > 150


def test_a_dead_exit_cools_down_longer_each_time_and_is_probed_one_request_at_a_time():
    pool = pool_of(1)
    (exit_,) = exits(1)
    tell(pool, exit_, DEAD, 100)
    assert pool.choose(H, 100) is None
    first = pool.due(H, 100)
    assert 101.5 < first < 102.5
    assert pool.choose(H, first) == exit_
    pool.sent(exit_.id, H, first)
    assert pool.choose(H, first) is None
    pool.done(exit_.id, H, first, DEAD)
    assert pool.due(H, first) - first > 3.5
    tell(pool, exit_, GOOD, 110)
    assert pool.choose(H, 110) == exit_
    assert pool.due(H, 110) == 0


def test_a_probe_that_never_comes_back_does_not_hold_its_exit_for_ever():
    pool = pool_of(1)
    (exit_,) = exits(1)
    tell(pool, exit_, DEAD, 0)
    pool.sent(exit_.id, H, 10)
    assert pool.choose(H, 60) is None
    assert pool.choose(H, 700) == exit_


def test_failures_of_requests_in_flight_are_one_event():
    pool = pool_of(1)
    (exit_,) = exits(1)
    for _ in range(16):
        pool.sent(exit_.id, H, 0)
    for _ in range(16):
        pool.done(exit_.id, H, 0.1, DEAD)
    assert pool.exhausted(0.1) is None
    assert pool.due(H, 0.1) < 3


def test_a_dead_pool_ends_the_run_after_three_failures_each():
    pool = pool_of(3)
    now = 0.0
    for _ in range(100):
        if pool.exhausted(now):
            break
        exit_ = pool.choose(H, now)
        if exit_ is None:
            now = pool.due(H, now)
            continue
        tell(pool, exit_, DEAD, now)
    assert pool.exhausted(now) == "no usable proxy left: 3 of 3 cannot be reached"
    assert now < 10


def test_one_success_keeps_the_pool_alive():
    pool = pool_of(2)
    one, other = exits(2)
    for now in range(0, 400, 100):
        tell(pool, one, DEAD, now)
        tell(pool, other, DEAD, now)
        tell(pool, other, GOOD, now)
    assert pool.exhausted(400) is None


def test_rejected_credentials_take_an_exit_out_for_the_run():
    pool = pool_of(2)
    one, other = exits(2)
    tell(pool, one, AUTH, 0)
    assert set(shares(pool, 1)) == {other.id}
    assert set(shares(pool, 1e6)) == {other.id}
    tell(pool, other, AUTH, 1)
    assert pool.choose(H, 1) is None
    assert pool.due(H, 1) == math.inf
    assert pool.exhausted(1) == "every proxy rejected the credentials (407)"


def test_an_exit_is_out_at_its_first_407_whatever_it_did_before():
    pool = pool_of(2)
    new, old = exits(2)
    tell(pool, old, GOOD, 1)
    for exit_ in (new, old):
        assert not pool.rejected(exit_.id)
        tell(pool, exit_, AUTH, 2)
        assert pool.rejected(exit_.id)


def test_a_mixed_end_is_told_as_it_is():
    pool = pool_of(2)
    one, other = exits(2)
    tell(pool, one, AUTH, 0)
    for now in (0, 10, 20):
        tell(pool, other, DEAD, now)
    assert (
        pool.exhausted(20)
        == "no usable proxy left: 1 of 2 cannot be reached, 1 rejected the credentials (407)"
    )
    assert pool.describe(20) == ("2 exits: 1 cannot be reached, 1 rejected the credentials (407)")


# --- what cannot be known ----------------------------------------------------------


def test_a_host_that_fails_through_every_exit_does_not_cost_the_pool_its_health():
    pool = pool_of(10)
    for now in range(10):
        for exit_ in exits(10):
            tell(pool, exit_, GOOD, now, "fine.test")
    for now in range(10, 40):
        for exit_ in exits(10):
            tell(pool, exit_, UNSURE, now, "down.test")
            tell(pool, exit_, DEAD if now > 12 else UNSURE, now, "down.test")
    assert pool.describe(40) == "10 exits: 10 work"
    assert len(shares(pool, 40, "fine.test")) == 10
    assert pool.exhausted(40) is None


def test_a_pool_of_which_nothing_ever_worked_is_given_up():
    """Hosts that fail through every exit and exits that fail on every host look the same."""
    pool = pool_of(3)
    for now in range(0, 60, 5):
        for exit_ in exits(3):
            tell(pool, exit_, UNSURE, now, f"h{now % 4}.test")
    assert pool.exhausted(60) == "no usable proxy left: 3 of 3 cannot be reached"


def test_one_host_that_is_down_from_the_start_costs_no_exit_its_life():
    pool = pool_of(3)
    for now in range(0, 200, 5):
        for exit_ in exits(3):
            tell(pool, exit_, UNSURE, now)
    assert pool.exhausted(200) is None


def test_an_exit_that_fails_on_several_hosts_cools_down():
    pool = pool_of(3)
    hanging, *others = exits(3)
    for now in range(8):
        host = f"h{now % 4}.test"
        tell(pool, hanging, UNSURE, now, host)
        for exit_ in others:
            tell(pool, exit_, GOOD, now, host)
    assert pool.describe(8) == "3 exits: 2 work, 1 cannot be reached"


def test_one_doubtful_fault_changes_little():
    pool = pool_of(2)
    one, other = exits(2)
    for now in range(10):
        tell(pool, one, GOOD, now)
        tell(pool, other, GOOD, now)
    tell(pool, one, UNSURE, 10)
    assert shares(pool, 10)[one.id] > 100


def test_a_block_is_the_exits_if_the_host_never_let_it_through_while_others_get_through():
    pool = pool_of(3)
    banned, fine, _ = exits(3)
    tell(pool, banned, BLOCK, 0)
    assert not pool.suspect(banned.id, H)
    tell(pool, fine, GOOD, 1)
    assert pool.suspect(banned.id, H)
    assert not pool.suspect(fine.id, H)


def test_a_block_is_the_exits_if_the_host_has_stopped_letting_it_through():
    pool = pool_of(2)
    banned, fine = exits(2)
    for now in range(5):
        tell(pool, banned, GOOD, now)
        tell(pool, fine, GOOD, now)
    tell(pool, banned, BLOCK, 5)
    assert not pool.suspect(banned.id, H)  # the page may be what is forbidden
    for now in range(6, 9):
        tell(pool, banned, BLOCK, now)
    assert pool.suspect(banned.id, H)
    tell(pool, banned, GOOD, 2000)
    assert not pool.suspect(banned.id, H)


def test_a_host_that_blocks_everybody_is_no_exits_fault():
    pool = pool_of(30)
    tell(pool, exits(30)[0], GOOD, 0)
    for now, exit_ in enumerate(exits(30)[1:]):
        tell(pool, exit_, BLOCK, now)
    assert not any(pool.suspect(one.id, H) for one in exits(30))
    tell(pool, exits(30)[0], GOOD, 40)
    assert pool.suspect(exits(30)[5].id, H)


def test_a_block_is_judged_again_when_others_have_answered():
    """Of the first answers of a host nobody can say whose fault they are."""
    blocked, passed = exits(2)
    pool = pool_of(2)
    tell(pool, blocked, BLOCK, 0)
    history = (
        Past(rung="http", exit=blocked.id, outcome=Outcome.BLOCKED),
        Past(rung="http", exit=passed.id, outcome=Outcome.TARGET_ERROR),
    )
    assert in_hindsight(history, lambda one: pool.suspect(one, H)) == history
    tell(pool, passed, GOOD, 1)
    seen = in_hindsight(history, lambda one: pool.suspect(one, H))
    assert [past.counts for past in seen] == [False, True]


@pytest.mark.parametrize(
    ("status", "signal"),
    [
        (200, None),
        (301, None),
        (404, None),
        (403, Signal.NEUTRAL),
        (429, Signal.NEUTRAL),
        (407, AUTH),
        (502, UNSURE),
        (504, UNSURE),
    ],
)
def test_an_error_in_place_of_robots_txt_proves_no_exit(status, signal):
    """A proxy that answers everything itself would look proven before its first page."""
    verdict = side_verdict(status)
    side = Ticket(url="", host="", exit="side")
    assert (verdict and signal_for(verdict, side)) == signal


# --- pauses and deadlines ----------------------------------------------------------


def test_an_exit_that_is_paused_on_a_host_is_free_for_others():
    pool = pool_of(2)
    one, other = exits(2)
    pool.pause(one.id, H, 50)
    assert set(shares(pool, 0)) == {other.id}
    pool.pause(other.id, H, 60)
    assert pool.choose(H, 0) is None
    assert pool.due(H, 0) == 50
    assert pool.choose("other.test", 0) is not None
    assert pool.choose(H, 50) == one


def test_a_deadline_is_learned_and_doubled_when_missed():
    pool = pool_of(2)
    one, new = exits(2)
    assert pool.timeout(one.id, H, 180) == 180
    for now in range(20):
        tell(pool, one, GOOD, now, elapsed=0.3)
    assert pool.timeout(one.id, H, 180) == 5
    assert pool.timeout(new.id, H, 180) == 5
    assert pool.timeout(one.id, H, 3) == 3
    tell(pool, one, UNSURE, 20, elapsed=5)
    assert pool.timeout(one.id, H, 180) >= 10
    assert pool.timeout(one.id, "other.test", 180) == 180


def test_slow_pages_get_a_long_deadline():
    pool = pool_of(1)
    for now in range(20):
        tell(pool, exits(1)[0], GOOD, now, elapsed=20 + now % 5)
    assert 60 <= pool.timeout(exits(1)[0].id, H, 180) <= 120


# --- between runs, and reload ------------------------------------------------------


def trained() -> Pool:
    pool = pool_of(3)
    good, banned, dead = exits(3)
    for now in range(10):
        tell(pool, good, GOOD, now)
    for now in (1, 2):
        tell(pool, banned, BLOCK, now)
    for now in (0, 50, 100):
        tell(pool, dead, DEAD, now)
    return pool


def test_health_survives_the_run():
    good, _, dead = exits(3)
    pool = pool_of(3)
    pool.restore(trained().snapshot())
    counts = shares(pool, 30)
    assert counts[good.id] > 900
    assert counts[dead.id] < 30
    rows = {(row.exit, row.host): row for row in trained().snapshot()}
    assert (rows[good.id, H].ok, rows[good.id, H].fail) == (10, 0)
    assert rows[dead.id, ""].fail == 3


def test_a_pool_that_was_dead_last_time_gets_another_chance():
    pool = pool_of(1)
    for now in (0, 50, 100):
        tell(pool, exits(1)[0], DEAD, now)
    assert pool.exhausted(100)
    again = pool_of(1)
    again.restore(pool.snapshot())
    assert again.exhausted(200) is None
    assert again.choose(H, 200) is not None


@pytest.mark.parametrize("state", [None, "", "{", "[]", '{"good": "x", "at": NaN}'])
def test_a_damaged_row_counts_as_no_evidence(state):
    pool = pool_of(1)
    row = trained().snapshot()[0]._replace(state=state)
    pool.restore([row, row._replace(host=H), row._replace(exit="unknown")])
    assert pool.choose(H, 0) is not None


def test_reload_keeps_the_history_of_exits_that_stay_or_come_back():
    pool = trained()
    good, banned, _ = exits(3)
    pool.update([banned])
    assert pool.choose(H, 20) == banned
    assert good.id not in pool.ids()
    assert pool.get(good.id) == good, "what is under way through it ends through it"
    pool.update(exits(3))
    assert shares(pool, 20)[good.id] > 900


def test_an_answer_of_an_exit_that_was_removed_meanwhile_does_no_harm():
    pool = pool_of(2)
    one, other = exits(2)
    pool.sent(one.id, H, 0)
    pool.update([other])
    pool.done(one.id, H, 1, GOOD, 0.5)
    assert set(shares(pool, 1)) == {other.id}


def test_bytes_and_price_are_counted_per_exit_and_host():
    (exit_,) = parse_proxies(["1.1.1.1:1 cost=2 cost_gb=10"], "x").exits
    pool = Pool([exit_], rng=random.Random(1))
    pool.sent(exit_.id, H, 0)
    pool.done(exit_.id, H, 1, GOOD, 0.5, 500_000_000)
    rows = {row.host: row for row in pool.snapshot()}
    assert (rows[H].bytes, rows[H].cost) == (500_000_000, 7.0)
    assert (rows[""].bytes, rows[""].cost) == (500_000_000, 7.0)


# --- whatever happens --------------------------------------------------------------

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["choose", "done", "pause"]),
        st.sampled_from(list(Signal)),
        st.integers(0, 2),
        st.sampled_from([0.0, 0.5, 30.0, 4000.0]),
    ),
    max_size=120,
)


@given(STEPS, st.integers(0, 1000), st.sampled_from([0.0, 2.0]))
def test_the_pool_gives_an_exit_exactly_when_it_says_that_one_is_due(steps, seed, interval):
    pool = Pool(exits(4), rng=random.Random(seed), rules=PoolRules(interval=interval))
    now = 1000.0
    under_way: list[tuple[str, str]] = []
    for what, signal, number, wait in steps:
        now += wait
        host = f"h{number}.test"
        if what == "choose":
            due = pool.due(host, now)
            exit_ = pool.choose(host, now)
            assert (exit_ is not None) == (due <= now)
            if exit_ is not None:
                pool.sent(exit_.id, host, now)
                under_way.append((exit_.id, host))
        elif what == "done" and under_way:
            exit_id, host = under_way.pop(number % len(under_way))
            pool.done(exit_id, host, now, signal, wait)
        elif what == "pause":
            pool.pause(exits(4)[number].id, host, now + wait)
        assert 0 <= pool.unused(host, [], now) <= 4
        if pool.exhausted(now):
            assert pool.choose(host, now) is None or pool.due(host, now) == 0


# --- against the oracle ------------------------------------------------------------


def _benchmark():
    path = Path(__file__).parent.parent / "benchmarks" / "exit_choice.py"
    spec = importlib.util.spec_from_file_location("exit_choice", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["exit_choice"] = module
    spec.loader.exec_module(module)
    return module


exit_choice = _benchmark()


@pytest.mark.parametrize(
    "name", ["issue 7", "issue 7, 32 at once", "half banned", "all changes half-way"]
)
def test_attempts_per_page_are_at_most_a_tenth_more_than_an_oracles(name):
    world = exit_choice.WORLDS[name]
    scores = [exit_choice.run(world, seed) for seed in range(3)]
    assert min(score.delivered for score in scores) == world.urls
    per_page = statistics.median(score.per_page for score in scores)
    assert per_page <= 1.10 * exit_choice.oracle(world)
    assert max(score.busiest_share for score in scores) < 0.25


def test_a_choice_among_a_thousand_exits_takes_microseconds():
    # The target is 30 (measured: 18); the bound leaves room for a busy machine.
    assert exit_choice.microseconds_per_choice(1000, choices=5000) < 100
