"""``RETRYSCRAPE_STOP``: shares of the last attempts."""

from __future__ import annotations

import pytest

from retryscrape.policy.outcomes import Outcome
from retryscrape.policy.shares import Shares, StopRule, Window, parse_stop


def test_the_rule_as_documented() -> None:
    rule = parse_stop({"blocked": 0.5, "throttled": "0.9", "window": 100})
    assert rule == StopRule({Outcome.BLOCKED: 0.5, Outcome.THROTTLED: 0.9}, 100)
    assert parse_stop({"blocked": 1}).window == 200


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "must name an outcome"),
        ({"window": 5}, "must name an outcome"),
        ({"block": 0.5}, "has the key 'block'"),
        ({"ok": 0.5}, "has the key 'ok'"),
        ({"blocked": 0}, "a share above 0"),
        ({"blocked": 50}, "up to 1"),
        ({"blocked": True}, "a share above 0"),
        ({"blocked": 0.5, "window": 0.5}, "a whole number"),
    ],
)
def test_a_wrong_rule_is_named(given: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_stop(given)


def test_nothing_is_said_before_the_window_is_full() -> None:
    window = Window(parse_stop({"blocked": 0.5, "window": 4}))
    said = [window.add(Outcome.BLOCKED) for _ in range(4)]
    assert said[:3] == [None, None, None]
    assert said[3] == "100% of the last 4 attempts came to blocked (RETRYSCRAPE_STOP: 50%)"


def test_old_attempts_are_forgotten() -> None:
    window = Window(parse_stop({"blocked": 0.5, "window": 4}))
    for outcome in (Outcome.BLOCKED, Outcome.OK, Outcome.OK, Outcome.OK, Outcome.BLOCKED):
        assert window.add(outcome) is None
    assert window.add(Outcome.BLOCKED) is not None


def test_a_bad_host_among_good_ones_is_paused_and_the_run_goes_on() -> None:
    shares = Shares(parse_stop({"blocked": 0.5, "window": 4}))
    told = []
    for _ in range(4):
        told += [shares.add("good.test", Outcome.OK) for _ in range(3)]
        told.append(shares.add("bad.test", Outcome.BLOCKED))
    assert [stop for stop, _ in told if stop] == []
    assert len([pause for _, pause in told if pause]) == 1


def test_without_a_rule_nothing_is_counted() -> None:
    assert Shares(None).add("a.test", Outcome.BLOCKED) == (None, None)


def test_hosts_are_bounded() -> None:
    shares = Shares(parse_stop({"blocked": 0.5, "window": 4}), most_hosts=2)
    for host in "abcd":
        shares.add(host, Outcome.OK)
    assert len(shares._hosts) == 2
