"""Orders at scraping APIs in the ledger: what stands, what is used up, events once; migration."""

from __future__ import annotations

import pytest
from ledger_makers import NOW, attempt, fill, success
from sqlalchemy import inspect

from retryscrape.ledger.dialect import Dialect
from retryscrape.ledger.explain import explain, story_text
from retryscrape.ledger.store import Ledger
from retryscrape.ledger.tasks import TaskBook, TaskRow
from retryscrape.policy.outcomes import Outcome

pytest_plugins = ["ledger_fixtures"]

URL = "http://h.test/1"


def order(ref: str = "r1", url: str = URL, **values) -> TaskRow:
    return TaskRow(
        **{"ref": ref, "batch_id": "b", "url": url, "target": url, "submitted_at": NOW} | values
    )


@pytest.fixture
def book(ledger: Ledger) -> TaskBook:
    fill(ledger, [URL, "http://h.test/2"])
    return TaskBook(ledger)


def test_an_order_stands_from_before_it_is_sent_until_its_end(book: TaskBook) -> None:
    assert book.held("b", URL) is None
    book.begin([order(), order("r2", "http://h.test/2")])
    assert book.held("b", URL).row == order()
    assert book.open_tasks("b") == 2
    book.accepted(["r1"], "T1")
    assert book.held("b", URL).row == order(state="open", task_id="T1")
    book.close(["r1"], "lost")
    assert book.held("b", URL) is None
    assert book.held("other", "http://h.test/2") is None
    assert book.open_tasks("b") == 1


def test_the_same_order_sent_again_is_one_row(book: TaskBook) -> None:
    book.begin([order()])
    book.close(["r1"], "refused")
    assert book.held("b", URL) is None
    book.begin([order(submitted_at=NOW + 5)])
    assert book.held("b", URL).row.submitted_at == NOW + 5


@pytest.mark.parametrize(
    ("outcome", "stands"),
    [(Outcome.OK, True), (Outcome.NO_RESULT, True), (Outcome.BLOCKED, False)],
)
def test_a_result_is_used_up_by_an_attempt_that_failed(
    book: TaskBook, outcome: Outcome, stands: bool
) -> None:
    book.begin([order()])
    book.accepted(["r1"], "T1")
    book.close(["r1"], "done")
    book.ledger.write([], [attempt(URL, outcome=outcome, task="r1", cost=3.0, mode="browser")])
    held = book.held("b", URL)
    assert (held is not None) is stands
    if held is not None:
        assert held.paid == 3.0


def test_explain_says_what_was_bought_and_how(book: TaskBook) -> None:
    book.ledger.write([], [attempt(URL, rung="api", exit=None, task="r1", mode="browser")])
    (story,) = explain(book.ledger, URL)
    assert "api via a scraping API (browser)" in story_text(story)


def test_a_success_is_asked_for_anew_by_those_who_ask_again(book: TaskBook) -> None:
    book.begin([order()])
    book.close(["r1"], "done")
    assert book.held("b", URL) is not None
    book.ledger.write([success(URL)])
    assert book.held("b", URL) is None


def test_what_has_no_row_is_bought_anew_but_not_while_its_order_is_open(book: TaskBook) -> None:
    book.begin([order(batch_id="")])
    book.accepted(["r1"], "T1")
    assert book.held("", URL) is not None
    book.close(["r1"], "done")
    assert book.held("", URL) is None


def test_an_event_brings_the_id_of_an_order_whose_answer_was_lost(book: TaskBook) -> None:
    book.begin([order()])
    assert book.adopt("r1", "T1")
    assert book.held("b", URL).row.task_id == "T1"
    assert not book.adopt("r1", "T2")
    book.begin([order("r2", "http://h.test/2")])
    assert not book.adopt("r2", "T1"), "a task belongs to one order"
    assert not book.adopt("stranger", "T3")
    book.accepted(["r1"], "T9")
    assert book.held("b", URL).row.task_id == "T1"


def test_an_order_turns_stale_from_when_its_answer_was_lost(book: TaskBook) -> None:
    book.begin([order()])
    book.lost(["r1"], NOW + 60)
    assert book.held("b", URL).row.submitted_at == NOW + 60
    book.adopt("r1", "T1")
    book.lost(["r1"], NOW + 90)
    assert book.held("b", URL).row == order(state="open", task_id="T1", submitted_at=NOW + 60)


def test_an_event_of_a_batch_is_for_all_its_urls(book: TaskBook) -> None:
    book.begin([order("r1-0"), order("r1-1", "http://h.test/2"), order("r10-0", "http://h.test/3")])
    assert book.adopt("r1", "B1")
    assert book.targets("B1") == [URL, "http://h.test/2"]
    assert not book.adopt("%", "B2")


def test_each_event_counts_once_also_before_its_task_is_known(book: TaskBook) -> None:
    assert not book.announced("T1")
    assert book.seen("T1", "completed", NOW)
    assert not book.seen("T1", "completed", NOW + 1)
    assert book.seen("T1", "failed", NOW)
    assert book.announced("T1")


def test_texts_that_no_database_takes_do_no_harm(book: TaskBook) -> None:
    book.begin([order(url="http://h.test/\0")])
    assert book.held("b", "http://h.test/\0").row.url == "http://h.test/\ufffd"
    assert book.seen("T\0", "completed\0", NOW)


def test_a_ledger_without_tasks_is_brought_up(ledger, ledger_url) -> None:
    """As version 3 left it: without the tables, and attempts without the two columns."""
    fill(ledger, [URL])
    ledger.write([], [attempt(URL)])
    with ledger.writing() as connection:
        for statement in (
            "DROP TABLE tasks",
            "DROP TABLE events",
            "ALTER TABLE attempts DROP COLUMN mode",
            "ALTER TABLE attempts DROP COLUMN task",
            "DELETE FROM schema_version WHERE version > 3",
        ):
            connection.exec_driver_sql(statement)
    for _ in range(2):
        with Ledger.open(ledger_url) as opened, opened.reading() as connection:
            assert {"tasks", "events"} <= set(inspect(connection).get_table_names())
            (record,) = opened.attempts_of(URL, "b")
            assert (record.mode, record.task) == (None, None)
    with Ledger.open(ledger_url) as opened:
        opened.write([], [attempt(URL, n=2, mode="browser", task="r1")])
        assert opened.attempts_of(URL, "b")[1].task == "r1"
    assert Dialect(ledger_url).name
