"""The writer thread: page before row, groups, and what happens when writing fails."""

from __future__ import annotations

import contextlib
import hashlib
import threading
import time
from concurrent.futures import wait

import pytest
from ledger_makers import attempt, failure, fill, success

from retryscrape.ledger.dialect import LedgerError
from retryscrape.ledger.pages import PageFile, page_path
from retryscrape.ledger.records import Result
from retryscrape.ledger.store import Ledger
from retryscrape.ledger.writer import Writer
from retryscrape.policy.outcomes import Outcome, Status

pytest_plugins = ["ledger_fixtures"]

URL = "http://h.test/1"
PAGE = PageFile(body=b"<html>hello", content_type="text/html")


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out"


@pytest.fixture
def writer(ledger, out):
    fill(ledger, [f"http://h.test/{n}" for n in range(1, 201)])
    writer = Writer(ledger, out, give_up=0.2)
    yield writer
    writer.close(10)


class Recorder(Ledger):
    """A ledger that notes its transactions, and waits or fails where told.

    The last error of ``arm`` stays; a row fault is raised where URL is written.
    """

    def arm(self, *errors: LedgerError | None, gate: threading.Event | None = None) -> None:
        self.errors, self.gate, self.groups = list(errors), gate, []

    def write(self, results, attempts=()):
        results = list(results)
        if self.gate:
            self.gate.wait(10)
        if self.errors:
            error = self.errors[0] if len(self.errors) == 1 else self.errors.pop(0)
            if error and (not error.row_fault or any(row.url == URL for row in results)):
                raise error
        self.groups.append([result.url for result in results])
        super().write(results, attempts)


@pytest.fixture
def recorder(ledger_url):
    with Recorder.open(ledger_url) as ledger:
        ledger.arm()
        fill(ledger, [f"http://h.test/{n}" for n in range(1, 201)])
        yield ledger


def test_a_success_is_a_page_and_a_row(ledger, writer, out) -> None:
    result = writer.submit(success(), [attempt()], PAGE).result(10)
    assert result.page_path == page_path("b", URL, "text/html")
    assert (out / result.page_path).read_bytes() == PAGE.body
    assert result.page_sha256 == hashlib.sha256(PAGE.body).hexdigest()
    assert (result.page_bytes, result.content_type) == (len(PAGE.body), "text/html")
    assert ledger.entry("b", URL).page_path == result.page_path
    assert len(ledger.attempts_of(URL)) == 1


def test_a_result_is_committed_within_the_promised_delay(ledger, writer) -> None:
    for url in (URL, "http://h.test/2"):  # the second one lingers for company
        writer.submit(success(url)).result(10)
    started = time.monotonic()
    writer.submit(success("http://h.test/3")).result(10)
    assert time.monotonic() - started < 1.0  # 0.1 on a machine that is not busy


def test_results_that_come_together_share_a_transaction(recorder, out) -> None:
    gate = threading.Event()
    recorder.arm(gate=gate)
    writer = Writer(recorder, out)
    futures = []
    for n in range(1, 121):
        writer.attempt(attempt(f"http://h.test/{n}"))  # which are no rows, and wait with theirs
        futures.append(writer.submit(success(f"http://h.test/{n}")))
    gate.set()
    wait(futures, 10)
    writer.close(10)
    sizes = [len(group) for group in recorder.groups if group]
    assert sum(sizes) == 120
    assert max(sizes) <= 50
    assert len(sizes) <= 5


def test_attempts_alone_wait_for_no_more_of_them_than_a_transaction_takes(recorder, out) -> None:
    with contextlib.closing(Writer(recorder, out, max_delay=60, max_rows=5)) as writer:
        for n in range(1, 41):
            writer.attempt(attempt(f"http://h.test/{n}"))
        while writer.unsettled:
            time.sleep(0.01)
    assert len(recorder.attempts_of("http://h.test/40")) == 1


def test_flush_and_close_settle_everything(ledger, writer) -> None:
    futures = [writer.submit(success(f"http://h.test/{n}")) for n in range(1, 201)]
    writer.attempt(attempt(n=3))
    assert writer.flush(10)
    assert all(future.done() for future in futures)
    assert ledger.counts("b").by_status[Status.SUCCESS] == 200
    assert writer.close(10)
    with pytest.raises(LedgerError, match="closed"):
        writer.submit(success()).result(1)


def test_a_page_that_cannot_be_written_is_no_result(ledger, writer, out) -> None:
    out.write_text("a file where the folder should be")
    result = writer.submit(success(attempts=1), [attempt()], PAGE).result(10)
    assert (result.status, result.outcome) == (Status.FAILED, Outcome.NO_RESULT)
    assert result.reason == "the page could not be written: Not a directory"
    assert [row.url for row in ledger.open_rows("b", limit=1)] == [URL]
    assert ledger.entry("b", URL).attempts == 1
    assert writer.failure is None


def test_the_page_of_a_success_is_never_replaced(ledger, writer, out) -> None:
    first = writer.submit(success(), page=PAGE).result(10)
    writer.submit(success(attempts=9), page=PageFile(body=b"{}", content_type="application/json"))
    writer.flush(10)
    assert (out / first.page_path).read_bytes() == PAGE.body
    assert ledger.entry("b", URL).page_sha256 == first.page_sha256


def test_a_page_twice_in_one_group_is_written_once(recorder, out) -> None:
    gate = threading.Event()
    recorder.arm(gate=gate)
    writer = Writer(recorder, out)
    writer.submit(success("http://h.test/9"))  # keeps the thread busy
    futures = [
        writer.submit(success(), page=PageFile(body=body, content_type="text/html"))
        for body in (b"one", b"two")
    ]
    gate.set()
    wait(futures, 10)
    writer.close(10)
    row = recorder.entry("b", URL)
    assert (out / row.page_path).read_bytes() == b"one"
    assert row.page_sha256 == hashlib.sha256(b"one").hexdigest()


def test_a_ledger_that_is_busy_for_a_moment_is_tried_again(recorder, out) -> None:
    recorder.arm(LedgerError("busy", retryable=True), LedgerError("busy", retryable=True), None)
    writer = Writer(recorder, out, give_up=10)
    assert writer.submit(success()).result(10).url == URL
    writer.close(10)


def test_a_ledger_that_stays_broken_ends_the_run_with_a_sentence(recorder, out) -> None:
    recorder.arm(LedgerError("ledger x cannot be written: the disk is full", retryable=True))
    heard: list[str] = []
    writer = Writer(recorder, out, give_up=0.1, on_failure=heard.append)
    futures = [writer.submit(success(f"http://h.test/{n}")) for n in range(1, 61)]
    for future in futures:
        with pytest.raises(LedgerError, match="disk is full"):
            future.result(10)
    assert heard == ["ledger x cannot be written: the disk is full"]
    assert writer.flush(5)
    assert writer.close(5)


def test_one_row_that_the_database_refuses_does_not_take_the_others_with_it(recorder, out) -> None:
    recorder.arm(LedgerError("refuses a row", row_fault=True))
    writer = Writer(recorder, out)
    futures = [writer.submit(success(f"http://h.test/{n}")) for n in range(1, 6)]
    assert writer.flush(10)
    with pytest.raises(LedgerError, match="refuses"):
        futures[0].result(1)
    assert [future.result(1).url[-1] for future in futures[1:]] == ["2", "3", "4", "5"]
    assert writer.failure is None
    writer.close(10)


def test_a_value_that_no_column_holds_is_a_refused_row(ledger, writer) -> None:
    with pytest.raises(LedgerError, match="refuses it"):
        writer.submit(failure(bytes=2**70)).result(10)
    assert isinstance(writer.submit(success("http://h.test/2")).result(10), Result)


def test_a_fault_of_our_own_hangs_nobody(recorder, out, monkeypatch) -> None:
    monkeypatch.setattr(recorder, "write", lambda *_: 1 / 0)
    writer = Writer(recorder, out)
    with pytest.raises(LedgerError, match="ZeroDivisionError"):
        writer.submit(success()).result(10)
    assert writer.close(10)
