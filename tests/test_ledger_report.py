"""What a report says of a small batch, to the number, and how it looks on a terminal."""

from __future__ import annotations

import json

import pytest
from ledger_makers import NOW, attempt, failure, fill, parked, success
from sqlalchemy import event

from retryscrape.ledger.records import ExitRow, NewRow
from retryscrape.ledger.redrive import Rules
from retryscrape.ledger.reportdata import report_data, write_report
from retryscrape.ledger.store import Ledger
from retryscrape.ledger.worklist import worklist
from retryscrape.policy.outcomes import ErrorClass, Outcome
from retryscrape.report.text import render

pytest_plugins = ["ledger_fixtures"]

EXIT = "http://u***@127.0.0.1:1#3fa2c1"


@pytest.fixture
def filled(ledger):
    """Six lines: two pages (one on the second attempt), blocked, gone, parked, rejected."""
    urls = [f"http://h.test/{n}" for n in range(1, 6)]
    fill(ledger, urls)
    bad = NewRow(url="ftp://x/\x1b[2J", line=6, rejected="unsupported scheme: ftp")
    ledger.add_rows("b", [bad], manifest="m.txt", read_to=6, job_id="j1", now=NOW)
    ok = {"outcome": Outcome.OK, "http_code": 200, "vendor": None, "reason": None}
    ledger.start_job("j1", "b", "2026-01-01T00:00:00Z")
    gone = {"outcome": Outcome.GONE, "error_class": ErrorClass.PERMANENT, "http_code": 404}
    ledger.write(
        [
            success(urls[0], attempts=1, passes=1, cost=2.0, bytes=100),
            success(urls[1], attempts=2, passes=1, cost=7.0, bytes=200),
            failure(urls[2], attempts=1, passes=1, cost=2.0, bytes=100, vendor="cloudflare"),
            failure(urls[3], attempts=1, passes=1, cost=2.0, bytes=100, **gone),
            parked(urls[4], until=NOW + 60, reason="host paused"),
        ],
        [
            attempt(urls[0], **ok),
            attempt(urls[1]),
            attempt(urls[1], 2, rung="browser", cost=5.0, waited=1.5, exit=None, **ok),
            attempt(urls[2]),
            attempt(urls[3], outcome=Outcome.GONE, http_code=404, vendor=None),
        ],
    )
    ledger.mark_pass("b")
    ledger.finish_job("j1", "2026-01-01T00:01:00Z", "finished", {})
    ledger.save_exits([ExitRow(exit=EXIT, ok=3.0, fail=1.0)])
    return ledger


def test_the_numbers(filled) -> None:
    report = report_data(filled, "b", now=NOW)
    assert (report.lines, report.rows, report.rejected, report.passes) == (6, 6, 1, 1)
    assert (report.success, report.failed, report.pending) == (2, 3, 1)
    assert (report.unresolved, report.settled, report.parked) == (2, 2, 1)
    assert report.next_due == "2026-05-28T20:27:40.000Z"
    assert (report.attempts, report.cost, report.bytes, report.waited) == (5, 13.0, 500, 1.5)
    assert (report.attempts_per_page, report.cost_per_page) == (2.5, 6.5)
    assert report.pages_by_attempts == {1: 1, 2: 1}


def test_by_host_vendor_rung_exit_and_time(filled) -> None:
    report = report_data(filled, "b", now=NOW)
    assert report.hosts[0] == {
        "host": "h.test",
        "rows": 5,
        "success": 2,
        "unresolved": 2,
        "outcomes": {"ok": 2, "blocked": 1, "gone": 1, "pending": 1},
        "attempts": 5,
        "cost": 13.0,
        "bytes": 500,
    }
    assert report.vendors == [{"vendor": "cloudflare", "attempts": 2, "rows": 1}]
    assert [(row["rung"], row["attempts"], row["ok"], row["cost"]) for row in report.rungs] == [
        ("http", 4, 1, 8.0),
        ("browser", 1, 1, 5.0),
    ]
    assert [(row["exit"], row["attempts"], row["health"]) for row in report.exits] == [
        (EXIT, 4, 0.75),
        ("direct", 1, None),
    ]
    assert sum(point["attempts"] for point in report.timeline) == 5
    assert {point["at"] for point in report.timeline} == {"2026-01-01T00:00"}
    (job,) = report.jobs
    assert (job["job_id"], job["finish_reason"], job["attempts"], job["cost"]) == (
        "j1",
        "finished",
        5,
        13.0,
    )


def test_waits_are_counted_in_steps(filled) -> None:
    report = report_data(filled, "b", now=NOW)
    counted = {row["up_to"]: row["attempts"] for row in report.waits}
    assert counted == {0: 4, 1: 0, 10: 1, 60: 0, 300: 0, None: 0}


def test_a_redrive_is_compared_with_as_many_full_runs(filled) -> None:
    assert report_data(filled, "b", now=NOW).rerun["redrives"] == 0
    filled.start_job("j2", "b", "2026-01-02T00:00:00Z")
    again = attempt("http://h.test/3", 2, job_id="j2", cost=3.0, bytes=40)
    filled.write([failure("http://h.test/3", job_id="j2")], [again])
    rerun = report_data(filled, "b", now=NOW).rerun
    assert (rerun["redrives"], rerun["redrive_cost"], rerun["full_cost"]) == (1, 3.0, 13.0)
    assert (rerun["redrive_bytes"], rerun["full_bytes"]) == (40, 500)


def test_the_residue_names_the_unresolved_first_and_is_capped(filled) -> None:
    report = report_data(filled, "b", now=NOW, residue=3)
    assert report.residue_total == 4
    assert [row["outcome"] for row in report.residue] == ["blocked", None, "gone"]
    assert report.residue[0]["action"].startswith("re-drive through other exits")


def test_an_unknown_batch_has_no_report(ledger) -> None:
    assert report_data(ledger, "nope", now=NOW) is None


def test_an_empty_batch_has_one(ledger) -> None:
    fill(ledger, [])
    report = report_data(ledger, "b", now=NOW)
    assert (report.rows, report.attempts_per_page, report.residue) == (0, None, [])
    assert "every row is a success" not in render(report)


def test_the_json_file(filled, tmp_path) -> None:
    path = tmp_path / "b" / "report.json"
    write_report(report_data(filled, "b", now=NOW), path)
    found = json.loads(path.read_text())
    assert (found["success"], found["unresolved"], found["pages_by_attempts"]) == (
        2,
        2,
        {"1": 1, "2": 1},
    )


def test_the_text_is_aligned_and_harmless(filled) -> None:
    text = render(report_data(filled, "b", now=NOW))
    assert "\x1b" not in text
    assert r"ftp://x/\x1b[2J" in text
    for line in (
        "batch b of m.txt, begun 2026-05-28T20:26:40.000Z",
        "  success     2 (33.3%)",
        "  parked      1, the first until 2026-05-28T20:27:40.000Z",
        "  attempts    5, 2.50 a page",
        "  vendor      attempts  rows left",
        "  cloudflare         2          1",
        "    blocked, 403, cloudflare, retryable; 1 attempt; a challenge",
    ):
        assert line in text.splitlines()


def test_the_text_is_short_and_says_so(ledger) -> None:
    fill(ledger, [f"http://h.test/{n}" for n in range(50)])
    text = render(report_data(ledger, "b", now=NOW), shown=5)
    assert "not a success: 50 rows (the first 5 of 50)" in text
    assert text.count("http://h.test/") == 5


def test_users_in_urls_are_masked(ledger) -> None:
    fill(ledger, ["http://user:secret@h.test/"])
    report = report_data(ledger, "b", now=NOW)
    assert "secret" not in json.dumps(report.residue) + render(report)


def test_a_long_crawl_has_a_timeline_of_hours(ledger) -> None:
    fill(ledger, ["http://h.test/1"])
    times = [f"2026-01-01T{n // 60:02d}:{n % 60:02d}:00.000Z" for n in range(300)]
    ledger.write([], [attempt(n=n, started_at=at) for n, at in enumerate(times, start=1)])
    points = report_data(ledger, "b", now=NOW).timeline
    assert [(point["at"], point["attempts"]) for point in points] == [
        (f"2026-01-01T{hour:02d}", 60) for hour in range(5)
    ]


def test_of_many_hosts_the_busiest_are_shown(ledger) -> None:
    ledger.open_batch("b", "m.txt", None, now=NOW)
    names = [f"h{n:03d}.test" for n in range(120)] + ["h119.test", "h005.test"] * 2
    rows = [NewRow(url=f"http://{h}/{n}", line=n + 1, host=h) for n, h in enumerate(names)]
    ledger.add_rows("b", rows, manifest="m.txt", read_to=len(rows), job_id="j1", now=NOW)
    report = report_data(ledger, "b", now=NOW)
    assert (report.hosts_total, len(report.hosts)) == (120, 100)
    shown = [(row["host"], row["rows"]) for row in report.hosts[:3]]
    assert shown == [("h005.test", 3), ("h119.test", 3), ("h000.test", 1)]


def test_rows_that_are_no_success_are_found_by_the_index_that_has_only_them(tmp_path) -> None:
    """Not by a walk through the whole batch: SQLite is told nothing of how few they are."""
    plans: list[tuple[str, str]] = []
    with Ledger.open(str(tmp_path / "ledger.db")) as ledger:
        fill(ledger, ["http://h.test/1", "http://h.test/2"])
        ledger.write([success(), failure("http://h.test/2", vendor="cloudflare")])

        @event.listens_for(ledger._engine, "before_cursor_execute")
        def explain(connection, cursor, statement, parameters, *_) -> None:
            if "status != 'success'" in statement:
                driver = connection.connection.driver_connection
                plan = driver.execute(f"EXPLAIN QUERY PLAN {statement}", parameters)
                first = next(row[3] for row in plan if "entries" in row[3])
                plans.append((first, statement))

        report_data(ledger, "b", now=NOW)
        worklist(ledger, "b", Rules(), now=NOW, ends_at=NOW + 60)
        ledger.open_rows("b")
        assert len(list(ledger.failures("b"))) == 1
    assert len(plans) >= 7
    walks = [pair for pair in plans if "entries_unresolved" not in pair[0]]
    assert [plan for plan, _ in walks if "entries_parked" not in plan] == []
