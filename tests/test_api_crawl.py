"""Real crawls that buy what they cannot get: once, whatever the scraping API does."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from typing import Any

import pytest

from retryscrape.ledger.store import Ledger
from tests.commandline import *  # noqa: F403
from tests.commandline import Done, Project
from tests.hostile_fixture import *  # noqa: F403
from tests.ledger_makers import fill, success

KEY = "k3y-that-nobody-may-see"
Buy = Callable[..., Done]


def declared(web: Any, kind: str = "tasks", **more: Any) -> str:
    """A declaration with short times."""
    quick = {"poll": 0.05, "stale": 0.3, "jitter": [0.05, 0.1], "deadline": 1.5}
    return json.dumps({"kind": kind, "base": web.addresses["api"], **quick, **more})


@pytest.fixture
def buy(web: Any, project: Project, monkeypatch: pytest.MonkeyPatch) -> Buy:
    """A crawl whose ladder is the scraping API alone; its output never shows the key."""
    monkeypatch.setenv("RETRYSCRAPE_API_KEY", KEY)

    def crawl(urls: list[str], *, settings: dict[str, str] | None = None, **more: Any) -> Done:
        wanted = {"RETRYSCRAPE_LADDER": "api", "RETRYSCRAPE_API": declared(web, **more)}
        done = project.crawl(project.manifest("m.txt", urls), settings=wanted | (settings or {}))
        assert KEY not in done.err + done.out
        for path in project.out.rglob("*"):
            assert not path.is_file() or KEY.encode() not in path.read_bytes(), path
        assert "Traceback" not in done.err, done.err
        return done

    return crawl


def attempts(project: Project) -> list[tuple[Any, ...]]:
    return project.sql("SELECT outcome, cost, mode FROM attempts ORDER BY url, n")


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


FAULTS = {
    # path of the URL: what its row comes to, and how often it is paid for
    "/1": ("ok", 1),
    "/2?api=refuse&times=2": ("ok", 1),
    "/3?api=busy": ("ok", 1),
    "/4?api=reset": ("ok", 2),
    "/5?api=silent": ("ok", 2),
    "/6?api=noid": ("ok", 2),
    "/7?api=lost": ("ok", 2),
    "/8?api=stumble": ("ok", 1),
    "/9?api=fail": ("ok", 2),
    "/10?api=fail500&times=9": ("over_budget", 2),
    "/11?api=garbage": ("ok", 2),
    "/12?api=reject": ("rejected", 0),
    "/13?page=gone": ("gone", 1),
    "/14?page=blocked": ("blocked", 1),
    "/15?page=empty": ("empty", 1),
    "/16?page=thin": ("invalid", 1),
    "/17?api=never": ("no_result", 1),
    "/18?api=refuse&times=99": ("api_error", 0),
}


def test_every_fault_of_an_api_ends_as_a_row_and_costs_what_it_must(
    web: Any, project: Project, buy: Buy
) -> None:
    urls = {f"http://shop.test{path}": wanted for path, wanted in FAULTS.items()}
    settings = {"RETRYSCRAPE_HOST_BLOCKS": "9", "RETRYSCRAPE_URL_BUDGET": "2"}
    done = buy(list(urls), settings=settings)
    assert done.code == 1, done.err
    rows = dict(project.sql("SELECT url, outcome FROM entries"))
    bill = web.api()["bill"]
    assert {url: (rows[url], bill.get(url, 0)) for url in urls} == urls
    assert not web.requests(), "nothing goes to the site itself"
    # a task whose order was not answered is one that nobody can know of while it lasts
    unknown = sum(word in url for url in urls for word in ("reset", "silent", "noid", "garbage"))
    assert web.api()["seen"]["at_once"] <= 5 + unknown, "the plan's slots"
    lost = [line for line in done.err.splitlines() if "was lost" in line]
    again = [line for line in done.err.splitlines() if "never turned up" in line]
    assert len(lost) == len(again) == 3
    costs = dict(project.sql("SELECT url, cost FROM entries WHERE outcome <> 'rejected'"))
    assert costs["http://shop.test/1"] == 1
    assert costs["http://shop.test/9?api=fail"] == 2, "a failure may be billed, too"
    assert costs["http://shop.test/10?api=fail500&times=9"] == 2
    assert ("ok", 1.0, "request") in attempts(project)


def test_only_the_residue_is_bought_in_the_mode_that_the_rung_names(
    web: Any, project: Project, buy: Buy
) -> None:
    """The plain rung gets what it can; a challenge, and a blocked JSON, go on to the API."""
    urls = [web.url(path) for path in ("/ok/1", "/forbidden/1?ms=1500", "/json403/1?ms=1500")]
    settings = {"RETRYSCRAPE_LADDER": "http,api:browser:GB", "CONCURRENT_REQUESTS": "1"}
    done = buy(urls, settings=settings, deadline=60)
    assert done.code == 0, done.err
    assert set(web.api()["bill"]) == set(urls[1:])
    assert web.api()["seen"]["at_once"] == 2, "tasks take no place of CONCURRENT_REQUESTS"
    (body, _) = web.api()["bodies"]
    assert body | {"url": ""} == {
        "url": "", "mode": "browser", "proxy_country": "GB", "async": True, "delivery": "json",
        "include_content": True, "capture_headers": True,
    }  # fmt: skip
    rows = project.sql("SELECT rung, cost, mode FROM attempts WHERE task IS NOT NULL")
    assert rows == [("api:browser:GB", 5.0, "browser")] * 2
    assert project.sql("SELECT cost FROM entries WHERE url = ?", urls[1]) == [(7.0,)]


BATCH_FAULTS = {
    "/1": ("ok", 1),
    "/2?api=absent": ("ok", 2),
    "/3?api=broken": ("ok", 2),
    "/4?api=doubled": ("ok", 1),
    "/5?api=stranger&times=99": ("ok", 1),
    "/6?page=thin": ("invalid", 1),
    "/7?page=empty": ("empty", 1),
    "/8?page=gone": ("gone", 1),
    "/9?api=reject&times=99": ("rejected", 0),
}


def test_a_redrive_through_an_api_buys_its_worklist_in_chunks(
    web: Any, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is missing, and nothing else; one bad URL does not take the others with it."""
    monkeypatch.setenv("RETRYSCRAPE_API_KEY", KEY)
    urls = {f"http://shop.test{path}": wanted for path, wanted in BATCH_FAULTS.items()}
    with Ledger.open(str(project.out / "ledger.db")) as ledger:
        fill(ledger, [*urls, "http://shop.test/done"], batch_id="m")
        ledger.write([success("http://shop.test/done", batch_id="m", passes=1)])
    words = ("redrive", "m", "--through", "api", "--spider", "pages", "--no-reconcile")
    done = project.scrapy(*words, settings={"RETRYSCRAPE_API": declared(web, "batches", chunk=5)})
    rows = dict(project.sql("SELECT url, outcome FROM entries"))
    seen = web.api()
    assert {url: (rows[url], seen["bill"].get(url, 0)) for url in urls} == urls, done.err
    assert "http://shop.test/done" not in seen["bill"]
    assert max(seen["sizes"]) <= 5
    ordered = [one for body in seen["bodies"] for one in body["requests"]]
    assert {"url": "http://shop.test/1", "formats": ["html"]} in ordered
    assert "A result for a URL that was not asked for: http://stranger.test/" in done.err
    assert "1 absent" in done.err
    assert KEY not in done.err


HOOKED = {
    "/1": 1,
    "/2?api=early": 1,
    "/3?api=twice": 1,
    "/4?api=forged": 1,
    # the event brings the id that the lost answer would have brought
    "/5?api=reset": 1,
    "/6?api=silent": 1,
}


def test_events_say_when_to_read_and_bring_back_orders_whose_answer_was_lost(
    web: Any, project: Project, buy: Buy
) -> None:
    """Without events nobody would look for 10 s, and lost orders would be placed again."""
    port = free_port()
    hook = {"port": port, "url": f"http://127.0.0.1:{port}/in"}
    urls = {f"http://shop.test{path}": times for path, times in HOOKED.items()}
    done = buy(list(urls), webhook=hook, poll=1, stale=200, deadline=300)
    assert done.code == 0, done.err
    seen = web.api()
    assert seen["bill"] == urls
    assert seen["events"].count(401) == 1
    assert seen["events"].count(202) >= 6
    assert "secret" in seen["bodies"][0]["webhook"]
    assert seen["bodies"][0]["webhook"]["secret"] not in done.err
    assert project.sql("SELECT count(*) FROM events") == [(6,)]


@pytest.mark.parametrize("key", ["wrong", "poor"])
def test_a_key_that_is_no_good_stops_the_run_and_loses_nothing(
    web: Any, project: Project, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    """401 and 402: one sentence, exit code 1, all that is open in the feed."""
    monkeypatch.setenv("RETRYSCRAPE_API_KEY", key)
    urls = [f"http://shop.test/{n}" for n in range(30)]
    settings = {"RETRYSCRAPE_LADDER": "api", "RETRYSCRAPE_API": declared(web)}
    done = project.crawl(project.manifest("m.txt", urls), settings=settings)
    assert done.code == 1, done.err
    assert "Traceback" not in done.err
    assert done.err.count("The run stops:") == 1
    feed = project.feed("m")
    last = [line for line in feed if "from_line" in line]
    unread = set(urls[last[0]["from_line"] - 1 :]) if last else set()
    assert {line["url"] for line in feed if "url" in line} | unread == set(urls)
    assert all(line["error_class"] != "permanent" for line in feed if "url" in line)
    assert not web.api()["bill"]
