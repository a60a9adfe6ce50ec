"""The ladder, and what is learned about a host's rung."""

import random

import pytest

from retryscrape.policy.ladder import Ladder, Learner, Rung, parse_rung

NAMES = ("http", "http:residential", "browser:residential:gb")
FULL = Ladder(NAMES, frozenset({"http", "browser"}))
PLAIN = Ladder(NAMES, frozenset({"http"}))
TWO = Ladder(("http", "browser"), frozenset({"http", "browser"}))


def test_a_rung_names_base_tier_and_country():
    assert parse_rung("http") == Rung("http", "http", None, None)
    assert parse_rung("browser:residential:gb")[1:] == ("browser", "residential", "GB")
    assert parse_rung("browser::de")[1:] == ("browser", None, "DE")


@pytest.mark.parametrize("names", [(), ("http", "http"), ("",), ("a:b:c:d",)])
def test_a_wrong_ladder_is_refused(names):
    with pytest.raises(ValueError, match=r"ladder|rung"):
        Ladder(names, frozenset({"http"}))


def test_steps_skip_what_is_not_available():
    assert FULL.next("http") == "http:residential"
    assert FULL.next("http:residential") == "browser:residential:gb"
    assert FULL.next("browser:residential:gb") is None
    assert PLAIN.next("http:residential") is None
    assert PLAIN.is_last_available("http:residential")
    assert not PLAIN.last("http:residential")
    assert FULL.last("browser:residential:gb")
    assert FULL.lower("browser:residential:gb") == "http:residential"


def starts(learner: Learner, host: str, now: float, times: int = 2000) -> dict[str, int]:
    rng = random.Random(7)
    found = [learner.start_rung(host, now, rng) for _ in range(times)]
    return {rung: found.count(rung) for rung in set(found)}


def needed(learner: Learner, rung: str, now: float, started: str = "http") -> None:
    """A URL that began on one rung and got its page from another."""
    learner.goes_on("h", started, rung)
    learner.success("h", rung, now, started=started)


def test_one_stray_403_moves_nothing():
    learner = Learner(TWO)
    learner.success("h", "http", 0)
    needed(learner, "browser", 1)
    learner.success("h", "http", 2)
    needed(learner, "browser", 3)
    assert starts(learner, "h", 4) == {"http": 2000}


def test_three_of_five_move_the_host_up_and_one_in_twenty_probes_below():
    learner = Learner(TWO)
    for n, rung in enumerate(("browser", "http", "browser", "http", "browser")):
        needed(learner, rung, n)
    counts = starts(learner, "h", 10)
    assert counts["http"] == pytest.approx(100, abs=30)
    assert starts(learner, "other", 10) == {"http": 2000}


def moved_up() -> Learner:
    learner = Learner(TWO, learn=100)
    for n in range(3):
        needed(learner, "browser", n)
    return learner


def test_it_is_forgotten_after_learn_seconds_unless_it_is_seen_again():
    learner = moved_up()
    assert "browser" in starts(learner, "h", 101)
    needed(learner, "browser", 101)
    assert "browser" in starts(learner, "h", 200)
    assert starts(learner, "h", 202) == {"http": 2000}


def test_working_on_the_remembered_rung_is_no_proof_that_it_is_needed():
    learner = moved_up()
    for n in range(3, 100):
        learner.success("h", "browser", n, started="browser")
    assert starts(learner, "h", 103) == {"http": 2000}


def test_two_cheap_probes_in_a_row_move_the_host_down():
    learner = moved_up()
    learner.success("h", "http", 10, started="http")
    assert starts(learner, "h", 11)["browser"] > 500
    learner.success("h", "http", 12, started="http")
    assert starts(learner, "h", 13) == {"http": 2000}


def test_a_lucky_probe_followed_by_a_failed_one_changes_nothing():
    learner = moved_up()
    learner.success("h", "http", 10, started="http")
    needed(learner, "browser", 11)
    learner.success("h", "http", 12, started="http")
    assert "browser" in starts(learner, "h", 13)


def test_a_remembered_rung_that_is_not_available_gives_the_next_best():
    learner = Learner(Ladder(("http", "browser"), frozenset({"http"})))
    learner.restore(moved_up().snapshot())
    assert starts(learner, "h", 5) == {"http": 2000}


def test_pages_that_come_in_last_are_not_taken_for_the_rule():
    learner = Learner(TWO)
    for n in range(200):
        if n % 20:
            learner.success("h", "http", n, started="http")
        else:
            learner.goes_on("h", "http", "browser")
    for n in range(200, 210):
        learner.success("h", "browser", n, started="http")
    assert starts(learner, "h", 300) == {"http": 2000}
    for n in range(300, 306):  # the site has changed
        needed(learner, "browser", n)
    assert starts(learner, "h", 310)["browser"] > 1500


def test_what_was_learned_survives_the_run():
    learner = Learner(TWO, learn=100)
    learner.restore(moved_up().snapshot())
    assert starts(learner, "h", 50) == starts(moved_up(), "h", 50)
    assert starts(learner, "h", 500) == {"http": 2000}


def test_hosts_that_never_needed_more_take_no_memory_and_the_others_are_bounded():
    learner = Learner(TWO, most_hosts=10)
    for n in range(100):
        learner.success(f"h{n}", "http", 0)
    assert learner.snapshot() == []
    for n in range(100):
        learner.success(f"h{n}", "browser", 0, started="http")
    assert len(learner.snapshot()) == 10
