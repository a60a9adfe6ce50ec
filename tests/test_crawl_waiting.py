"""Waiting, measured where it counts: at the server. No slot is held, no due time is missed."""

from __future__ import annotations

import contextlib
import signal
import sqlite3
import time

import pytest

from tests.commandline import *  # noqa: F403
from tests.commandline import Project, until
from tests.hostile_fixture import *  # noqa: F403

#: What a due time may be missed by (the contract says 50 ms on a quiet machine; tests run
#: beside others on two cores).
LATE = 0.5


def times(web, path: str, host: str | None = None) -> list[float]:
    where = {"host": host} if host else {}
    return [request["time"] for request in web.requests(path=path, **where)]


def outcomes(project: Project) -> dict[str, int]:
    return dict(project.sql("SELECT outcome, count(*) FROM entries GROUP BY 1"))


def test_one_host_waits_and_another_goes_on_at_full_speed(web, project: Project) -> None:
    """Two URLs wait 4 s; 120 pages of another host meanwhile; only two downloads at once (B2)."""
    held = [web.url(f"/throttle/{n}?after=4&times=1", "127.0.0.2") for n in (1, 2)]
    quick = [web.url(f"/ok/{n}", "127.0.0.1") for n in range(120)]
    manifest = project.manifest("m.txt", [*held, *quick])
    done = project.crawl(manifest, settings={"CONCURRENT_REQUESTS": "2"})
    assert done.code == 0, done.err
    assert outcomes(project) == {"ok": 122}
    first, *_, last = times(web, "/throttle/*")
    assert last - first >= 4.0
    again = sorted(times(web, "/throttle/*"))[2:]
    assert len(again) == 2  # each URL once more, and not before
    assert all(moment - first >= 4.0 for moment in again)
    assert max(times(web, "/ok/*")) < first + 4.0  # nothing stood behind those who waited


@pytest.mark.parametrize(
    ("query", "least"),
    [
        ("after=2", 2),
        ("after=1.5", 2),  # fractions are rounded up (B6)
        ("after=1,2&form=two", 2),  # the largest of two (B7)
        ("after=2&form=imf", 2),
        ("after=2&form=imf&skew=-3600", 2),  # measured against the response's Date (B9)
    ],
)
def test_a_single_url_keeps_the_spider_open_until_its_time(web, project, query, least) -> None:
    manifest = project.manifest("m.txt", [web.url(f"/throttle/1?{query}&times=1")])
    done = project.crawl(manifest)
    assert done.code == 0, done.err
    first, second = times(web, "/throttle/*")
    # a date has whole seconds: it may come out one longer
    assert least <= second - first < least + (1 if "form=i" in query else 0) + LATE
    assert project.sql("SELECT attempts, outcome FROM entries") == [(2, "ok")]
    ((waited,),) = project.sql("SELECT waited FROM attempts WHERE n = 2")
    assert waited == pytest.approx(second - first, abs=LATE)


@pytest.mark.parametrize("after", ["86400", "9999999999", "1e10", "9" * 24, "400"])
def test_a_wait_that_nobody_waits_for_is_parked(web, project: Project, after: str) -> None:
    """B5: neither waited for nor asked early; ``not_before`` is finite; the text is kept."""
    manifest = project.manifest(
        "m.txt", [web.url(f"/throttle/1?after={after}"), web.url("/ok/other"), web.url("/ok/3")]
    )
    begun = time.time()
    done = project.crawl(
        manifest, settings={"CONCURRENT_REQUESTS": "1", "RETRYSCRAPE_THROTTLE_BASE": "301"}
    )
    assert done.code == 1, done.err
    assert "Traceback" not in done.err
    assert len(times(web, "/throttle/*")) == 1
    row = project.sql(
        "SELECT outcome, error_class, not_before, reason FROM entries WHERE url LIKE '%throttle%'"
    )[0]
    assert row[:2] == ("throttled", "backoff_required")
    assert 0 < row[2] - begun <= 30 * 86400 + 600
    assert f"Retry-After: {after}" in row[3]
    again = project.crawl(project.out / "m" / "failures.jsonl")
    assert len(times(web, "/throttle/*")) == 1  # a re-drive before its time leaves it parked
    assert again.code == 1


def test_throttled_by_the_exit_only_that_exit_waits(web, project: Project, tmp_path) -> None:
    """``THROTTLE_SCOPE=exit``: another exit goes on with the host at once."""
    proxies = tmp_path / "p.txt"
    proxies.write_text(web.proxies("good1", "good2"))
    urls = [f"http://shop.test/throttle/{n}?after=6&times=1&per=none" for n in range(4)]
    done = project.crawl(
        project.manifest("m.txt", urls),
        settings={
            "RETRYSCRAPE_PROXIES": str(proxies),
            "RETRYSCRAPE_THROTTLE_SCOPE": "exit",
            "CONCURRENT_REQUESTS": "1",
        },
    )
    seen = times(web, "/throttle/*")
    assert seen[1] - seen[0] < 4, done.err
    assert len({request["client"] for request in web.requests(path="/throttle/*")}) == 2


def test_a_short_outage_loses_nothing(web, project: Project) -> None:
    """B4: connections refused for 4 s; fifty URLs, three attempts each: nearly all come."""
    web.outage("127.0.0.4", 4)
    urls = [web.url(f"/ok/{n}", "127.0.0.4") for n in range(50)]
    project.crawl(project.manifest("m.txt", urls), settings={"RETRYSCRAPE_BACKOFF_BASE": "1"})
    assert outcomes(project).get("ok", 0) >= 45


def test_a_busy_host_is_one_event_and_another_host_does_not_feel_it(web, project) -> None:
    """B12: 429 to everybody for 2 s from the 21st request on."""
    web.set_host("127.0.0.2", "busy", after=20, seconds=2)
    urls = [web.url(f"/ok/{n}", host) for n in range(80) for host in ("127.0.0.2", "127.0.0.3")]
    done = project.crawl(project.manifest("m.txt", urls))
    assert done.code == 0, done.err
    assert outcomes(project) == {"ok": 160}
    assert len(web.requests(host=f"127.0.0.2:{web.http_port}")) <= 80 + 20  # in flight, once
    assert project.sql("SELECT max(attempts) FROM entries WHERE url LIKE '%127.0.0.3%'") == [(1,)]


def test_three_blocked_urls_in_a_row_pause_their_host(web, project: Project) -> None:
    web.set_host("127.0.0.2", "closed")
    urls = [web.url(f"/ok/{n}", "127.0.0.2") for n in range(30)]
    done = project.crawl(
        project.manifest("m.txt", [*urls, web.url("/ok/x")]), settings={"CONCURRENT_REQUESTS": "1"}
    )
    assert done.code == 1
    assert len(times(web, "/ok/*")) < 15  # most were never asked
    rows = project.sql(
        "SELECT status, outcome, error_class, not_before FROM entries WHERE url LIKE '%0.2:%'"
    )
    assert len(rows) == 30
    assert all(row[2] != "permanent" for row in rows)
    later = [row[3] for row in rows if row[0] == "pending"]
    assert later
    assert all(moment and moment - time.time() > 3000 for moment in later)


def test_a_stop_while_the_ledger_is_opened(web, project: Project) -> None:
    manifest = project.manifest("m.txt", [web.url("/ok/1")])
    assert project.crawl(manifest).code == 0
    with contextlib.closing(sqlite3.connect(project.out / "ledger.db")) as other:
        other.execute("BEGIN IMMEDIATE")  # so that the run waits for it
        run = project.start("crawl", "pages", "-a", f"manifest={manifest}")
        until(lambda: "Spider opened" in run.said())
        time.sleep(0.3)
        run.send_signal(signal.SIGINT)
        until(lambda: "shutting down" in run.said())
        other.rollback()
    ended = run.wait()
    assert (ended.code, "Traceback" in ended.err) == (130, False), ended.err


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 1)])
def test_a_stop_takes_seconds_and_loses_nothing(web, project: Project, number, code) -> None:
    """While some wait for a host, one hangs, and the rest are under way."""
    urls = [
        web.url("/throttle/1?after=10&times=1", "127.0.0.2"),
        web.url("/hang/1", "127.0.0.3"),
        *(web.url(f"/ok/{n}?ms=100") for n in range(300)),
    ]
    manifest = project.manifest("m.txt", urls)
    run = project.start("crawl", "pages", "-a", f"manifest={manifest}")
    until(lambda: len(times(web, "/ok/*")) > 20 and times(web, "/hang/*"))
    run.send_signal(number)
    stopped = time.monotonic()
    ended = run.wait()
    err = ended.err
    assert ended.code == code, err
    assert time.monotonic() - stopped < 30
    assert "Traceback" not in err
    done = {url for (url,) in project.sql("SELECT url FROM entries WHERE status = 'success'")}
    feed = project.feed("m")
    rest = [line for line in feed if "from_line" in line]
    left = {line["url"] for line in feed if "url" in line}
    unread = set(urls[rest[0]["from_line"] - 1 :]) if rest else set()
    assert done | left | unread == set(urls)
    assert not done & left

    web.set_page("/hang/1", "<html><body>" + "good " * 200)
    web.set_page("/throttle/1", "<html><body>" + "good " * 200)
    asked = len(times(web, "/ok/*"))
    settings = {"DOWNLOAD_TIMEOUT": "5"}
    again = project.crawl(project.out / "m" / "failures.jsonl", settings=settings)
    assert "Traceback" not in again.err
    assert sum(outcomes(project).values()) == 302
    # what was a success was not asked for again
    before = {r["path"] for r in web.requests(path="/ok/*")[:asked]}
    assert len(before) >= 20
    repeated = [r["path"] for r in web.requests(path="/ok/*")[asked:]]
    assert not {web.url(path) for path in repeated} & done


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_jobdir_twice(web, project: Project, number) -> None:
    """F8: stopped in the middle, and the same command again; nothing twice, nothing lost.
    Of a killed run the JOBDIR has lost most requests: the ledger is what resumes it."""
    urls = [web.url("/throttle/1?after=2&times=1", "127.0.0.2")]
    urls += [web.url(f"/ok/{n}?ms=100") for n in range(100)]
    manifest = project.manifest("m.txt", urls)
    settings = {"JOBDIR": str(project.folder / "job")}
    run = project.start("crawl", "pages", "-a", f"manifest={manifest}", settings=settings)
    until(lambda: len(times(web, "/ok/*")) > 20)
    run.send_signal(number)
    run.wait()
    done = {url for (url,) in project.sql("SELECT url FROM entries WHERE status = 'success'")}
    asked = len(times(web, "/ok/*"))
    again = project.crawl(manifest, settings=settings)
    assert again.code == 0, again.err
    assert outcomes(project) == {"ok": 101}
    repeated = {web.url(r["path"]) for r in web.requests(path="/ok/*")[asked:]}
    assert not repeated & done
    assert "Traceback" not in again.err


def test_a_run_that_was_frozen_goes_on(web, project: Project) -> None:
    """SIGSTOP, and SIGCONT after the due time: waits are over, and no page is lost."""
    urls = [web.url("/throttle/1?after=1&times=1", "127.0.0.2")]
    urls += [web.url(f"/ok/{n}?ms=50") for n in range(100)]
    manifest = project.manifest("m.txt", urls)
    run = project.start("crawl", "pages", "-a", f"manifest={manifest}")
    until(lambda: len(times(web, "/ok/*")) > 20)
    run.send_signal(signal.SIGSTOP)
    frozen = time.monotonic()
    until(lambda: time.monotonic() - frozen > 2)
    run.send_signal(signal.SIGCONT)
    ended = run.wait()
    assert ended.code == 0, ended.err
    assert outcomes(project) == {"ok": 101}
