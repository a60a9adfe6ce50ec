"""Percent stops, an exit's share and interval, and tiers of the browser rung, by real crawls."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime
from itertools import pairwise
from typing import Any

from tests.commandline import Project, project

pytest_plugins = ("tests.hostile_fixture",)
__all__ = ["project"]


def pages(host: str, number: int, path: str = "/ok/{}") -> list[str]:
    return [f"http://{host}{path.format(n)}" for n in range(number)]


def gaps(web: Any, host: str) -> dict[str, list[float]]:
    """Seconds between two requests of one address to a host."""
    times: dict[str, list[float]] = defaultdict(list)
    for request in web.requests(host=host):
        times[request["client"]].append(request["time"])
    return {one: [b - a for a, b in pairwise(seen)] for one, seen in times.items()}


def test_a_host_of_which_too_much_is_blocked_is_paused_and_others_go_on(
    web: Any, project: Project, proxies_file: Any
) -> None:
    mixed = [*zip(pages("closed.test", 30), pages("shop.test", 30), strict=True)]
    urls = [url for pair in mixed for url in pair] + pages("shop.test", 60)[30:]
    manifest = project.manifest("m.txt", urls)
    done = project.crawl(
        manifest,
        settings={
            "RETRYSCRAPE_PROXIES": str(proxies_file("good1", "good2")),
            "RETRYSCRAPE_STOP": '{"blocked": 0.9, "window": 10}',
            "RETRYSCRAPE_HOST_BLOCKS": "1000",
            "CONCURRENT_REQUESTS_PER_DOMAIN": "2",
        },
    )
    assert done.code == 1
    assert "closed.test: paused for 3600 s, 100% of the last 10 attempts" in done.err
    assert project.sql("SELECT count(*) FROM entries WHERE outcome = 'ok'") == [(60,)]
    assert 10 <= len(web.requests(host="closed.test")) <= 14
    parked = "SELECT count(*) FROM entries WHERE host = 'closed.test' AND not_before IS NOT NULL"
    assert project.sql(parked)[0][0] >= 20
    assert project.sql("SELECT finish_reason FROM jobs") == [("finished",)]


def test_a_run_of_which_too_much_is_blocked_stops(
    web: Any, project: Project, proxies_file: Any
) -> None:
    hosts = [f"closed{n}.test" for n in range(10)]
    for host in hosts:
        web.set_host(host, "closed")
    urls = [url for host in hosts for url in pages(host, 5)]
    done = project.crawl(
        project.manifest("m.txt", urls),
        settings={
            "RETRYSCRAPE_PROXIES": str(proxies_file("good1", "good2")),
            "RETRYSCRAPE_STOP": '{"blocked": 0.5, "window": 20}',
            "CONCURRENT_REQUESTS": "4",
        },
    )
    assert done.code == 1
    assert "Stopped early: 100% of the last 20 attempts came to blocked" in done.err
    assert project.sql("SELECT finish_reason FROM jobs") == [("stop_rule",)]
    assert 20 <= len(web.requests(path="/ok/*")) <= 26
    feed = project.feed("m")
    assert len(feed) == 50
    # those that were asked once when the run stopped are as they were
    assert {row["error_class"] for row in feed} <= {None, "retryable"}


def test_an_exit_carries_no_more_than_its_share_while_others_are_free(
    web: Any, project: Project, proxies_file: Any
) -> None:
    done = project.crawl(
        project.manifest("m.txt", pages("shop.test", 12, "/ok/{}?ms=150")),
        settings={
            "RETRYSCRAPE_PROXIES": str(proxies_file("good1", "good2")),
            "RETRYSCRAPE_EXIT_CONCURRENCY": "1",
            "CONCURRENT_REQUESTS": "2",
        },
    )
    assert done.code == 0, done.err
    found = gaps(web, "shop.test")
    assert len(found) == 2
    assert min(map(min, found.values())) >= 0.14


def test_the_least_interval_of_an_exit_on_a_host_is_kept(
    web: Any, project: Project, proxies_file: Any
) -> None:
    done = project.crawl(
        project.manifest("m.txt", pages("shop.test", 8) + pages("other.test", 8)),
        settings={
            "RETRYSCRAPE_PROXIES": str(proxies_file("good1", "good2")),
            "RETRYSCRAPE_EXIT_INTERVAL": "0.3",
        },
    )
    assert done.code == 0, done.err
    # by our own times: what the target sees is unsteady, and the interval is kept where they leave
    sql = (
        "SELECT exit, host, started_at FROM attempts JOIN entries USING (batch_id, url) ORDER BY 3"
    )
    left: dict[Any, list[float]] = defaultdict(list)
    for exit_, host, started in project.sql(sql):
        left[exit_, host].append(datetime.fromisoformat(started).timestamp())
    assert len(left) == 4
    assert min(b - a for times in left.values() for a, b in pairwise(times)) >= 0.29


def test_a_browser_rung_of_a_tier_leaves_through_that_tier_alone(
    web: Any, project: Project, tmp_path: Any
) -> None:
    file = tmp_path / "proxies.txt"
    file.write_text(f"{web.proxy('good1')} tier=dc\n{web.proxy('auth1')} tier=residential\n")
    done = project.crawl(
        project.manifest("m.txt", pages("walled.test", 2)),
        settings={
            "RETRYSCRAPE_PROXIES": str(file),
            "RETRYSCRAPE_LADDER": "http,browser:residential",
        },
    )
    assert done.code == 0, done.err
    rungs = project.sql("SELECT rung, exit, outcome FROM attempts")
    tiers = {(rung, "u***" in exit_) for rung, exit_, _ in rungs}
    assert tiers == {("http", False), ("browser:residential", True)}
    for request in web.requests(host="walled.test"):
        agent = {name.lower(): value for name, value in request["headers"]}["user-agent"]
        browser = request["client"] == web.exit("auth1")
        assert browser == ("Mozilla" in agent)
