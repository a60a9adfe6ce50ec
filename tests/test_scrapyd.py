"""Under a real Scrapyd: deployed as an egg, scheduled over HTTP, cancelled, driven again."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import pytest

from retryscrape.hostile.process import WebHandle
from tests.checkout import bare_python, checkout, script
from tests.hostile_fixture import hostile_session, web
from tests.scrapyd_fixture import Scrapyd, clean_environment, scrapyd, scrapyd_server, until

__all__ = ["bare_python", "checkout", "hostile_session", "scrapyd", "scrapyd_server", "web"]


@pytest.fixture
def manifest(tmp_path: Path):
    """A function that writes a manifest and gives its absolute path."""

    def write(*urls: str, name: str = "list") -> str:
        path = tmp_path / f"{name}.txt"
        path.write_text("".join(f"{url}\n" for url in urls))
        return str(path)

    return write


def rows(out: Path, query: str, *values: str) -> list[tuple[Any, ...]]:
    with sqlite3.connect(out / "ledger.db") as ledger:
        return ledger.execute(query, values).fetchall()


def feed(out: Path, batch: str) -> list[dict[str, Any]]:
    lines = (out / batch / "failures.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


# --- the egg ----------------------------------------------------------------------


def test_the_egg_of_a_clean_checkout_holds_every_file_of_the_package(
    checkout: Path, tmp_path: Path
) -> None:
    egg = tmp_path / "project.egg"
    made = subprocess.run(
        [script("scrapyd-deploy"), "--build-egg", str(egg)],
        cwd=checkout,
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stdout + made.stderr
    held = set(zipfile.ZipFile(egg).namelist())
    package = {
        path.relative_to(checkout).as_posix()
        for path in (checkout / "retryscrape").rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    lists = {f"retryscrape/{path.relative_to(checkout)}" for path in checkout.glob("urls/*")}
    assert package | lists <= held
    assert not {name for name in held if name.startswith(("tests", "benchmarks"))}


def test_every_module_can_be_imported_from_the_egg(
    checkout: Path, bare_python: Path, tmp_path: Path
) -> None:
    egg = tmp_path / "project.egg"
    build = [script("scrapyd-deploy"), "--build-egg", str(egg)]
    subprocess.run(build, cwd=checkout, env=clean_environment(), capture_output=True, check=True)
    walk = (
        "import pkgutil, sys; sys.path.insert(0, sys.argv[1]); import retryscrape; "
        "assert sys.argv[1] in retryscrape.__file__; "
        "names = [m.name for m in pkgutil.walk_packages(retryscrape.__path__, 'retryscrape.')]; "
        "[__import__(n) for n in names if not n.endswith('__main__')]; "
        "assert 'twisted.internet.reactor' not in sys.modules; print(len(names))"
    )
    done = subprocess.run(
        [bare_python, "-c", walk, str(egg)],
        cwd=tmp_path,
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 80


def test_scrapyd_deploy_works_as_well_and_the_spiders_are_listed(scrapyd: Scrapyd) -> None:
    done = subprocess.run(
        [script("scrapyd-deploy"), "--version", "again"],
        cwd=scrapyd.checkout,
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "again" in scrapyd.get("listversions", project="retryscrape")["versions"]
    assert scrapyd.get("listspiders", project="retryscrape")["spiders"] == ["pages", "products"]


# --- a job ------------------------------------------------------------------------


def test_a_job_writes_where_its_setting_says_and_ends_its_log_with_the_summary(
    scrapyd: Scrapyd, web: WebHandle, manifest: Any, tmp_path: Path
) -> None:
    out = tmp_path / "data"
    listed = manifest(web.url("/ok/1"), web.url("/gone/2"))
    scrapyd.schedule("job-1", out, "LOG_LEVEL=INFO", manifest=listed, batch="night")
    log = scrapyd.finished("job-1")

    assert len(list((out / "night" / "pages").rglob("*.html"))) == 1
    assert [row["outcome"] for row in feed(out, "night")] == ["gone"]
    assert rows(out, "SELECT job_id, batch_id, finish_reason FROM jobs") == [
        ("job-1", "night", "finished")
    ]
    assert rows(out, "SELECT DISTINCT job_id FROM entries") == [("job-1",)]
    assert rows(out, "SELECT DISTINCT job_id FROM attempts") == [("job-1",)]
    last = log.splitlines()[-3:]
    assert last[0].endswith("Batch night: 1 gone, 1 ok")
    assert last[1].endswith(f"Failures feed: {out}/night/failures.jsonl")
    assert last[2].endswith("Nothing is left to re-drive (exit code 0)")
    assert "Traceback" not in log


def test_scrapyds_own_feed_is_written_too_and_ours_does_not_depend_on_it(
    scrapyd: Scrapyd, web: WebHandle, manifest: Any, tmp_path: Path
) -> None:
    scrapyd.schedule("feeds", tmp_path, manifest=manifest(web.url("/ok/1"), web.url("/gone/2")))
    scrapyd.finished("feeds")
    items = scrapyd.folder / "items" / "retryscrape" / "pages" / "feeds.jl"
    assert len(items.read_text().splitlines()) == 2
    assert len(feed(tmp_path, "list")) == 1


def test_the_failures_feed_is_driven_again_by_a_second_job(
    scrapyd: Scrapyd, web: WebHandle, manifest: Any, tmp_path: Path
) -> None:
    quick = ("RETRYSCRAPE_ATTEMPTS=1", "RETRYSCRAPE_LADDER=http")
    web.set_page("/mends", "out of order", 500)
    listed = manifest(web.url("/ok/1"), web.url("/mends"))
    scrapyd.schedule("first", tmp_path, *quick, manifest=listed)
    log = scrapyd.finished("first")
    failures = tmp_path / "list" / "failures.jsonl"
    assert log.splitlines()[-1].endswith(
        f"1 left to re-drive (exit code 1): scrapy crawl pages -a manifest={failures}"
    )

    web.set_page("/mends", "<html><body>" + "<p>It works again.</p>" * 60)
    scrapyd.schedule("second", tmp_path, *quick, manifest=str(failures))
    log = scrapyd.finished("second")
    assert log.splitlines()[-1].endswith("Nothing is left to re-drive (exit code 0)")
    assert feed(tmp_path, "list") == []
    assert len(web.requests(path="/ok/1")) == 1
    assert rows(tmp_path, "SELECT url, job_id, passes FROM entries ORDER BY url") == [
        (web.url("/mends"), "second", 2),
        (web.url("/ok/1"), "first", 1),
    ]


# --- manifests --------------------------------------------------------------------


def test_a_manifest_may_be_a_url(scrapyd: Scrapyd, web: WebHandle, tmp_path: Path) -> None:
    web.set_page("/lists/shop.txt", web.url("/ok/1") + "\n", type="text/plain")
    scrapyd.schedule("by-url", tmp_path, manifest=web.url("/lists/shop.txt"))
    scrapyd.finished("by-url")
    assert rows(tmp_path, "SELECT batch_id, outcome FROM entries") == [("shop", "ok")]


def test_urls_may_be_given_instead_of_a_manifest(
    scrapyd: Scrapyd, web: WebHandle, tmp_path: Path
) -> None:
    urls = f"{web.url('/ok/1')} {web.url('/ok/2')}"
    scrapyd.schedule("by-urls", tmp_path, urls=urls, batch="two")
    scrapyd.finished("by-urls")
    assert rows(tmp_path, "SELECT outcome FROM entries") == [("ok",), ("ok",)]


def test_the_projects_own_lists_are_found_in_the_egg(scrapyd: Scrapyd, tmp_path: Path) -> None:
    # Everything is parked by its shard: no host of a public list may be asked by a test.
    scrapyd.schedule("own", tmp_path, manifest="urls/demo.txt", shard="1/1000000")
    log = scrapyd.finished("own")
    assert "cannot be opened" not in log
    assert rows(tmp_path, "SELECT manifest FROM batches") == [("urls/demo.txt",)]


def test_a_usage_error_is_one_clear_line_that_says_what_was_tried(
    scrapyd: Scrapyd, tmp_path: Path
) -> None:
    scrapyd.schedule("wrong", tmp_path, manifest="urls/nothing.txt")
    log = scrapyd.finished("wrong")
    errors = [line for line in log.splitlines() if "] ERROR: " in line]
    assert len(errors) == 1
    tried = scrapyd.folder / "urls" / "nothing.txt"
    assert f"manifest urls/nothing.txt ({tried})" in errors[0]
    assert "package retryscrape has no urls/nothing.txt" in errors[0]
    assert "Traceback" not in log
    assert log.splitlines()[-1].endswith("Nothing was requested (exit code 2)")
    said = json.loads((tmp_path / "nothing" / "run.json").read_text())
    assert (said["job_id"], said["state"], said["exit_code"]) == ("wrong", "ended", 2)


@pytest.mark.parametrize(
    ("given", "settings", "sentence"),
    [
        ({}, (), "Argument manifest is missing"),
        ({"urls": "http://127.0.0.1/", "batch": "b", "min_text": "x"}, (), "Argument min_text"),
        ({"urls": "http://127.0.0.1/", "batch": "b"}, ("RETRYSCRAPE_ATTEMPTS=0",), "ATTEMPTS"),
    ],
)
def test_wrong_arguments_and_settings_are_one_line_too(
    scrapyd: Scrapyd,
    tmp_path: Path,
    given: dict[str, str],
    settings: tuple[str, ...],
    sentence: str,
) -> None:
    job = f"usage-{len(given)}-{len(settings)}"
    scrapyd.schedule(job, tmp_path, *settings, **given)
    log = scrapyd.finished(job)
    errors = [line for line in log.splitlines() if "] ERROR: " in line]
    assert [sentence in line for line in errors] == [True]
    assert "Traceback" not in log


# --- cancel -----------------------------------------------------------------------


def hanging(web: WebHandle) -> list[str]:
    """Pages of one host that come, and some of another that never do."""
    good = [web.url(f"/ok/{n}") for n in range(5)]
    return good + [web.url(f"/hang/{n}", "127.0.0.2") for n in range(6)]


def test_a_cancel_ends_the_job_cleanly_with_its_feed_written(
    scrapyd: Scrapyd, web: WebHandle, manifest: Any, tmp_path: Path
) -> None:
    scrapyd.schedule("cancel", tmp_path, manifest=manifest(*hanging(web)))
    until(lambda: scrapyd.log("cancel").count(" ok code=200") == 5, "five pages")
    scrapyd.cancel("cancel")
    log = scrapyd.finished("cancel")
    assert "Traceback" not in log
    assert "6 left to re-drive (exit code 130)" in log.splitlines()[-1]
    assert {row["url"] for row in feed(tmp_path, "list")} == set(hanging(web)[5:])
    said = json.loads((tmp_path / "list" / "run.json").read_text())
    assert (said["finish_reason"], said["exit_code"]) == ("shutdown", 130)


def test_a_second_cancel_loses_no_row_and_the_next_job_goes_on(
    scrapyd: Scrapyd, web: WebHandle, manifest: Any, tmp_path: Path
) -> None:
    listed = manifest(*hanging(web))
    scrapyd.schedule("twice", tmp_path, manifest=listed)
    until(lambda: scrapyd.log("twice").count(" ok code=200") == 5, "five pages")
    scrapyd.cancel("twice")
    until(lambda: "Closing spider" in scrapyd.log("twice"), "the first cancel to arrive")
    scrapyd.cancel("twice")
    log = scrapyd.finished("twice")
    assert "forcing unclean shutdown" in log
    assert rows(tmp_path, "PRAGMA integrity_check") == [("ok",)]
    assert {row["url"] for row in feed(tmp_path, "list")} == set(hanging(web)[5:])
    assert "6 left to re-drive" in log.splitlines()[-1]

    quick = ("DOWNLOAD_TIMEOUT=1", "RETRYSCRAPE_ATTEMPTS=1", "RETRYSCRAPE_LADDER=http")
    scrapyd.schedule("on", tmp_path, *quick, manifest=listed)
    scrapyd.finished("on")
    assert len(web.requests(path="/ok/*")) == 5
    counts = "SELECT status, count(*) FROM entries GROUP BY status ORDER BY status"
    assert rows(tmp_path, counts) == [("failed", 6), ("success", 5)]


def test_two_jobs_on_one_batch_do_not_mix(
    scrapyd: Scrapyd, web: WebHandle, manifest: Any, tmp_path: Path
) -> None:
    listed = manifest(*hanging(web))
    scrapyd.schedule("one", tmp_path, manifest=listed)
    until(lambda: scrapyd.log("one").count(" ok code=200") == 5, "five pages")
    scrapyd.schedule("other", tmp_path, manifest=listed)
    log = scrapyd.finished("other")
    assert "is being crawled by job one" in log
    assert log.splitlines()[-1].endswith("Nothing was requested (exit code 2)")
    said = json.loads((tmp_path / "list" / "run.json").read_text())
    assert (said["job_id"], said["state"]) == ("one", "running")
    scrapyd.cancel("one")
    scrapyd.finished("one")
