"""The manifest against the ledger against the page store: what is lost is found, and got back."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from scrapy.settings import Settings

from retryscrape.crawl.check import Check, PagesElsewhereError
from retryscrape.ledger.orphans import key_of, path_of, read_index
from retryscrape.ledger.pagecheck import Finding, Flaw, PageRow, examine
from retryscrape.ledger.pages import page_path, write_index
from retryscrape.ledger.reconcile import Reconciler
from retryscrape.ledger.records import JobRow
from retryscrape.ledger.store import Ledger
from retryscrape.ledger.typed import typed_of
from retryscrape.manifest.read import read_urls
from retryscrape.policy.outcomes import ErrorClass, Outcome, Status
from tests.commandline import *  # noqa: F403
from tests.commandline import Project
from tests.hostile_fixture import *  # noqa: F403
from tests.ledger_fixtures import *  # noqa: F403
from tests.ledger_makers import NOW, attempt, failure, fill, success

BODY = b"<html><body>a page that is long enough</body></html>"
URL = "http://h.test/1"


class Store:
    """A batch ``b`` whose rows are successes with their pages on disk."""

    def __init__(self, ledger: Ledger, out: Path, urls: list[str]) -> None:
        self.ledger, self.out = ledger, out
        self.found: list[tuple[Flaw, str]] = []
        self.restored: list[str] = []
        fill(ledger, urls)
        for url in urls:
            self.put(url)

    def put(self, url: str, body: bytes = BODY, *, row: bool = True) -> Path:
        path = page_path("b", url, "text/html")
        target = self.out / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(body)
        if row:
            made = success(
                url,
                page_path=path,
                page_sha256=hashlib.sha256(body).hexdigest(),
                page_bytes=len(body),
                content_type="text/html",
            )
            self.ledger.write([made])
        return target

    def reconcile(self, *, repair: bool = True, vouched: bool = True) -> Reconciler:
        self.found, self.restored = [], []
        reconciler = Reconciler(
            ledger=self.ledger,
            batch_id="b",
            out=self.out,
            judge=lambda row, body: "it is a joke" if b"joke" in body else None,
            vouched=lambda job: vouched,
            found=lambda finding: self.found.append((finding.flaw, finding.url)),
            restored=lambda url, path: self.restored.append(url),
            now=NOW,
            repair=repair,
        )
        return reconciler

    def check(self, **options: bool) -> Reconciler:
        reconciler = self.reconcile(**options)
        reconciler.check_pages()
        reconciler.take_up()
        return reconciler


@pytest.fixture
def store(ledger: Ledger, tmp_path: Path) -> Store:
    return Store(ledger, tmp_path / "out", [f"http://h.test/{n}" for n in range(1, 6)])


# --- one page -----------------------------------------------------------------------------


def _row(body: bytes = BODY) -> PageRow:
    digest = hashlib.sha256(body).hexdigest()
    return PageRow(URL, "p.html", len(body), digest, "text/html", None, 200, "http", "j1")


@pytest.mark.parametrize(
    ("on_disk", "expected"),
    [
        (BODY, None),
        (None, Flaw.MISSING),
        (b"", Flaw.EMPTY),
        (b" \n\t" * 100, Flaw.EMPTY),
        (BODY[:-1], Flaw.DAMAGED),
        (BODY.replace(b"long", b"tall"), Flaw.DAMAGED),
    ],
)
def test_what_is_wrong_with_a_page(
    on_disk: bytes | None, expected: Flaw | None, tmp_path: Path
) -> None:
    if on_disk is not None:
        (tmp_path / "p.html").write_bytes(on_disk)
    finding = examine(str(tmp_path), _row(), None)
    assert (finding.flaw if finding else None) == expected


def test_a_whole_page_that_fails_todays_checks_is_malformed(tmp_path: Path) -> None:
    (tmp_path / "p.html").write_bytes(BODY)
    assert examine(str(tmp_path), _row(), lambda row, body: "no price") == Finding(
        flaw=Flaw.MALFORMED, url=URL, path="p.html", reason="no price"
    )


def test_a_page_larger_than_one_read_is_hashed_as_a_whole(tmp_path: Path) -> None:
    body = bytes(range(256)) * 4096
    (tmp_path / "p.html").write_bytes(body)
    assert (
        examine(str(tmp_path), _row(body), lambda row, whole: None if whole == body else "cut")
        is None
    )


@pytest.mark.parametrize(
    ("make", "flaw"),
    [
        (Path.mkdir, Flaw.DAMAGED),
        (os.mkfifo, Flaw.EMPTY),  # nobody writes into it: to read on would be to wait for ever
        (lambda path: path.symlink_to(path.name), Flaw.DAMAGED),
        (lambda path: path.symlink_to("nowhere"), Flaw.MISSING),
        (lambda path: path.symlink_to(__file__), Flaw.DAMAGED),
    ],
)
def test_what_is_no_page_in_the_place_of_one_is_found_and_no_crash(
    make: Callable[[Path], None], flaw: Flaw, tmp_path: Path
) -> None:
    make(tmp_path / "p.html")
    finding = examine(str(tmp_path), _row(), None)
    assert finding is not None
    assert finding.flaw is flaw


def test_a_file_in_the_place_of_the_folder_of_pages(store: Store) -> None:
    pages = store.out / "b" / "pages"
    pages.rename(store.out / "b" / "away")
    pages.touch()
    assert store.check().tally.flaws == {Flaw.MISSING: 5}


# --- a batch ------------------------------------------------------------------------------


def test_a_batch_that_is_whole_stays_as_it_is(store: Store) -> None:
    assert store.check().tally.clean
    assert store.found == []


def test_each_kind_of_damage_goes_back_to_the_worklist(store: Store) -> None:
    store.put("http://h.test/1", row=False).unlink()
    store.put("http://h.test/2", b"", row=False)
    store.put("http://h.test/3", b"another page", row=False)
    tally = store.check().tally
    assert tally.flaws == {Flaw.MISSING: 1, Flaw.EMPTY: 1, Flaw.DAMAGED: 1}
    row = store.ledger.entry("b", "http://h.test/3")
    assert row is not None
    assert (row.status, row.outcome, row.error_class, row.page_path) == (
        Status.FAILED,
        Outcome.NO_RESULT,
        ErrorClass.RETRYABLE,
        None,
    )
    assert row.reason == "reconcile: its page has 12 bytes instead of 52"


def test_a_damaged_page_is_set_aside_and_never_taken_for_a_lost_one(store: Store) -> None:
    page = store.put("http://h.test/3", b"another page", row=False)
    store.check()
    assert not page.exists()
    assert (
        store.out / "b" / "damaged" / page.parent.name / page.name
    ).read_bytes() == b"another page"
    second = store.check()
    assert second.tally.clean
    assert store.restored == []


def test_a_dry_run_changes_nothing(store: Store) -> None:
    page = store.put("http://h.test/3", b"another page", row=False)
    assert not store.check(repair=False).tally.clean
    assert page.exists()
    row = store.ledger.entry("b", "http://h.test/3")
    assert row is not None
    assert row.status is Status.SUCCESS


def test_a_page_that_other_checks_let_in_is_checked_again(store: Store) -> None:
    store.put("http://h.test/6", b"<html>a joke</html>")
    assert store.check(vouched=True).tally.clean
    store.check(vouched=False)
    assert store.found == [(Flaw.MALFORMED, "http://h.test/6")]


def test_a_page_whose_row_was_not_committed_is_taken_up_without_a_request(
    ledger: Ledger, tmp_path: Path
) -> None:
    """What a kill between page and row leaves behind."""
    store = Store(ledger, tmp_path, [])
    fill(ledger, [URL])
    store.put(URL, row=False)
    ledger.write([], [attempt(URL, 1, outcome=Outcome.OK, http_code=200)])
    assert store.check().tally.restored == 1
    row = ledger.entry("b", URL)
    assert row is not None
    assert (row.status, row.http_code, row.attempts) == (Status.SUCCESS, 200, 1)
    assert row.page_sha256 == hashlib.sha256(BODY).hexdigest()
    assert store.check().tally.clean


def test_a_failed_row_gets_the_page_back_that_was_its_own(store: Store) -> None:
    url = "http://h.test/9"
    store.put(url, row=False)
    store.ledger.write([failure(url)])
    store.check()
    assert store.restored == [url]


def test_a_lost_page_that_is_no_good_is_set_aside(store: Store) -> None:
    url = "http://h.test/9"
    page = store.put(url, b"<html>a joke</html>", row=False)
    store.ledger.write([failure(url)])
    store.check()
    assert store.found == [(Flaw.MALFORMED, url)]
    assert store.restored == []
    assert not page.exists()


def test_the_index_gives_pages_of_a_lost_ledger_their_urls_back(store: Store) -> None:
    url = "http://h.test/tab\tand\\slash"
    page = store.put(url, row=False)
    write_index(store.out / "b" / "index.tsv", [(str(page.relative_to(store.out)), url)])
    store.check()
    assert store.restored == [url]


def test_a_page_of_no_known_url_is_left_and_counted(store: Store) -> None:
    page = store.put("http://nobody.test/", row=False)
    assert store.check().tally.stray == 1
    assert page.exists()


def test_half_written_files_of_a_killed_run_go_away(store: Store) -> None:
    page = store.put("http://h.test/1", row=False)
    half = page.with_name(f".{page.name}.999.tmp")
    half.write_bytes(b"<html>")
    assert store.check().tally.leftovers == 1
    assert not half.exists()


def test_a_line_of_the_manifest_without_a_row_becomes_one(store: Store) -> None:
    reconciler = store.reconcile()
    lines = list(read_urls(" ".join(f"http://h.test/{n}" for n in range(1, 8)) + " not-a-url"))
    reconciler.compare("m.txt", lines)
    assert [url for _, url in store.found] == ["http://h.test/6", "http://h.test/7", "not-a-url"]
    row = store.ledger.entry("b", "http://h.test/6")
    assert row is not None
    assert (row.status, row.line) == (Status.PENDING, 6)
    again = store.reconcile()
    again.compare("m.txt", lines)
    assert again.tally.clean


def test_a_disk_that_is_not_mounted_costs_no_success(ledger: Ledger, tmp_path: Path) -> None:
    urls = [f"http://h.test/{n}" for n in range(101)]
    fill(ledger, urls)
    ledger.write([success(url, page_path=page_path("b", url, "text/html")) for url in urls])
    check = Check(ledger, "b", tmp_path, Settings())
    with pytest.raises(PagesElsewhereError, match="101 rows of batch b have a page"):
        check.run(NoSink())
    assert ledger.counts("b").by_status[Status.SUCCESS] == 101
    Check(ledger, "b", tmp_path, Settings(), force=True).run(NoSink())
    assert ledger.counts("b").by_status[Status.SUCCESS] == 0


class NoSink:
    """Nobody is interested in what is found."""

    def found(self, finding: Finding) -> None:
        pass

    def restored(self, url: str, path: str) -> None:
        pass


def test_a_long_check_in_several_processes_finds_what_one_would(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("retryscrape.ledger.split.WORTH", 1)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    for n in (1, 5):
        store.put(f"http://h.test/{n}", b"another page", row=False)
    tally = store.check().tally
    assert (tally.checked, tally.flaws) == (5, {Flaw.DAMAGED: 2})
    assert store.found == [(Flaw.DAMAGED, f"http://h.test/{n}") for n in (1, 5)]
    assert store.ledger.counts("b").by_status[Status.FAILED] == 2
    assert store.check().tally.clean


def test_names_and_keys_of_pages_agree() -> None:
    assert path_of("b", key_of(URL), 0).startswith(page_path("b", URL, None).rpartition(".")[0])


def test_an_index_reads_back_what_was_written(tmp_path: Path) -> None:
    urls = ["http://h.test/a\tb", "http://h.test/c\\d", "http://h.test/é"]
    write_index(tmp_path / "index.tsv", [("p", url) for url in urls])
    assert list(read_index(tmp_path / "index.tsv")) == urls
    assert list(read_index(tmp_path / "none.tsv")) == []


def test_what_was_typed_is_remembered_without_what_belongs_to_one_run() -> None:
    given = {"manifest": "m.txt", "_job": "x", "shard": "1/2", "require": ".price", "color": 3}
    job = JobRow(job_id="j", batch_id="b", started_at="", spider="products", arguments=given)
    typed = typed_of(job)
    assert (typed.spider, typed.arguments) == ("products", {"require": ".price", "color": "3"})


# --- the command --------------------------------------------------------------------------


def test_the_command_finds_lists_and_repairs(web, project: Project) -> None:
    urls = [web.url(f"/ok/{n}") for n in range(4)]
    manifest = project.manifest("m.txt", urls)
    assert project.crawl(manifest).code == 0
    project.sql("DELETE FROM entries WHERE url = ?", urls[0])
    (lost,) = project.sql("SELECT page_path FROM entries WHERE url = ?", urls[1])[0]
    (project.out / lost).unlink()

    done = project.scrapy("reconcile", "m", "--json")
    said = json.loads(done.out)
    assert done.code == 1
    assert said["counts"] == {
        "missing": 2, "empty": 0, "malformed": 0, "damaged": 0, "restored": 1,
    }  # fmt: skip
    assert [row["url"] for row in said["missing"]] == urls[:2]
    assert [row["url"] for row in said["restored"]] == urls[:1]
    assert [row["url"] for row in project.feed("m")] == [urls[1]]

    web.reset()
    assert project.crawl(manifest).code == 0
    assert [request["path"] for request in web.requests()] == ["/ok/1"]
    again = project.scrapy("reconcile", "m")
    assert again.code == 0
    assert "agree" in again.out


def test_the_command_says_what_is_wrong_with_its_argument(project: Project) -> None:
    assert project.crawl(project.manifest("m.txt", [])).code == 0
    done = project.scrapy("reconcile", "nosuch")
    assert (done.code, done.out) == (2, "")
    assert "There is no batch 'nosuch'; the ledger has: m." in done.err
