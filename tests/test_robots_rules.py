"""How many hosts' robots.txt are remembered."""

from __future__ import annotations

import pytest
from twisted.internet.defer import Deferred

from retryscrape.crawl import robots
from retryscrape.crawl.robots import Rules


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(robots, "MOST", 3)


def test_the_hosts_that_were_settled_first_go_first() -> None:
    rules = Rules()
    for host in "abcde":
        rules[host] = None
    assert list(rules) == ["c", "d", "e"]


def test_what_is_on_its_way_stays_and_what_has_just_come_too() -> None:
    rules = Rules()
    for host in "abcd":
        rules[host] = Deferred()
    rules["a"] = None
    assert list(rules) == ["b", "c", "d", "a"]
    rules["e"] = Deferred()
    assert list(rules) == ["b", "c", "d", "e"]
