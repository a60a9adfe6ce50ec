"""The HTML report: one page, and nothing that comes from a site or a manifest acts in it."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright
from scrapy.settings import Settings

from retryscrape.crawl.browser.executable import executable
from retryscrape.ledger.records import ExitRow, NewRow
from retryscrape.ledger.reportdata import Report, report_data
from retryscrape.ledger.store import Ledger
from retryscrape.policy.outcomes import ErrorClass, Outcome
from retryscrape.report.html import render_html
from tests.commandline import *  # noqa: F403
from tests.commandline import Project
from tests.ledger_fixtures import *  # noqa: F403
from tests.ledger_makers import NOW, attempt, failure, fill, parked, success

EXIT = "http://u***@127.0.0.1:1#3fa2c1"
HOSTILE = [
    'http://h.test/"onload="window.hit=1',
    "http://h.test/<script>window.hit=1</script>",
    "http://h.test/</style><img src=x onerror=window.hit=1>",
    "http://h.test/{{ 7*191 }}",
    "http://h.test/\u202egnp.exe",
    "javascript:window.hit=1",
]


def hostile(ledger: Ledger) -> Report:
    """A batch in which everything that others name tries to act."""
    fill(ledger, ["http://h.test/good", *HOSTILE[:-1]])
    bad = NewRow(url=HOSTILE[-1], line=9, rejected="unsupported scheme: <b>javascript</b>")
    ledger.add_rows("b", [bad], manifest="m.txt", read_to=9, job_id="j1", now=NOW)
    evil = "<script>window.hit=1</script>"
    ledger.start_job("j1", "b", "2026-01-01T00:00:00Z", arguments={"require": evil})
    ok = {"outcome": Outcome.OK, "http_code": 200, "vendor": None, "reason": None}
    gone = {"outcome": Outcome.GONE, "error_class": ErrorClass.PERMANENT, "http_code": 404}
    ledger.write(
        [
            success("http://h.test/good", attempts=2, cost=7.0, bytes=5000, host=evil),
            *(failure(url, reason=evil, vendor=evil, host=evil) for url in HOSTILE[:3]),
            failure(HOSTILE[3], host='"><svg/onload=window.hit=1>', **gone),
            parked(HOSTILE[4], until=NOW + 60, reason=evil),
        ],
        [
            attempt("http://h.test/good"),
            attempt("http://h.test/good", 2, rung=evil, waited=12.0, exit=EXIT, **ok),
            *(attempt(url, reason=evil, rung="browser", exit=evil) for url in HOSTILE[:3]),
        ],
    )
    page = '[{"host": "x</script>", "digest": "d", "urls": 7, "sample": "http://a/<b>",' + (
        ' "page_path": "b/p.html", "text": "<script>window.hit=1</script>"}]'
    )
    ledger.finish_job("j1", "2026-01-01T00:01:00Z", "finished", {"retryscrape/suspects": page})
    ledger.save_exits([ExitRow(exit=EXIT, ok=3.0, fail=1.0)])
    report = report_data(ledger, "b", now=NOW)
    assert report is not None
    return report


class Found(HTMLParser):
    """Every element of a page, with its attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))


def test_there_is_one_script_and_nothing_is_loaded_from_anywhere(ledger: Ledger) -> None:
    found = Found(render_html(hostile(ledger)))
    tags = [tag for tag, _ in found.elements]
    assert tags.count("script") == 1
    assert not {"img", "iframe", "link", "object", "embed", "base", "form", "b<"} & set(tags)
    names = {name for _, attributes in found.elements for name in attributes}
    assert not {name for name in names if name.startswith("on")}
    assert "src" not in names
    links = {attributes.get("href") for tag, attributes in found.elements if tag == "a"}
    assert all(link and link.startswith("http://h.test/") for link in links)


def test_the_policy_forbids_every_script_but_ours(ledger: Ledger) -> None:
    page = render_html(hostile(ledger))
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    assert "default-src &#39;none&#39;; script-src &#39;sha256-" in policy[1]


@pytest.fixture(scope="module")
def chromium():
    with sync_playwright() as playwright:
        path = executable(Settings())
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


def test_in_a_real_browser_nothing_acts_and_the_filter_works(
    ledger: Ledger, tmp_path: Path, chromium
) -> None:
    path = tmp_path / "report.html"
    path.write_text(render_html(hostile(ledger)), encoding="utf-8")
    page = chromium.new_page()
    asked: list[str] = []
    complaints: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(path.as_uri())
    assert page.evaluate("window.hit") is None
    assert asked == [path.as_uri()]
    assert complaints == []
    assert page.locator("figure svg").count() == 6
    rows = page.locator("#residue tbody tr:visible")
    assert rows.count() == 6
    page.fill("#words", "gnp")
    assert rows.count() == 1
    page.fill("#words", "")
    page.select_option("select[name=outcome]", "blocked")
    assert rows.count() == 3
    page.close()


def test_an_empty_batch_has_a_page(ledger: Ledger) -> None:
    fill(ledger, [])
    report = report_data(ledger, "b", now=NOW)
    assert report is not None
    assert "There are no rows" in render_html(report)


def test_the_command_writes_the_file_and_says_where(project: Project) -> None:
    project.out.mkdir()
    with Ledger.open(str(project.out / "ledger.db")) as ledger:
        hostile(ledger)
    target = project.folder / "new" / "report.html"
    done = project.scrapy("report", "b", "--html", str(target))
    assert (done.code, done.out) == (0, f"The report is in {target}\n")
    assert target.read_text(encoding="utf-8").startswith("<!doctype html>")
    refused = project.scrapy("report", "b", "--html", str(project.folder))
    assert refused.code == 2
    assert "cannot be written: it is a folder" in refused.err
