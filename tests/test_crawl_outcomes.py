"""The main job, proved by real crawls: every kind of page ends as the row it must end as.

The hostile web's own manifest (``scrapy demo`` crawls it too) says what to expect.
"""

from __future__ import annotations

import hashlib
import re

import pytest

from retryscrape.hostile import manifest as hostile
from tests.commandline import *  # noqa: F403
from tests.commandline import Done, Project
from tests.hostile_fixture import *  # noqa: F403

FEED_FIELDS = [
    "url", "batch_id", "status", "outcome", "error_class", "http_code", "vendor", "reason",
    "attempts", "passes", "cost", "rung", "escalate", "not_before", "last_error_at", "job_id",
    "final_url", "action", "fields",
]  # fmt: skip

#: Outcomes that no second pass may ask for again.
PERMANENT = {"gone", "refused", "rejected", "unexpected"}


def quiet(done: Done) -> None:
    """Remote failures are no errors of ours: no traceback, no ERROR line."""
    assert "Traceback" not in done.err
    assert " ERROR: " not in done.err
    assert "log_count/ERROR" not in done.err


def last_lines(done: Done) -> list[str]:
    """The last lines of the log, without time and logger."""
    return [re.sub(r"^.*?\[\w+\] \w+: ", "", line) for line in done.err.splitlines()[-8:]]


def asked(web) -> list[tuple[str, str]]:
    """Host and path of every page that was asked for."""
    return [(r["host"], r["path"]) for r in web.requests() if r["path"] != "/robots.txt"]


def test_every_kind_of_page_through_half_broken_proxies(web, project: Project, tmp_path) -> None:
    proxies = tmp_path / "proxies.txt"
    proxies.write_text(web.proxies(*hostile.DEMO_PROXIES))
    manifest = tmp_path / "demo.txt"
    manifest.write_text(hostile.text())
    settings = {
        "RETRYSCRAPE_PROXIES": str(proxies),
        "DOWNLOAD_TIMEOUT": str(hostile.DEMO_TIMEOUT),
        "DOWNLOAD_VERIFY_CERTIFICATES": "0",
        "ROBOTSTXT_OBEY": "1",
        "DOWNLOAD_MAXSIZE": "10000000",
    }

    first = project.crawl(manifest, settings=settings)

    assert first.code == 1, first.err
    quiet(first)
    wanted = {url: end.without_browser for url, end in hostile.expected().items()}
    rows = {
        row[0]: row[1:]
        for row in project.sql("SELECT url, outcome, status, vendor, error_class FROM entries")
    }
    assert {url: row[0] for url, row in rows.items()} == wanted
    for url, end in hostile.expected().items():
        if end.vendor:
            assert rows[url][2] == end.vendor, url
        assert (rows[url][1] == "success") == (end.without_browser == "ok")
    check_pages(project, "demo")
    check_feed(project, "demo", rows)
    end = last_lines(first)
    assert any(line.startswith("Batch demo: ") and f"{len(good(rows))} ok" in line for line in end)
    assert "scrapy crawl pages -a manifest=" in end[-1]
    assert "1 duplicate line" in first.err

    before = len(asked(web))
    feed = project.out / "demo" / "failures.jsonl"
    second = project.crawl(feed, settings=settings)

    assert second.code == 1
    quiet(second)
    again = {f"http://{host}{path}" for host, path in asked(web)[before:]}
    still_open = {url for url, row in rows.items() if row[3] not in (None, "permanent")}
    assert {url for url in again if "/loop" not in url} <= still_open
    assert not again & good(rows)
    now = dict(project.sql("SELECT url, outcome FROM entries"))
    assert set(now) == set(rows)
    assert all(now[url] == "ok" for url in good(rows))


def good(rows: dict[str, tuple]) -> set[str]:
    return {url for url, row in rows.items() if row[1] == "success"}


def check_pages(project: Project, batch: str) -> None:
    """One file per success, under its hash, as the row says; nothing else in ``pages/``."""
    pages = project.sql(
        "SELECT url, page_path, page_sha256, page_bytes FROM entries WHERE status='success'"
    )
    for url, path, sha256, size in pages:
        content = (project.out / path).read_bytes()
        digest = hashlib.sha256(url.encode()).hexdigest()[:16]
        assert path.startswith(f"{batch}/pages/{digest[:2]}/{digest}.")
        assert (hashlib.sha256(content).hexdigest(), len(content)) == (sha256, size)
    files = {path for path in (project.out / batch / "pages").rglob("*") if path.is_file()}
    assert files == {project.out / path for _, path, _, _ in pages}
    index = (project.out / batch / "index.tsv").read_text().splitlines()
    assert sorted(line.split("\t")[1] for line in index) == sorted(url for url, *_ in pages)


def check_feed(project: Project, batch: str, rows: dict[str, tuple]) -> None:
    """One line per row that is no success, with the fields of the contract in their order."""
    feed = project.feed(batch)
    assert all(list(line) == FEED_FIELDS for line in feed)
    assert {line["url"]: line["outcome"] for line in feed} == {
        url: row[0] for url, row in rows.items() if row[1] != "success"
    }
    assert all(line["action"] for line in feed)


def test_the_bytes_of_a_file_are_what_the_server_sent(web, project: Project) -> None:
    urls = [
        web.url(path) for path in ("/png/1", "/pdf/2", "/mislabelled/3", "/json/4", "/latin1/5")
    ]
    assert project.crawl(project.manifest("m.txt", urls)).code == 0
    kept = dict(project.sql("SELECT url, page_path FROM entries"))
    contents = {url: (project.out / path).read_bytes() for url, path in kept.items()}
    assert contents[urls[0]].startswith(b"\x89PNG\r\n\x1a\n")
    assert contents[urls[1]].startswith(b"%PDF-1.4")
    assert contents[urls[2]].startswith(b"\x89PNG")
    assert "Größe".encode("latin-1") in contents[urls[4]]
    assert [kept[url].rsplit(".")[-1] for url in urls[:2]] == ["png", "pdf"]
    assert kept[urls[3]].endswith(".json")


def test_a_second_run_asks_for_nothing_and_says_so(web, project: Project) -> None:
    manifest = project.manifest("m.txt", [web.url("/ok/1"), web.url("/gone/2")])
    assert project.crawl(manifest).code == 0
    again = project.crawl(manifest)
    assert again.code == 0
    assert "-a batch=NAME" in last_lines(again)[-1]
    assert "Nothing to do" in last_lines(again)[-1]
    assert len(asked(web)) == 2

    fresh = project.crawl(manifest, "-a", "batch=other")
    assert fresh.code == 0
    assert len(asked(web)) == 4
    assert project.sql("SELECT batch_id, count(*) FROM entries GROUP BY 1 ORDER BY 1") == [
        ("m", 2), ("other", 2),
    ]  # fmt: skip


def test_a_manifest_that_changed_is_said_and_new_lines_are_crawled(web, project: Project) -> None:
    manifest = project.manifest("m.txt", [web.url("/ok/1")])
    project.crawl(manifest)
    project.manifest("m.txt", [web.url("/ok/1"), web.url("/ok/2")])
    again = project.crawl(manifest)
    assert again.code == 0
    assert "not what the batch was made of" in again.err
    assert [path for _, path in asked(web)] == ["/ok/1", "/ok/2"]


def test_permanent_failures_are_asked_again_only_on_request(web, project: Project) -> None:
    manifest = project.manifest("m.txt", [web.url("/status/418"), web.url("/status/500")])
    settings = {"RETRYSCRAPE_ATTEMPTS": "1"}
    assert project.crawl(manifest, settings=settings).code == 1
    feed = project.out / "m" / "failures.jsonl"
    again = project.crawl(feed, settings=settings)
    assert "1 permanent failures not asked again" in again.err
    assert [path for _, path in asked(web)].count("/status/418") == 1
    project.crawl(feed, "-a", "include_permanent=1", settings=settings)
    assert [path for _, path in asked(web)].count("/status/418") == 2


@pytest.mark.parametrize(
    ("setting", "code"), [("unresolved", 1), ("redrivable", 0), ("any", 1), ("never", 0)]
)
def test_what_counts_as_a_failed_run_can_be_chosen(web, project, setting, code) -> None:
    manifest = project.manifest("m.txt", [web.url("/ok/1"), web.url("/status/418")])
    done = project.crawl(manifest, settings={"RETRYSCRAPE_FAIL_ON": setting})
    assert done.code == code


def test_the_users_own_spider(web, project: Project) -> None:
    """``products``: a page without a price is invalid; name and price go into the item."""
    good, bad = web.url("/product/1"), web.url("/ok/2")
    manifest = project.manifest("m.txt", [good, bad])
    items = project.folder / "items.jsonl"
    done = project.scrapy(
        "crawl", "products", "-a", f"manifest={manifest}", "-o", f"{items}:jsonlines"
    )
    assert done.code == 1, done.err
    assert dict(project.sql("SELECT url, outcome FROM entries")) == {good: "ok", bad: "invalid"}
    assert '"price"' in items.read_text()


BROKEN = """
from retryscrape.spiders.manifest import ManifestSpider


class Broken(ManifestSpider):
    name = "broken"

    def parse(self, response):
        if "/item" in response.url:
            yield {"bad": True}
        else:
            raise RuntimeError("parse made a mistake")


class Pipeline:
    def process_item(self, item):
        if isinstance(item, dict) and item.get("bad"):
            raise RuntimeError("pipeline made a mistake")
        return item
"""


def test_errors_of_the_users_code_are_no_failures_of_the_target(
    web, project: Project, monkeypatch
) -> None:
    (project.folder / "brokenspider.py").write_text(BROKEN)
    monkeypatch.setenv("PYTHONPATH", str(project.folder))
    for path in ("/item", "/raises"):
        web.set_page(path, "<html><body>" + "good " * 200)
    manifest = project.manifest("m.txt", [web.url("/item"), web.url("/raises")])
    done = project.scrapy(
        "crawl", "broken", "-a", f"manifest={manifest}",
        settings={
            "SPIDER_MODULES": "retryscrape.spiders,brokenspider",
            "ITEM_PIPELINES": '{"brokenspider.Pipeline": 10}',
        },
    )  # fmt: skip
    assert done.code == 1, done.err
    assert done.err.count("Traceback (most") == 2
    rows = project.sql("SELECT outcome, error_class, reason FROM entries ORDER BY url")
    assert [row[:2] for row in rows] == [("no_result", "retryable")] * 2
    assert "pipeline made a mistake" in rows[0][2]
    assert "parse made a mistake" in rows[1][2]
    assert len(asked(web)) == 2


def test_robots_txt_binds_every_url_that_waited_for_it(web, project: Project) -> None:
    """Asked for by the first URL of a host, waited for by the others, obeyed by all."""
    urls = [web.url(f"/private/{n}") for n in range(12)]
    done = project.crawl(project.manifest("m.txt", urls), settings={"ROBOTSTXT_OBEY": "1"})
    assert done.code == 0
    quiet(done)
    assert [r["path"] for r in web.requests()] == ["/robots.txt"]
    reasons = project.sql("SELECT outcome, reason, count(*) FROM entries GROUP BY 1, 2")
    assert reasons == [("refused", "robots.txt", 12)]
