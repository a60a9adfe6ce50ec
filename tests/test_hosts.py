"""Pauses of hosts: 429s, blocks, hosts that are down."""

import heapq
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retryscrape.policy.backoff import full_jitter
from retryscrape.policy.budget import RetryBudget
from retryscrape.policy.hosts import HostRules, Hosts

H = "shop.test"


@pytest.fixture
def hosts() -> Hosts:
    return Hosts(HostRules(), random.Random(1))


# --- 429 ---------------------------------------------------------------------------


def test_a_429_pauses_its_host_and_no_other(hosts: Hosts):
    assert hosts.throttled(H, 100, 7) == 107
    assert hosts.due(H, 100) == 107
    assert hosts.due(H, 107) == 0
    assert hosts.due("other.test", 100) == 0
    assert hosts.pause_of(H, 101).until == 107
    assert hosts.pause_of(H, 108) is None


def test_a_pause_is_at_most_the_cap(hosts: Hosts):
    assert hosts.throttled(H, 0, 86400) == 3600


@pytest.mark.parametrize("retry_after", [None, 0, 0.0])
def test_without_a_wait_it_is_our_own_backoff(hosts: Hosts, retry_after):
    assert 130 <= hosts.throttled(H, 100, retry_after) <= 137.5


def test_many_429s_in_flight_are_one_event(hosts: Hosts):
    first = hosts.throttled(H, 100, None)
    for n in range(20):
        assert hosts.throttled(H, 100 + n, None) == first
    # also those that come back late, if it is known when they left
    assert hosts.throttled(H, first + 5, None, started=99) == first + 5
    assert hosts.due(H, first + 5) == 0


def test_one_in_flight_that_asks_for_longer_lengthens_the_pause(hosts: Hosts):
    hosts.throttled(H, 100, 5)
    assert hosts.throttled(H, 101, 3) == 105
    assert hosts.throttled(H, 101, 60) == 161


def test_asking_again_and_being_throttled_again_doubles_the_pause(hosts: Hosts):
    until = 0.0
    for due in (30, 60, 120):
        now = until
        until = hosts.throttled(H, now, None, started=now)
        assert due <= until - now <= due * 1.25


def test_the_level_is_forgiven_after_quiet(hosts: Hosts):
    until = hosts.throttled(H, 0, None)
    until = hosts.throttled(H, until, None, started=until)
    later = until + 1000
    assert 30 <= hosts.throttled(H, later, None, started=later) - later <= 37.5


# --- blocks ------------------------------------------------------------------------


def test_three_urls_in_a_row_that_end_blocked_pause_the_host(hosts: Hosts):
    assert hosts.blocked(H, 1) is None
    assert hosts.blocked(H, 2) is None
    pause = hosts.blocked(H, 3)
    assert pause.until == 3603
    assert "3 URLs in a row" in pause.reason
    assert hosts.due(H, 4) == 3603


def test_any_ok_or_gone_resets_the_count_and_other_answers_do_not(hosts: Hosts):
    hosts.blocked(H, 1)
    hosts.blocked(H, 2)
    hosts.answered(H, 3, good=False)
    assert hosts.blocks(H) == 2
    hosts.answered(H, 3)
    assert hosts.blocked(H, 4) is None
    assert hosts.blocks(H) == 1


def test_blocks_under_way_when_the_pause_began_get_it_and_do_not_lengthen_it(hosts: Hosts):
    for now in (1, 2, 3):
        hosts.blocked(H, now)
    assert hosts.blocked(H, 50).until == 3603


def block_three(hosts: Hosts) -> None:
    for now in (1, 2, 3):
        hosts.blocked(H, now)


def test_after_the_pause_one_probe_decides(hosts: Hosts):
    block_three(hosts)
    assert hosts.due(H, 3603) == 0
    hosts.sent(H, 3603)
    assert hosts.due(H, 3603) == math.inf
    pause = hosts.blocked(H, 3604)
    hosts.returned(H, 3604)
    assert pause.until == 7204


def test_a_probe_that_gets_through_opens_the_host(hosts: Hosts):
    block_three(hosts)
    hosts.sent(H, 3603)
    hosts.answered(H, 3604)
    assert hosts.due(H, 3604) == 0
    hosts.returned(H, 3604)
    assert hosts.blocks(H) == 0


def test_a_probe_that_says_nothing_lets_another_one_go(hosts: Hosts):
    block_three(hosts)
    hosts.sent(H, 3603)
    hosts.returned(H, 3610)
    assert hosts.due(H, 3610) == 0
    hosts.sent(H, 3610)
    assert hosts.due(H, 3610) == math.inf


# --- hosts that are down -----------------------------------------------------------


def fail(hosts: Hosts, url: str, now: float, exit_id: str | None = None):
    hosts.sent(H, now)
    pause = hosts.fault(H, url, exit_id, now)
    hosts.returned(H, now)
    return pause


def test_three_urls_that_get_no_answer_mean_that_the_host_is_down(hosts: Hosts):
    assert fail(hosts, "a", 0) is None
    assert fail(hosts, "b", 0) is None
    assert fail(hosts, "c", 0).until == 1
    assert hosts.due(H, 0.5) == 1


def test_one_url_that_gets_no_answer_says_nothing_of_its_host(hosts: Hosts):
    for now in range(10):
        assert fail(hosts, "a", now) is None
    assert hosts.due(H, 10) == 0


def test_through_proxies_two_exits_must_show_it(hosts: Hosts):
    for n, url in enumerate("abcdef"):
        assert fail(hosts, url, n, "exit 1") is None
    assert fail(hosts, "g", 7, "exit 2").until == 8


def test_with_one_exit_only_it_has_to_do():
    hosts = Hosts(HostRules(exits_needed=1), random.Random(1))
    for url in "ab":
        fail(hosts, url, 0, "exit 1")
    assert fail(hosts, "c", 0, "exit 1").until == 1


def test_an_answer_in_between_is_proof_of_life(hosts: Hosts):
    for n in range(5):
        fail(hosts, "a", n)
        fail(hosts, "b", n)
        hosts.answered(H, n, good=False)
    assert hosts.due(H, 9) == 0


def bring_down(hosts: Hosts, now: float = 0.0) -> None:
    for url in "abc":
        fail(hosts, url, now)


def test_probes_go_one_at_a_time_after_1_2_4_and_8_seconds_then_it_is_given_up(hosts: Hosts):
    bring_down(hosts)
    now = 0.0
    for wait in (1, 2, 4, 8):
        assert hosts.due(H, now) == now + wait
        assert not hosts.gave_up(H)
        now += wait
        assert hosts.due(H, now) == 0
        hosts.sent(H, now)
        assert hosts.due(H, now) == math.inf
        hosts.fault(H, "p", None, now)
        hosts.returned(H, now)
    assert hosts.gave_up(H)
    assert hosts.due(H, now) == 0


def give_up(hosts: Hosts) -> float:
    bring_down(hosts)
    for now in (1.0, 3.0, 7.0, 15.0):
        fail(hosts, "p", now)
    assert hosts.gave_up(H)
    return 15.0


def test_once_given_up_urls_are_asked_one_at_a_time_and_after_twenty_faults_it_is_paused(
    hosts: Hosts,
):
    now = give_up(hosts)
    for n in range(19):
        assert hosts.due(H, now) == 0
        hosts.sent(H, now)
        assert hosts.due(H, now) == math.inf
        assert hosts.fault(H, f"u{n}", None, now) is None
        hosts.returned(H, now)
    pause = fail(hosts, "u20", now)
    assert pause == (now + 3600, "host down")
    assert hosts.gave_up(H)
    assert hosts.due(H, now + 3600) == 0


def test_an_answer_after_giving_up_brings_the_host_back(hosts: Hosts):
    now = give_up(hosts)
    hosts.sent(H, now)
    hosts.answered(H, now)
    hosts.returned(H, now)
    assert not hosts.gave_up(H)


def test_an_answer_to_one_of_the_last_requests_ends_the_long_pause(hosts: Hosts):
    now = give_up(hosts)
    for n in range(20):
        fail(hosts, f"u{n}", now)
    hosts.answered(H, now)
    assert not hosts.gave_up(H)
    assert hosts.due(H, now) == 0


def test_a_host_that_is_back_is_released_gradually(hosts: Hosts):
    bring_down(hosts)
    hosts.sent(H, 1)
    hosts.answered(H, 1)
    hosts.returned(H, 1)
    for at_once in (2, 4, 8, 16):
        for _ in range(at_once):
            assert hosts.due(H, 2) == 0
            hosts.sent(H, 2)
        assert hosts.due(H, 2) == math.inf
        hosts.answered(H, 2)
        for _ in range(at_once):
            hosts.returned(H, 2)
    for _ in range(100):
        assert hosts.due(H, 2) == 0
        hosts.sent(H, 2)


def test_failures_that_left_before_the_pause_are_the_same_event(hosts: Hosts):
    for _ in range(40):
        hosts.sent(H, 0)
    for n in range(40):
        hosts.fault(H, f"u{n}", None, 0.1)
        hosts.returned(H, 0.1)
    assert hosts.due(H, 0.2) == pytest.approx(1.1)
    assert not hosts.gave_up(H)


def test_slow_failures_from_before_the_pause_do_not_hold_the_probe_back(hosts: Hosts):
    for _ in range(5):
        hosts.sent(H, 0)
    for url in "abc":
        hosts.fault(H, url, None, 3)
        hosts.returned(H, 3)
    assert hosts.due(H, 4) == 0  # two are still under way
    hosts.sent(H, 4)
    assert hosts.due(H, 4) == math.inf
    hosts.fault(H, "d", None, 5, started=0)
    assert hosts.due(H, 5) == math.inf
    hosts.fault(H, "probe", None, 6, started=4)
    hosts.returned(H, 6)
    assert hosts.due(H, 6) == 8


def outage(seed: int, *, at_once: int, down_for: float, every: float = 0.0):
    """50 URLs, 3 attempts each, full jitter with base 1 s, a host that refuses
    connections for ``down_for`` seconds. Gives how many end ok, and the time it took
    until all were through or left to a re-drive by a long pause. A retry spends
    budget only while the host does not count as down: an outage is no fault of the URL."""
    budget = RetryBudget(0.1, 10)
    rng = random.Random(seed)
    hosts = Hosts(HostRules(), rng)
    waiting = [(0.0, n, 0) for n in range(50)]
    under_way: list[tuple[float, int, int]] = []
    now, free_at, ok = 0.0, 0.0, 0
    while waiting or under_way:
        due = hosts.due(H, now)
        if now + 300 < due < math.inf:
            break
        room = len(under_way) < at_once and free_at <= now
        if waiting and waiting[0][0] <= now and due <= now and room:
            _, url, tries = heapq.heappop(waiting)
            hosts.sent(H, now)
            free_at = now + every
            heapq.heappush(under_way, (now + 0.02, url, tries + 1))
            continue
        if under_way and under_way[0][0] <= now:
            _, url, tries = heapq.heappop(under_way)
            if now > down_for:
                ok += 1
                hosts.answered(H, now)
            else:
                down = hosts.fault(H, str(url), None, now)
                if tries < 3 and not hosts.gave_up(H) and (down or budget.try_spend()):
                    delay = full_jitter(tries - 1, base=1, cap=60, rng=rng)
                    heapq.heappush(waiting, (now + delay, url, tries))
            hosts.returned(H, now)
            continue
        now += 0.01
    return ok, now


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("at_once", "every"), [(4, 0.25), (16, 0.0), (50, 0.0)])
def test_a_host_that_refuses_connections_for_five_seconds_costs_hardly_a_url(seed, at_once, every):
    """Field case B4: at least 90 % of the URLs must end ok."""
    ok, took = outage(seed, at_once=at_once, down_for=5.0, every=every)
    assert ok >= 45
    assert took < 30


def test_a_host_that_stays_down_ends_in_bounded_time():
    ok, took = outage(1, at_once=4, down_for=1e9, every=0.25)
    assert ok == 0
    assert took < 60


# --- between runs, and memory ------------------------------------------------------


def test_pauses_and_counts_survive_the_run(hosts: Hosts):
    hosts.throttled("a.test", 0, 100)
    for now in (1, 2, 3):
        hosts.blocked("b.test", now)
    hosts.blocked("c.test", 1)
    later = Hosts(HostRules(), random.Random(2))
    later.restore(hosts.snapshot(), 50)
    assert later.due("a.test", 50) == 100
    assert later.due("b.test", 50) == 3603
    later.sent("b.test", 4000)
    assert later.due("b.test", 4000) == math.inf
    assert later.blocks("c.test") == 1


def test_no_pause_is_taken_up_that_is_longer_than_the_settings_allow(hosts: Hosts):
    """The clock of the run that wrote it was a year ahead."""
    year = 365 * 86400.0
    hosts.throttled("a.test", year, 100)
    later = Hosts(HostRules(), random.Random(2))
    later.restore(hosts.snapshot(), 50)
    assert later.due("a.test", 50) == 50 + 3600


def test_idle_hosts_are_forgotten():
    hosts = Hosts(HostRules(most_hosts=10), random.Random(1))
    for n in range(1000):
        hosts.sent(f"h{n}", n)
        hosts.answered(f"h{n}", n)
        hosts.returned(f"h{n}", n)
    assert len(hosts._hosts) == 0
    for n in range(1000):
        hosts.blocked(f"h{n}", n)
    assert len(hosts._hosts) == 10


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["sent", "returned", "fault", "answered", "blocked", "throttled"]),
        st.integers(0, 5),
        st.sampled_from([0.0, 0.1, 1.0, 10.0, 4000.0]),
    ),
    max_size=80,
)


@given(STEPS)
def test_whatever_happens_a_host_never_waits_for_ever(steps):
    """Once everything has returned, a request may leave within the longest pause."""
    hosts = Hosts(HostRules(), random.Random(1))
    now, in_flight = 1000.0, 0
    for what, number, wait in steps:
        now += wait
        if what == "sent":
            if hosts.due(H, now) > now:
                continue
            in_flight += 1
            hosts.sent(H, now)
        elif what == "returned" and in_flight:
            in_flight -= 1
            hosts.returned(H, now)
        elif what == "fault":
            hosts.fault(H, f"u{number}", None, now)
        elif what == "answered":
            hosts.answered(H, now)
        elif what == "blocked":
            hosts.blocked(H, now)
        elif what == "throttled":
            hosts.throttled(H, now, number or None)
    for _ in range(in_flight):
        hosts.returned(H, now)
    assert hosts.due(H, now) <= now + 3600
    assert hosts.due(H, now + 3600) == 0
