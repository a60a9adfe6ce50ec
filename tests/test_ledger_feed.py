"""The failures feed, the advice in it, the story of a URL, and the batch's lock."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from ledger_makers import NOW, attempt, failure, fill, parked, success

from retryscrape.ledger.actions import action
from retryscrape.ledger.explain import explain, story_text
from retryscrape.ledger.feed import FIELDS, write_failures
from retryscrape.ledger.lock import BatchBusyError, BatchLock
from retryscrape.ledger.records import NewRow
from retryscrape.policy.outcomes import ErrorClass, Kind, Outcome

pytest_plugins = ["ledger_fixtures"]

URLS = [f"http://h.test/{n}" for n in range(1, 5)]


def lines_of(path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


class TestFeed:
    def test_one_line_per_row_that_is_no_success_in_the_order_of_the_manifest(
        self, ledger, tmp_path
    ):
        fill(ledger, URLS[::-1])
        ledger.write([success(URLS[0]), failure(URLS[1], attempts=3, passes=1, cost=6.0)])
        path = tmp_path / "b" / "failures.jsonl"
        assert write_failures(ledger, "b", path) == 3
        rows = lines_of(path)
        assert [row["url"] for row in rows] == [URLS[3], URLS[2], URLS[1]]
        assert [row["status"] for row in rows] == ["pending", "pending", "failed"]
        assert all(tuple(row) == FIELDS for row in rows)

    def test_the_fields_of_a_line(self, ledger, tmp_path):
        ledger.open_batch("b", "m.txt", None, now=NOW)
        row = NewRow(url=URLS[0], line=1, host="h.test", fields={"sku": "ä1"})
        ledger.add_rows("b", [row], manifest="m.txt", read_to=1, job_id="j1", now=NOW)
        ledger.finish_read("b", "m.txt")
        failed = failure(URLS[0], vendor="cloudflare", kind=Kind.CHALLENGE, rung="browser")
        ledger.write([failed])
        path = tmp_path / "failures.jsonl"
        write_failures(ledger, "b", path)
        assert lines_of(path) == [
            {
                "url": URLS[0],
                "batch_id": "b",
                "status": "failed",
                "outcome": "blocked",
                "error_class": "retryable",
                "http_code": 403,
                "vendor": "cloudflare",
                "reason": "a challenge",
                "attempts": 0,
                "passes": 0,
                "cost": 0,
                "rung": "browser",
                "escalate": False,
                "not_before": None,
                "last_error_at": "2026-01-01T00:00:00.000Z",
                "job_id": "j1",
                "final_url": None,
                "action": action(failed),
                "fields": {"sku": "ä1"},
            }
        ]

    def test_no_failures_is_an_empty_file(self, ledger, tmp_path):
        fill(ledger, URLS[:1])
        ledger.write([success(URLS[0])])
        path = tmp_path / "failures.jsonl"
        path.write_text("of the last run\n")
        assert write_failures(ledger, "b", path) == 0
        assert path.read_bytes() == b""

    def test_lines_not_read_yet_are_a_pointer_at_the_end(self, ledger, tmp_path):
        ledger.open_batch("b", "m.txt", None, now=NOW)
        row = NewRow(url=URLS[0], line=7, host="h.test")
        ledger.add_rows("b", [row], manifest="m.txt", read_to=7, job_id="j1", now=NOW)
        path = tmp_path / "failures.jsonl"
        assert write_failures(ledger, "b", path) == 1
        pointer = {"manifest": "m.txt", "from_line": 8, "batch_id": "b"}
        assert lines_of(path)[-1] == pointer
        ledger.open_batch("b", str(path), "f", now=NOW)  # the feed itself, read in place
        write_failures(ledger, "b", path)
        assert lines_of(path)[1:] == [pointer]
        ledger.finish_read("b", "m.txt")
        write_failures(ledger, "b", path)
        assert len(lines_of(path)) == 1

    def test_many_rows_are_streamed_in_pieces(self, ledger, tmp_path):
        fill(ledger, [f"http://h.test/{n}" for n in range(2500)])
        path = tmp_path / "failures.jsonl"
        assert write_failures(ledger, "b", path) == 2500
        assert len({row["url"] for row in lines_of(path)}) == 2500

    def test_a_url_with_a_user_stays_whole(self, ledger, tmp_path):
        fill(ledger, ["http://user:secret@h.test/"])
        path = tmp_path / "failures.jsonl"
        write_failures(ledger, "b", path)
        assert lines_of(path)[0]["url"] == "http://user:secret@h.test/"


class TestAdvice:
    @pytest.mark.parametrize("outcome", [None, *Outcome])
    @pytest.mark.parametrize("error_class", [None, *ErrorClass])
    def test_there_is_advice_for_everything(self, outcome, error_class):
        assert action(failure(outcome=outcome, error_class=error_class, reason=None))

    @pytest.mark.parametrize(
        ("row", "words"),
        [
            (failure(kind=Kind.CHALLENGE, rung="http"), "browser may pass"),
            (failure(kind=Kind.CHALLENGE, rung="browser"), "better repute"),
            (failure(reason="render unavailable"), "install the browser"),
            (failure(error_class=ErrorClass.PERMANENT), "give it up"),
            (failure(outcome=Outcome.REFUSED, reason="robots.txt"), "robots.txt"),
            (failure(outcome=Outcome.REFUSED, http_code=451), "legal"),
            (failure(outcome=Outcome.NETWORK_ERROR, reason="dns"), "host's name"),
            (failure(outcome=Outcome.NETWORK_ERROR, reason="timeout: 30 s"), "DOWNLOAD_TIMEOUT"),
            (failure(outcome=Outcome.UNEXPECTED, reason="too_large"), "DOWNLOAD_MAXSIZE"),
            (
                failure(outcome=Outcome.THROTTLED, not_before=NOW),
                "wait until 2026-05-28T20:26:40Z, then re-drive with fewer",
            ),
            (parked(until=NOW), "wait until 2026-05-28T20:26:40Z, then run the same"),
        ],
    )
    def test_advice_fits_the_case(self, row, words):
        assert words in action(row)


class TestExplain:
    def test_every_attempt_and_why_what_came_next(self, ledger):
        fill(ledger, URLS)
        records = [
            attempt(URLS[0], 1, kind=Kind.CHALLENGE),
            attempt(URLS[0], 2, rung="browser", http_code=200, outcome=Outcome.OK, waited=3.0,
                    vendor=None, evidence=None, reason=None, decision="done: ok", exit=None),
        ]  # fmt: skip
        ledger.write([success(URLS[0], attempts=2, passes=1, final_url="http://h.test/x")], records)
        (story,) = explain(ledger, URLS[0])
        assert story_text(story).splitlines() == [
            "http://h.test/1",
            "  batch b, line 1: success: ok, 200",
            "  2 attempts in 1 pass, cost 4, 200 bytes",
            "  answered by http://h.test/x",
            "",
            "  #1  2026-01-01T00:00:01.000Z  http via http://u***@127.0.0.1:1#3fa2c1  (job j1)",
            "      403 in 0.50 s: blocked, challenge, cloudflare; 100 bytes, cost 2",
            "      evidence: header:cf-mitigated",
            "      reason: a challenge",
            "      then: next rung: a challenge",
            "",
            "  #2  2026-01-01T00:00:02.000Z  browser via direct  (job j1)",
            "      200 in 0.50 s after waiting 3.0 s: ok; 100 bytes, cost 2",
            "      then: done: ok",
        ]

    def test_all_batches_or_one(self, ledger):
        for batch_id in ("b", "c"):
            fill(ledger, URLS, batch_id=batch_id)
        assert [story.batch_id for story in explain(ledger, URLS[0])] == ["b", "c"]
        assert [story.batch_id for story in explain(ledger, URLS[0], "c")] == ["c"]
        assert explain(ledger, "http://h.test/unknown") == []

    def test_hostile_urls_and_users_are_harmless_on_a_terminal(self, ledger):
        url = "http://user:secret@h.test/\x1b[2J\u202e"
        fill(ledger, [url])
        (story,) = explain(ledger, url)
        text = story_text(story)
        assert "secret" not in text
        assert "\x1b" not in text
        assert r"http://u***:***@h.test/\x1b[2J\u202e" in text


class TestLock:
    def test_the_second_run_is_refused_and_told_of_the_first(self, tmp_path):
        with BatchLock.take(tmp_path / "b", "b", job_id="first"):
            with pytest.raises(BatchBusyError) as caught:
                BatchLock.take(tmp_path / "b", "b", job_id="second")
            assert str(caught.value).startswith("batch b is being crawled by job first (process ")
        BatchLock.take(tmp_path / "b", "b", job_id="second").release()

    def test_shards_run_side_by_side_each_once(self, tmp_path):
        def take(shard: str = "", **values) -> BatchLock:
            return BatchLock.take(tmp_path, "b", job_id=f"job{shard}", shard=shard, **values)

        with take("1/2"), take("2/2"), take(shared=True):
            with pytest.raises(BatchBusyError, match="shard 1/2 of batch b"):
                take("1/2")
            with pytest.raises(BatchBusyError, match="batch b is being crawled"):
                take()
        with take(), pytest.raises(BatchBusyError, match="batch b is being crawled"):
            take("1/2")

    def test_what_a_dead_process_left_behind_locks_nothing(self, tmp_path):
        code = (
            "import os, sys, pathlib; from retryscrape.ledger.lock import BatchLock\n"
            "lock = BatchLock.take(pathlib.Path(sys.argv[1]), 'b', job_id='dead')\n"
            "os.kill(os.getpid(), 9)\n"
        )
        done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], timeout=60, check=False)
        assert done.returncode == -9
        assert "dead" in (tmp_path / ".lock").read_text()
        BatchLock.take(tmp_path, "b", job_id="next").release()
