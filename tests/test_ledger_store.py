"""The ledger's rows: how lines become rows, results are written, questions answered."""

from __future__ import annotations

import pytest
from ledger_makers import NOW, attempt, failure, fill, parked, success

from retryscrape.ledger.clock import mend_times
from retryscrape.ledger.records import ExitRow, HostRow, Known, NewRow
from retryscrape.ledger.store import Ledger
from retryscrape.ledger.times import iso
from retryscrape.policy.outcomes import ErrorClass, Outcome, Status
from retryscrape.policy.retry_after import LONGEST

pytest_plugins = ["ledger_fixtures"]


def add(ledger: Ledger, rows: list[NewRow], **values):
    defaults = {"manifest": "m.txt", "read_to": 9, "job_id": "j1", "now": NOW}
    return ledger.add_rows("b", rows, **(defaults | values))


def lines(*urls: str, start: int = 1) -> list[NewRow]:
    return [NewRow(url=url, line=n, host="h.test") for n, url in enumerate(urls, start=start)]


class TestReading:
    def test_a_new_batch_is_empty_and_said_to_be_new(self, ledger):
        info = ledger.open_batch("b", "m.txt", "d1", now=NOW)
        assert (info.new, info.manifest_changed, info.read_to, info.complete) == (
            True,
            False,
            0,
            False,
        )
        assert (info.lines, info.due, info.parked) == (0, 0, 0)
        assert ledger.batches()[0]["created_at"] == "2026-05-28T20:26:40.000Z"

    def test_opening_again_tells_how_far_it_went(self, ledger):
        fill(ledger, ["http://h.test/1", "http://h.test/2", "http://h.test/3"])
        ledger.write([success(), failure("http://h.test/2"), parked("http://h.test/3")])
        info = ledger.open_batch("b", "m.txt", "digest", now=NOW)
        assert not info.new
        assert info.counts == {Status.PENDING: 1, Status.SUCCESS: 1, Status.FAILED: 1}
        assert (info.due, info.parked, info.read_to, info.complete) == (1, 1, 3, True)
        assert (info.lines, info.urls, info.duplicates, info.rejected) == (3, 3, 0, 0)

    def test_another_content_of_the_same_manifest_is_read_from_the_start(self, ledger):
        fill(ledger, ["http://h.test/1"])
        info = ledger.open_batch("b", "m.txt", "other", now=NOW)
        assert (info.manifest_changed, info.read_to, info.complete) == (True, 0, False)

    def test_a_failures_feed_with_new_content_is_no_changed_manifest(self, ledger):
        fill(ledger, ["http://h.test/1"])
        for digest in ("f1", "f2"):
            info = ledger.open_batch("b", "out/b/failures.jsonl", digest, now=NOW)
            assert (info.manifest_changed, info.read_to) == (False, 0)

    def test_shards_read_the_same_manifest_each_for_itself(self, ledger):
        ledger.open_batch("b", "m.txt", "d", now=NOW, shard="1/2")
        add(ledger, lines("http://h.test/1"), shard="1/2", read_to=1)
        assert ledger.open_batch("b", "m.txt", "d", now=NOW, shard="2/2").read_to == 0
        assert ledger.open_batch("b", "m.txt", "d", now=NOW, shard="1/2").read_to == 1


class TestAddingRows:
    @pytest.fixture(autouse=True)
    def _batch(self, ledger):
        ledger.open_batch("b", "m.txt", "d1", now=NOW)

    def test_each_line_gets_one_row_and_duplicates_are_counted(self, ledger):
        added = add(ledger, lines("http://h.test/1", "http://h.test/2", "http://h.test/1"))
        assert (added.new, added.duplicates, added.rejected) == (2, 1, 0)
        assert added.fresh == {"http://h.test/1", "http://h.test/2"}
        assert ledger.known("b", ["http://h.test/1"])["http://h.test/1"].line == 1
        info = ledger.open_batch("b", "m.txt", "d1", now=NOW)
        assert (info.lines, info.urls, info.duplicates, info.read_to) == (3, 2, 1, 9)

    def test_a_duplicate_in_a_later_piece_is_counted_too(self, ledger):
        add(ledger, lines("http://h.test/1"))
        assert add(ledger, lines("http://h.test/1", start=7)).duplicates == 1

    def test_the_same_lines_again_add_nothing(self, ledger):
        rows = [*lines("http://h.test/1"), NewRow(url="ftp://x", line=2, rejected="scheme")]
        add(ledger, rows)
        again = add(ledger, rows)
        assert (again.new, again.duplicates, again.rejected, again.fresh) == (0, 0, 0, frozenset())

    def test_a_line_that_moved_in_a_changed_manifest_is_no_duplicate(self, ledger):
        add(ledger, [*lines("http://h.test/1"), NewRow(url="bad", line=2, rejected="no scheme")])
        ledger.open_batch("b", "m.txt", "d2", now=NOW)
        moved = [
            *lines("http://h.test/0", "http://h.test/1"),
            NewRow(url="bad", line=3, rejected="no scheme"),
        ]
        added = add(ledger, moved)
        assert (added.new, added.duplicates, added.rejected) == (1, 0, 0)

    def test_existing_rows_are_never_touched(self, ledger):
        add(ledger, lines("http://h.test/1"))
        ledger.write([success(attempts=2)])
        before = ledger.entry("b", "http://h.test/1")
        add(ledger, [NewRow(url="http://h.test/1", line=5, host="x", fields={"a": 1})])
        assert ledger.entry("b", "http://h.test/1") == before

    def test_rejected_lines_are_rows_with_line_and_reason(self, ledger):
        add(ledger, [NewRow(url="ftp://x/ y", line=3, rejected="unsupported scheme: ftp")])
        row = ledger.entry("b", "ftp://x/ y")
        assert (row.status, row.outcome, row.error_class, row.line, row.attempts) == (
            Status.FAILED,
            Outcome.REJECTED,
            ErrorClass.PERMANENT,
            3,
            0,
        )
        assert row.reason == "unsupported scheme: ftp"
        assert row.last_error_at == "2026-05-28T20:26:40.000Z"

    def test_keys_of_rejected_lines(self, ledger):
        """Raw text up to 2,000 characters; empty or repeated ones get their line's number."""
        add(
            ledger,
            [
                NewRow(url="x" * 3000, line=1, rejected="r"),
                NewRow(url="x" * 3000, line=2, rejected="r"),
                NewRow(url="", line=3, rejected="r"),
                NewRow(url="  ", line=4, rejected="r"),
            ],
        )
        keys = [row.url for row in ledger.failures("b")]
        assert keys == ["x" * 2000, "line:2", "line:3", "line:4"]

    def test_hostile_texts_are_kept_as_far_as_a_database_can(self, ledger):
        odd = "http://h.test/\0\udcff\u202e"
        add(ledger, [NewRow(url=odd, line=1, host="h.test", fields={"k\0": "\udcff"})])
        known = ledger.known("b", [odd])[odd]
        assert known.fields == {"k\0": "\udcff"}
        ledger.write([failure(odd, reason="\0\udc80")], [attempt(odd, reason="\0")])
        assert ledger.known("b", [odd])[odd].attempts == 1
        assert len(ledger.attempts_of(odd)) == 1

    def test_a_feed_from_another_machine_brings_its_history(self, ledger):
        prior = {
            "status": "failed",
            "outcome": "throttled",
            "error_class": "backoff_required",
            "http_code": 429,
            "attempts": 4,
            "passes": 2,
            "cost": 8.0,
            "not_before": NOW + 99,
            "escalate": True,
            "last_error_at": "2026-01-01T00:00:00Z",
        }
        add(ledger, [NewRow(url="http://h.test/1", line=1, prior=prior)])
        row = ledger.entry("b", "http://h.test/1")
        assert (row.outcome, row.attempts, row.passes, row.cost, row.escalate) == (
            Outcome.THROTTLED,
            4,
            2,
            8.0,
            True,
        )
        assert row.not_before == NOW + 99

    def test_nonsense_in_a_feed_is_left_out(self, ledger):
        prior = {
            "status": "failed",
            "outcome": ["?"],
            "attempts": "many",
            "passes": -1,
            "cost": float("nan"),
            "not_before": 10**400,
            "http_code": 10**9,
            "reason": {"a": 1},
            "escalate": "yes",
        }
        add(ledger, [NewRow(url="http://h.test/1", line=1, prior=prior)])
        row = ledger.entry("b", "http://h.test/1")
        assert (row.status, row.outcome, row.attempts, row.passes, row.cost) == (
            Status.PENDING,
            None,
            0,
            0,
            0.0,
        )
        assert (row.not_before, row.http_code, row.reason, row.escalate) == (
            None,
            None,
            None,
            False,
        )

    def test_a_feed_read_in_place_counts_no_duplicates(self, ledger):
        add(ledger, lines("http://h.test/1", "http://h.test/2"))
        ledger.open_batch("b", "out/b/failures.jsonl", "f", now=NOW)
        row = NewRow(url="http://h.test/2", line=1, prior={"status": "failed"})
        added = add(ledger, [row], manifest="out/b/failures.jsonl", read_to=1)
        assert (added.new, added.duplicates) == (0, 0)
        assert ledger.batches()[0]["lines"] == 2


class TestWriting:
    def test_a_killed_run_loses_no_count(self, ledger):
        """Attempts raise the totals of a row that has no result yet."""
        fill(ledger, ["http://h.test/1"])
        ledger.write([], [attempt(n=1), attempt(n=2)])
        ledger.write([], [attempt(n=2), attempt(n=3, cost=5.0)])
        known = ledger.known("b", ["http://h.test/1"])["http://h.test/1"]
        assert (known.status, known.attempts, known.cost, known.bytes) == (
            Status.PENDING,
            3,
            9.0,
            300,
        )

    def test_writing_twice_changes_nothing(self, ledger):
        fill(ledger, ["http://h.test/1"])
        for _ in range(2):
            ledger.write([success(attempts=1, cost=2.0)], [attempt()])
        assert ledger.entry("b", "http://h.test/1").attempts == 1
        assert len(ledger.attempts_of("http://h.test/1")) == 1

    def test_a_success_is_not_overwritten_by_a_later_failure(self, ledger):
        fill(ledger, ["http://h.test/1"])
        ledger.write([success()])
        ledger.write([failure(at="2027-01-01T00:00:00Z", attempts=2)], [attempt(n=2)])
        row = ledger.entry("b", "http://h.test/1")
        assert (row.status, row.reason) == (Status.SUCCESS, None)
        assert [record.n for record in ledger.attempts_of("http://h.test/1")] == [2]

    def test_a_result_of_an_unknown_row_makes_the_row(self, ledger):
        ledger.open_batch("b", "m.txt", None, now=NOW)
        ledger.write([failure(line=None)])
        assert ledger.entry("b", "http://h.test/1") == failure(line=None)

    def test_a_result_never_moves_its_row_to_another_line(self, ledger):
        """A re-drive knows the line of the failures feed only."""
        fill(ledger, ["http://h.test/0", "http://h.test/1"])
        ledger.write([failure(line=1, host="other", fields={"a": 1})])
        row = ledger.entry("b", "http://h.test/1")
        assert (row.line, row.host, row.fields) == (2, "h.test", None)

    def test_two_batches_in_one_transaction(self, ledger):
        for batch_id in ("b", "c"):
            fill(ledger, ["http://h.test/1"], batch_id=batch_id)
        ledger.write([success(), failure(batch_id="c")])
        assert ledger.entry("b", "http://h.test/1").status is Status.SUCCESS
        assert ledger.entry("c", "http://h.test/1").status is Status.FAILED

    def test_more_rows_than_a_statement_takes_parameters(self, ledger):
        urls = [f"http://h.test/{n}" for n in range(1203)]
        fill(ledger, urls)
        ledger.write([success(url) for url in urls], [attempt(url) for url in urls])
        assert ledger.counts("b").by_outcome == {Outcome.OK: 1203}
        assert len(ledger.known("b", urls)) == 1203

    def test_reopening_puts_a_success_back_on_the_worklist(self, ledger):
        fill(ledger, ["http://h.test/1"])
        ledger.write([success(page_path="b/pages/aa/aa.html", attempts=2)])
        assert ledger.reopen("b", ["http://h.test/1"], reason="page missing", now=NOW) == 1
        row = ledger.entry("b", "http://h.test/1")
        assert (row.outcome, row.page_path, row.attempts) == (Outcome.NO_RESULT, None, 2)
        assert [known.url for known in ledger.open_rows("b")] == ["http://h.test/1"]


class TestQuestions:
    def test_open_rows_in_the_order_of_the_manifest_page_by_page(self, ledger):
        urls = [f"http://h.test/{n}" for n in (5, 3, 4, 1, 2)]
        fill(ledger, urls)
        gone = failure(urls[3], outcome=Outcome.GONE, error_class=ErrorClass.PERMANENT)
        ledger.write([success(urls[1]), gone])
        pages: list[list[Known]] = [ledger.open_rows("b", limit=2)]
        while pages[-1]:
            pages.append(ledger.open_rows("b", after=pages[-1][-1], limit=2))
        found = [[row.url for row in page] for page in pages]
        assert found == [[urls[0], urls[2]], [urls[4]], []]

    def test_rows_of_one_line_number_are_not_lost_between_pages(self, ledger):
        """Two manifests in one batch: their lines have the same numbers."""
        ledger.open_batch("b", "m.txt", None, now=NOW)
        rows = [NewRow(url=f"http://h.test/{n}", line=1, host="h.test") for n in range(3)]
        add(ledger, [*rows, NewRow(url="http://h.test/none", line=None, host="h.test")])
        found, after = [], None
        while page := ledger.open_rows("b", after=after, limit=1):
            found.append(page[0].url[-1])
            after = page[0]
        assert found == ["e", "0", "1", "2"]

    def test_permanent_rows_on_demand_but_never_rejected_lines(self, ledger):
        fill(ledger, ["http://h.test/1"])
        add(ledger, [NewRow(url="bad", line=2, rejected="no scheme")])
        ledger.write([failure(error_class=ErrorClass.PERMANENT)])
        assert ledger.open_rows("b") == []
        found = ledger.open_rows("b", include_permanent=True)
        assert [row.url for row in found] == ["http://h.test/1"]

    def test_counts(self, ledger):
        fill(ledger, [f"http://h.test/{n}" for n in range(1, 5)])
        gone = failure("http://h.test/3", outcome=Outcome.GONE, error_class=ErrorClass.PERMANENT)
        ledger.write([success(), failure("http://h.test/2"), gone])
        counts = ledger.counts("b")
        assert (counts.total, counts.open, counts.unresolved) == (4, 2, 2)
        assert counts.by_outcome == {
            Outcome.OK: 1,
            Outcome.BLOCKED: 1,
            Outcome.GONE: 1,
            None: 1,
        }

    def test_rows_that_would_fetch_the_same(self, ledger):
        ledger.open_batch("b", "m.txt", None, now=NOW)
        same = NewRow(url="http://h.test/1#x", line=2, host="h.test", same_as="http://h.test/1")
        add(ledger, [*lines("http://h.test/1"), same])
        assert [row.url for row in ledger.same_as("b", "http://h.test/1")] == ["http://h.test/1#x"]

    def test_attempts_of_a_url_in_all_batches(self, ledger):
        for batch_id in ("b", "c"):
            fill(ledger, ["http://h.test/1"], batch_id=batch_id)
        ledger.write([], [attempt(), attempt(batch_id="c", n=2)])
        assert len(ledger.attempts_of("http://h.test/1")) == 2
        assert ledger.attempts_of("http://h.test/1", "c") == [attempt(batch_id="c", n=2)]

    def test_passes_are_counted(self, ledger):
        fill(ledger, ["http://h.test/1"])
        assert [ledger.mark_pass("b"), ledger.mark_pass("b")] == [1, 2]
        assert ledger.open_batch("b", "m.txt", "digest", now=NOW).passes == 2

    def test_successes_in_pieces(self, ledger):
        urls = [f"http://h.test/{n}" for n in range(5)]
        fill(ledger, urls)
        ledger.write([success(url) for url in urls[:3]])
        assert [row.url for row in ledger.successes("b", size=2)] == urls[:3]

    @pytest.mark.parametrize("number", [1, 2, 3, 7])
    def test_pages_in_parts_beside_another_batch(self, ledger, number):
        urls = [f"http://h.test/{n}" for n in range(5)]
        for url in urls:  # row by row, so that the batches lie mixed in their table
            for batch_id in ("a", "b", "c"):
                fill(ledger, [url], batch_id=batch_id)
                ledger.write([success(url, batch_id=batch_id, page_path=f"{batch_id}/{url}")])
        fill(ledger, ["http://h.test/open"])
        parts = ledger.parts("b", 6, number)
        assert len(parts) == number
        found = [row for part in parts for row in ledger.page_rows("b", part, size=2)]
        assert sorted(row.page_path or "" for row in found) == [f"b/{url}" for url in urls]
        assert len(list(ledger.page_rows("b", size=1))) == 5


class TestWhatOutlivesARun:
    def test_jobs(self, ledger):
        ledger.start_job("j1", "b", "2026-01-01T00:00:00Z")
        ledger.finish_job("j1", "2026-01-01T00:01:00Z", "finished", {"pages": 3})
        (job,) = ledger.jobs_of("b")
        assert (job.finish_reason, job.stats) == ("finished", {"pages": 3})

    def test_hosts_and_exits_are_replaced_and_others_stay(self, ledger):
        ledger.save_hosts([HostRow(host="a.test", blocks=1), HostRow(host="b.test")])
        ledger.save_hosts([HostRow(host="a.test", paused_until=NOW, pause_reason="429")])
        assert sorted(ledger.load_hosts(), key=lambda row: row.host) == [
            HostRow(host="a.test", paused_until=NOW, pause_reason="429"),
            HostRow(host="b.test"),
        ]
        ledger.save_exits([ExitRow(exit="e1"), ExitRow(exit="e1", host="a.test", ok=1.5)])
        ledger.save_exits([ExitRow(exit="e1", fail=2.0, state='{"x": 1}')])
        assert sorted(ledger.load_exits(), key=lambda row: row.host) == [
            ExitRow(exit="e1", fail=2.0, state='{"x": 1}'),
            ExitRow(exit="e1", host="a.test", ok=1.5),
        ]


class TestAClockThatRanAhead:
    """What it wrote lies in the future; nothing waits for longer than was said, from now on."""

    def test_failures_are_moved_to_now_and_their_waits_with_them(self, ledger) -> None:
        ahead = NOW + 400 * 86400
        fill(ledger, [f"http://h.test/{n}" for n in range(1, 7)])
        ledger.write([
            failure("http://h.test/1", at=iso(ahead), not_before=ahead + 60),
            failure("http://h.test/2", at=iso(ahead)),
            parked("http://h.test/3", until=ahead),
            failure("http://h.test/4", at="garbage of a feed", not_before=2.0**52),
            failure("http://h.test/5", at=iso(NOW - 60), not_before=NOW + 10 * 86400),
            success("http://h.test/6"),
        ])  # fmt: skip
        untouched = [ledger.entry("b", f"http://h.test/{n}") for n in (5, 6)]

        assert mend_times(ledger, "b", now=NOW, longest=3600.0) == 4
        assert mend_times(ledger, "b", now=NOW, longest=3600.0) == 0
        rows = [ledger.entry("b", f"http://h.test/{n}") for n in range(1, 7)]
        assert [(row.not_before, row.last_error_at) for row in rows[:4]] == [
            (NOW + 60, iso(NOW)),
            (None, iso(NOW)),
            (NOW + 3600, None),
            (NOW + LONGEST, iso(NOW)),
        ]
        assert rows[4:] == untouched
        later = failure("http://h.test/2", at=iso(NOW + 1), outcome=Outcome.GONE)
        ledger.write([later])
        assert ledger.entry("b", "http://h.test/2").outcome is Outcome.GONE
