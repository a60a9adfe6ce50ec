"""Today's rules over yesterday's attempts: which rows would now end otherwise."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from retryscrape.ledger.pages import page_path
from retryscrape.ledger.replay import Change, Replayer, Rules, Tally
from retryscrape.ledger.store import Ledger
from retryscrape.policy.classify import classify
from retryscrape.policy.decide import Limits
from retryscrape.policy.ladder import Ladder
from retryscrape.policy.outcomes import Checks, ErrorClass, Outcome, Page, Status, Verdict
from tests.commandline import *  # noqa: F403
from tests.commandline import Project
from tests.hostile_fixture import *  # noqa: F403
from tests.ledger_fixtures import *  # noqa: F403
from tests.ledger_makers import NOW, attempt, failure, fill, success

URL = "http://h.test/1"
GOOD = (
    b"<html><body><h1>An article</h1><p>" + b"with words of its own " * 50 + b"</p></body></html>"
)
WALL = b"<html><body>acme-wall" + b" you shall not pass" * 50 + b"</body></html>"
PERMANENT = ErrorClass.PERMANENT


class Batch:
    """A batch of one URL, and today's rules."""

    def __init__(self, ledger: Ledger, out: Path) -> None:
        self.ledger, self.out = ledger, out
        self.ladder = Ladder(("http",), frozenset({"http"}))
        self.judge: Callable[[Page], Verdict] = lambda page: classify(page, Checks(min_text=100))
        self.changes: list[Change] = []
        fill(ledger, [URL])

    def page(self, body: bytes) -> None:
        """A success with its page."""
        path = page_path("b", URL, "text/html")
        self._file(path, body)
        row = success(URL, page_path=path, page_bytes=len(body), content_type="text/html")
        row = replace(row, page_sha256=hashlib.sha256(body).hexdigest(), attempts=1)
        ok = {"outcome": Outcome.OK, "http_code": 200, "evidence": "status:200"}
        self.ledger.write([row], [attempt(URL, **ok)])

    def failed(
        self, outcome: Outcome, klass: ErrorClass, body: bytes = b"", **last: object
    ) -> None:
        """A failure, with the body of its last attempt if there is one."""
        if body:
            path = page_path("b", URL, "text/html").replace("/pages/", "/blocked/")
            self._file(path, body)
        record = attempt(URL, outcome=outcome, vendor=None, **last)
        row = failure(URL, outcome=outcome, error_class=klass, http_code=record.http_code)
        self.ledger.write([row], [record])

    def _file(self, path: str, body: bytes) -> None:
        (self.out / path).parent.mkdir(parents=True, exist_ok=True)
        (self.out / path).write_bytes(body)

    def replay(self, *, apply: bool = False) -> Tally:
        self.changes = []
        rules = Rules(classify=self.judge, limits=Limits(), ladder=self.ladder, price=lambda _: 2.0)
        return Replayer(
            ledger=self.ledger, batch_id="b", out=self.out, rules=rules,
            changed=self.changes.append, now=NOW, apply=apply,
        ).run()  # fmt: skip


@pytest.fixture
def batch(ledger: Ledger, tmp_path: Path) -> Batch:
    return Batch(ledger, tmp_path)


def knows_the_wall(page: Page) -> Verdict:
    """Today's signatures: one more than yesterday's."""
    if b"acme-wall" in page.body:
        return Verdict(outcome=Outcome.BLOCKED, http_code=page.status, vendor="acme", reason="wall")
    return classify(page, Checks(min_text=100))


def test_the_same_rules_change_nothing(batch: Batch) -> None:
    batch.page(WALL)
    tally = batch.replay()
    assert (tally.pages, tally.changes.total(), batch.changes) == (1, 0, [])


def test_a_new_signature_finds_block_pages_among_the_successes(batch: Batch) -> None:
    batch.page(WALL)
    batch.judge = knows_the_wall
    batch.replay()
    (change,) = batch.changes
    assert (change.was, change.now, change.reopen) == ("ok", "blocked (acme)", True)


@pytest.mark.parametrize("instead", [os.mkfifo, os.mkdir], ids=["a pipe", "a folder"])
def test_what_is_no_file_is_not_waited_for(batch: Batch, instead: Callable[[str], None]) -> None:
    batch.page(WALL)
    path = batch.out / page_path("b", URL, "text/html")
    path.unlink()
    instead(str(path))
    tally = batch.replay()
    assert (tally.pages, batch.changes) == (0, [])  # it is a matter for reconcile


def test_apply_puts_the_row_back_and_its_page_aside(batch: Batch) -> None:
    batch.page(WALL)
    batch.judge = knows_the_wall
    assert batch.replay(apply=True).reopened == 1
    row = batch.ledger.entry("b", URL)
    assert row is not None
    assert (row.status, row.error_class) == (Status.FAILED, ErrorClass.RETRYABLE)
    assert row.reason == "replay: wall"
    assert list((batch.out / "b" / "pages").rglob("*.html")) == []
    assert len(list((batch.out / "b" / "damaged").rglob("*.html"))) == 1
    assert batch.replay(apply=True).changes == {}


def test_a_blocked_page_that_is_none_any_more_goes_back(batch: Batch) -> None:
    batch.failed(Outcome.BLOCKED, PERMANENT, GOOD, http_code=200, evidence="title:an article")
    tally = batch.replay(apply=True)
    assert (tally.bodies, tally.reopened) == (1, 1)
    assert (batch.changes[0].was, batch.changes[0].now) == ("blocked, permanent", "ok")


def test_what_a_header_said_cannot_be_told_again_and_stands(batch: Batch) -> None:
    batch.failed(
        Outcome.BLOCKED, ErrorClass.RETRYABLE, GOOD, http_code=200, evidence="header:cf-mitigated"
    )
    assert batch.replay().changes == {}


def test_a_check_that_was_loosened_lets_invalid_pages_in(batch: Batch) -> None:
    batch.failed(Outcome.INVALID, PERMANENT, GOOD, http_code=200, evidence="check:min_text")
    batch.replay()
    assert [(c.was, c.now) for c in batch.changes] == [("invalid, permanent", "ok")]


def test_a_rung_that_was_added_would_go_on_where_the_row_was_given_up(batch: Batch) -> None:
    batch.failed(Outcome.EMPTY, PERMANENT, http_code=200, evidence="status:200")
    assert batch.replay().changes == {}
    batch.ladder = Ladder(("http", "browser"), frozenset({"http", "browser"}))
    batch.replay()
    assert [(c.now, c.reopen) for c in batch.changes] == [("empty, next on browser", True)]


def test_a_status_that_means_something_else_today(batch: Batch) -> None:
    batch.failed(Outcome.UNEXPECTED, PERMANENT, http_code=404, evidence="status:404")
    batch.replay()
    assert [(c.was, c.now) for c in batch.changes] == [("unexpected, permanent", "gone, permanent")]
    assert batch.replay(apply=True).reopened == 0


@pytest.mark.parametrize(
    ("outcome", "klass", "last"),
    [
        (Outcome.GONE, PERMANENT, {"http_code": 404, "evidence": "status:404"}),
        (Outcome.REFUSED, PERMANENT, {"http_code": 451, "evidence": "status:451"}),
        (Outcome.BLOCKED, ErrorClass.RETRYABLE, {"http_code": 403, "evidence": "status:403"}),
        (
            Outcome.THROTTLED,
            ErrorClass.BACKOFF_REQUIRED,
            {"http_code": 503, "evidence": "status:503"},
        ),
        (
            Outcome.TARGET_ERROR,
            ErrorClass.BACKOFF_REQUIRED,
            {"http_code": 503, "evidence": "status:503"},
        ),
        (
            Outcome.NETWORK_ERROR,
            ErrorClass.RETRYABLE,
            {"http_code": None, "evidence": None, "reason": "timeout"},
        ),
        (Outcome.PROXY_ERROR, ErrorClass.RETRYABLE, {"http_code": None, "evidence": None}),
        (Outcome.EMPTY, PERMANENT, {"http_code": 204, "evidence": "status:204"}),
    ],
)
def test_failures_of_every_kind_end_as_they_did(
    batch: Batch, outcome: Outcome, klass: ErrorClass, last: dict[str, object]
) -> None:
    batch.failed(outcome, klass, **last)
    tally = batch.replay()
    assert (tally.failures, batch.changes) == (1, [])


def test_the_command_after_a_crawl(project: Project, web) -> None:
    pages = [web.url(f"/ok/{n}") for n in range(3)]
    manifest = project.manifest("b.txt", [*pages, web.url("/gone/plain")])
    assert project.crawl(manifest).code == 0
    same = project.scrapy("replay", "b")
    assert (same.code, "Every row would end as it did." in same.out) == (0, True)
    found = project.scrapy("replay", "b", "-a", "require=.price", "--json")
    assert found.code == 1
    said = json.loads(found.out)
    assert (said["pages"], said["changed"], said["reopened"]) == (3, 3, 0)
    assert {row["url"] for row in said["rows"]} == set(pages)
    applied = project.scrapy("replay", "b", "-a", "require=.price", "--apply")
    assert "3 rows are back on the worklist: scrapy redrive b" in applied.out
    assert len(project.feed("b")) == 4
    assert project.crawl(manifest).code == 0
    assert len(project.feed("b")) == 1
