"""Real crawls with tiers, prices and a run's budget."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from retryscrape.crawl.rungs import Rungs
from tests.commandline import Project, project, until

pytest_plugins = ("tests.hostile_fixture",)
__all__ = ["project"]

NONE_SPARED = {"CONCURRENT_REQUESTS": "4", "CONCURRENT_REQUESTS_PER_DOMAIN": "4"}


def pages(web: Any, number: int, path: str = "/small/") -> list[str]:
    return [web.url(f"{path}{n}", host="shop.test") for n in range(number)]


def test_a_run_stops_when_its_price_units_are_spent_and_a_redrive_goes_on(
    web: Any, project: Project, proxies_file: Any
) -> None:
    """20 units are 10 attempts, however many are under way at once."""
    settings = {**NONE_SPARED, "RETRYSCRAPE_PROXIES": str(proxies_file("good1", "good2"))}
    manifest = project.manifest("m.txt", pages(web, 30))
    done = project.crawl(manifest, settings={**settings, "RETRYSCRAPE_RUN_BUDGET": "20"})
    assert done.code == 1, done.err
    assert len(web.requests(host="shop.test", path="/small/*")) == 10
    assert "Stopped early: the run's budget of 20 price units is spent" in done.err
    feed = project.feed("m")
    assert len(feed) == 20
    assert {row["outcome"] for row in feed} == {"over_budget"}
    assert {row["error_class"] for row in feed} == {"retryable"}
    assert all("budget of 20 price units" in row["reason"] for row in feed)
    assert {(row["attempts"], row["passes"]) for row in feed} == {(0, 0)}
    assert project.sql("SELECT finish_reason FROM jobs") == [("over_budget",)]
    again = project.crawl(project.out / "m" / "failures.jsonl", settings=settings)
    assert again.code == 0, again.err
    assert project.feed("m") == []


def test_what_remains_but_buys_no_attempt_ends_the_run(web: Any, project: Project) -> None:
    manifest = project.manifest("m.txt", [web.url(f"/small/{n}") for n in range(6)])
    done = project.crawl(manifest, settings={"RETRYSCRAPE_RUN_BUDGET": "5"})
    assert done.code == 1
    assert len(web.requests(path="/small/*")) == 2
    assert "1 are left, and an attempt costs 2" in done.err


def test_bytes_of_a_tier_are_counted_and_end_the_run(
    web: Any, project: Project, proxies_file: Any
) -> None:
    file = proxies_file("good1")
    file.write_text(file.read_text().strip() + " tier=residential\n")
    manifest = project.manifest("m.txt", pages(web, 20, "/medium/"))
    done = project.crawl(
        manifest,
        settings={
            **NONE_SPARED,
            "RETRYSCRAPE_PROXIES": str(file),
            "RETRYSCRAPE_RUN_BUDGET": "1000,residential=60kB",
        },
    )
    assert done.code == 1
    assert "budget of 60000 bytes for tier 'residential' is spent" in done.err
    assert 3 <= len(web.requests(host="shop.test", path="/medium/*")) <= 12


def test_the_dearer_tier_is_used_for_what_the_cheap_one_cannot_get(
    web: Any, project: Project, proxies_file: Any
) -> None:
    """Exits of a tier that a rung names are kept for it, and their price is on the row."""
    file = proxies_file("good1")
    file.write_text(
        f"{web.proxy('good1')} tier=dc\n{web.proxy('good2')} tier=residential country=GB cost=3\n"
    )
    web.set_host("shop.test", "banned", clients=[web.exit("good1")])
    manifest = project.manifest("m.txt", pages(web, 2))
    done = project.crawl(
        manifest,
        settings={
            "RETRYSCRAPE_PROXIES": str(file),
            "RETRYSCRAPE_LADDER": "http,http:residential:GB,http:mobile",
        },
    )
    assert done.code == 0, done.err
    assert done.err.count("Rung http:mobile is unavailable: no proxy has tier mobile") == 1
    rows = project.sql("SELECT rung, outcome, cost FROM attempts ORDER BY url, n")
    assert set(rows) == {("http", "blocked", 2.0), ("http:residential:GB", "ok", 5.0)}


def test_a_ladder_of_which_no_rung_has_exits_is_a_usage_error(web: Any, project: Project) -> None:
    manifest = project.manifest("m.txt", [web.url("/small/1")])
    done = project.crawl(manifest, settings={"RETRYSCRAPE_LADDER": "http:residential"})
    assert done.code == 2
    assert "RETRYSCRAPE_LADDER: no rung can be used: it needs proxies" in done.err
    assert web.requests() == []


@pytest.mark.parametrize("text", ["much", "tier=5", "-3"])
def test_a_wrong_run_budget_is_a_usage_error(project: Project, web: Any, text: str) -> None:
    manifest = project.manifest("m.txt", [web.url("/small/1")])
    done = project.crawl(manifest, settings={"RETRYSCRAPE_RUN_BUDGET": text})
    assert done.code == 2
    assert "RETRYSCRAPE_RUN_BUDGET" in done.err
    assert "Traceback" not in done.err


def test_rungs_without_proxies_are_those_that_name_none(caplog: pytest.LogCaptureFixture) -> None:
    rungs = Rungs(("http", "http:residential", "browser"))
    for now in (0.0, 1.0):  # it is said once
        rungs.look(None, now)
    (said,) = caplog.messages
    assert said.startswith("Rung http:residential is unavailable: it needs proxies")
    assert rungs.ladder.available == {"http", "browser"}


def test_a_run_that_only_meets_blocks_is_stopped(web: Any, project: Project) -> None:
    web.set_host("127.0.0.1", "banned", share=1)
    manifest = project.manifest("m.txt", [web.url(f"/small/{n}") for n in range(40)])
    done = project.crawl(
        manifest,
        settings={
            **NONE_SPARED,
            "RETRYSCRAPE_HOST_BLOCKS": "1000",
            "RETRYSCRAPE_STOP": '{"blocked": 0.5, "window": 10}',
        },
    )
    assert done.code == 1
    assert "Stopped early: 100% of the last 10 attempts came to blocked" in done.err
    assert len(web.requests(path="/small/*")) < 20
    assert len(project.feed("m")) == 40


def test_a_changed_proxies_file_is_taken_up_while_the_run_goes_on(
    web: Any, project: Project, proxies_file: Any
) -> None:
    file = proxies_file("good1")
    manifest = project.manifest("m.txt", pages(web, 400))
    started = project.start(
        "crawl",
        "pages",
        "-a",
        f"manifest={manifest}",
        settings={
            "RETRYSCRAPE_PROXIES": str(file),
            "CONCURRENT_REQUESTS": "1",
            "DOWNLOAD_DELAY": "0.1",
        },
    )
    until(lambda: web.requests(host="shop.test", client=web.exit("good1")))
    file.write_text("socks5://me:s3cr3t@127.0.0.1:1\n")
    until(lambda: "The proxies stay as they are" in started.said())
    file.write_text(web.proxies("auth1"))
    until(lambda: web.requests(host="shop.test", client=web.exit("auth1")))
    assert "The proxies file has changed: 1 added, 1 removed" in started.said()
    assert "s3cr3t" not in started.said()
    started.send_signal(signal.SIGTERM)
    started.wait()


def users(web: Any, proxy: str) -> list[str]:
    """The user names that a proxy was given, in order."""
    asked = [one for tunnel in web.connections(proxy) for one in tunnel["requests"]]
    return [one["credentials"].partition(":")[0] for one in asked]


@pytest.mark.parametrize(("sticky", "different"), [("", 3), (" sticky=url", 1)])
def test_a_session_token_is_fresh_for_each_attempt_or_each_url(
    web: Any, project: Project, proxies_file: Any, sticky: str, different: int
) -> None:
    """Three attempts of one URL that never works."""
    file = proxies_file("sticky")
    line = web.proxy("sticky").replace("http://", "http://u-{session}:s3cr3t@")
    file.write_text(f"{line}{sticky}\n")
    manifest = project.manifest("m.txt", [web.url("/status/500", host="shop.test")])
    done = project.crawl(manifest, settings={"RETRYSCRAPE_PROXIES": str(file)})
    assert "s3cr3t" not in done.err
    given = users(web, "sticky")
    assert len(given) == 3
    assert len(set(given)) == different
    assert not any("{session}" in user for user in given)
    exits = {one["client"] for one in web.requests(host="shop.test")}
    assert len(exits) == different


def test_each_retry_takes_a_new_connection_to_a_gateway(
    web: Any, project: Project, proxies_file: Any
) -> None:
    """One address, a new exit for each connection: a retry on the old one would meet the
    same exit again."""
    manifest = project.manifest("m.txt", [web.url("/status/500", host="shop.test")])
    project.crawl(manifest, settings={"RETRYSCRAPE_PROXIES": str(proxies_file("gateway"))})
    assert len({one["client"] for one in web.requests(host="shop.test")}) == 3


def test_what_an_exit_takes_counts_before_the_attempt_leaves(web: Any, project: Project) -> None:
    """The budget of a URL, too: its first attempt may be more than it has."""
    proxies = project.folder / "proxies.txt"
    proxies.write_text(f"{web.proxy('good1')} tier=fine cost=9\n")
    urls = ["http://shaky.test/status/500/1"]
    settings = {"RETRYSCRAPE_PROXIES": str(proxies), "RETRYSCRAPE_RUN_BUDGET": "500,dear=1GB"}
    done = project.crawl(project.manifest("m.txt", urls), settings=settings)
    rows = "SELECT outcome, error_class, http_code, reason, attempts, cost FROM entries"
    assert project.sql(rows) == [("over_budget", "retryable", 500, "status 500", 1, 11.0)], done.err
    assert "limits the tier 'dear', and no proxy is of it" in done.err

    tight = {**settings, "RETRYSCRAPE_URL_BUDGET": "10"}
    project.crawl(project.manifest("n.txt", urls), settings=tight)
    reason = "an attempt costs 11 price units, and 10 of RETRYSCRAPE_URL_BUDGET are left"
    assert project.sql(f"{rows} WHERE batch_id = 'n'") == [
        ("over_budget", "retryable", None, reason, 0, 0.0)
    ]
