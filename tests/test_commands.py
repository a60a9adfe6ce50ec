"""``report``, ``failures``, ``explain`` and ``classify``, as people type them."""

from __future__ import annotations

import json

import pytest
from scrapy.utils.project import get_project_settings

from retryscrape.crawl.faults import FetchError
from retryscrape.crawl.saved import SavedPageError, fetch_page
from tests.commandline import *  # noqa: F403
from tests.commandline import Project
from tests.hostile_fixture import *  # noqa: F403


@pytest.fixture
def crawled(web, project: Project) -> Project:
    """A batch with a success, a page that is gone and one that fails."""
    urls = [web.url("/ok/1"), web.url("/gone/2"), web.url("/block/cloudflare-deny")]
    project.crawl(project.manifest("m.txt", urls))
    return project


def test_what_is_said_of_a_batch(web, crawled: Project) -> None:
    report = crawled.scrapy("report", "m")
    assert report.code == 0, report.err
    for word in ("cloudflare", "gone", "127.0.0.1"):
        assert word in report.out

    as_json = json.loads(crawled.scrapy("report", "m", "--json").out)
    assert as_json

    feed = crawled.out / "m" / "failures.jsonl"
    before = feed.read_text()
    feed.unlink()
    assert crawled.scrapy("failures", "m").code == 0
    assert feed.read_text() == before

    explained = crawled.scrapy("explain", web.url("/block/cloudflare-deny"))
    assert explained.code == 0, explained.err
    assert "cloudflare" in explained.out
    assert explained.out.count("403") >= 1


@pytest.mark.parametrize(
    "words",
    [
        ("report", "no-such-batch"),
        ("failures", "no-such-batch"),
        ("explain", "http://127.0.0.1/never-asked"),
        ("explain", "http://127.0.0.1/", "--batch", "no-such-batch"),
        ("report",),
        ("explain",),
        ("classify",),
        ("classify", "no-such-file.html"),
    ],
)
def test_errors_are_one_sentence(crawled: Project, words: tuple[str, ...]) -> None:
    done = crawled.scrapy(*words)
    assert done.code != 0
    assert "Traceback" not in done.err + done.out
    assert (done.err + done.out).strip()


def test_a_ledger_that_is_not_there(project: Project) -> None:
    for command in ("report", "failures"):
        done = project.scrapy(command, "m")
        assert done.code == 2, command
        assert "Traceback" not in done.err
    assert not project.out.exists()


def test_a_saved_page_is_classified(project: Project) -> None:
    page = project.folder / "page.html"
    page.write_text("<html><head><title>Just a moment...</title></head><body></body></html>")
    done = project.scrapy("classify", str(page))
    assert done.code == 0, done.err
    assert "blocked" in done.out
    assert "cloudflare" in done.out
    assert "just a moment" in done.out.lower()


def test_a_live_page_is_classified_as_a_crawl_would(web, project: Project) -> None:
    """What cannot be decoded is no good page, and a URL's own password is sent, not shown."""
    settings = get_project_settings()
    for path, reason in (("/cutgzip/1", "truncated"), ("/shortlength/1", "truncated")):
        with pytest.raises(FetchError) as fault:
            fetch_page(web.url(path), settings)
        assert fault.value.reason == reason
    url = web.url("/ok/a b").replace("//", "//bob:h1dd3n@", 1)
    assert fetch_page(url, settings).status == 200
    sent = {name.lower(): value for name, value in web.requests()[-1]["headers"]}
    assert sent["authorization"] == "Basic Ym9iOmgxZGQzbg=="
    with pytest.raises(SavedPageError) as error:
        fetch_page("http://bob:h1dd3n@127.0.0.1:1/", settings)
    assert "h1dd3n" not in str(error.value)


def test_scrapys_own_commands_work_beside_ours(web, project: Project) -> None:
    """``shell`` runs its engine on another thread, on which no signal may be listened to."""
    shell = project.scrapy("shell", web.url("/ok/1"), "-c", "response.status")
    fetch = project.scrapy("fetch", web.url("/ok/1"))
    assert shell.out.strip() == "200"
    assert "<html" in fetch.out
    assert "Traceback" not in shell.err + fetch.err
