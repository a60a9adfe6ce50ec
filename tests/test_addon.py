"""The add-on in somebody's existing project (tests/projects/shop): one line, and it works."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from scrapy import Request, Spider
from scrapy.settings import Settings
from scrapy.utils.test import get_crawler

from retryscrape.addon import Retryscrape
from retryscrape.crawl.browser.executable import executable
from retryscrape.crawl.runtime import Run
from retryscrape.crawl.theirbrowser import TheirBrowser
from retryscrape.crawl.wishes import KEYS, retries_of
from retryscrape.hostile.process import WebHandle
from tests.hostile_fixture import hostile_session, proxies_file, web

__all__ = ["hostile_session", "proxies_file", "web"]

SHOP = Path(__file__).parent / "projects" / "shop"

#: Quick retries, and no browser: what is tested here has nothing to do with it.
QUICK = {
    "RETRYSCRAPE_BACKOFF_BASE": "0.05",
    "RETRYSCRAPE_LADDER": "http",
    "RETRYSCRAPE_THROTTLE_BASE": "0.2",
    "RETRYSCRAPE_HOST_BLOCKS": "50",
}


@dataclass(frozen=True)
class Ran:
    """A crawl of the sample project that has ended."""

    items: list[dict[str, Any]]
    log: str
    folder: Path

    def by_path(self) -> dict[str, dict[str, Any]]:
        return {"/" + item["url"].split("/", 3)[3]: item for item in self.items}


@pytest.fixture
def shop(tmp_path: Path):
    """A function that crawls with a spider of the sample project."""
    folder = tmp_path / "shop"
    shutil.copytree(SHOP, folder, ignore=shutil.ignore_patterns("__pycache__"))

    def crawl(spider: str, settings: dict[str, str] | None = None, **arguments: str) -> Ran:
        feed = folder / "items.jsonl"
        command = [sys.executable, "-m", "scrapy", "crawl", spider, "-O", str(feed)]
        for name, value in {**QUICK, **(settings or {})}.items():
            command += ["-s", f"{name}={value}"]
        for name, value in arguments.items():
            command += ["-a", f"{name}={value}"]
        env = {k: v for k, v in os.environ.items() if not k.startswith("SCRAPY")}
        done = subprocess.run(
            command, cwd=folder, env=env, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stderr
        lines = feed.read_text().splitlines() if feed.exists() else []
        return Ran([json.loads(line) for line in lines], done.stderr, folder)

    return crawl


def visit(url: str, **meta: Any) -> dict[str, Any]:
    return {"url": url, "meta": meta}


# --- every request ----------------------------------------------------------------


def test_retries_and_classification_work_and_scrapys_own_keys_are_kept(
    shop: Any, web: WebHandle
) -> None:
    visits = [
        visit(web.url("/status/503/mends?times=1")),
        visit(web.url("/status/500/stays")),
        visit(web.url("/status/500/once?times=1"), dont_retry=True),
        visit(web.url("/status/500/twice"), max_retry_times=1),
        visit(web.url("/gone/plain")),
        visit(web.url("/gone/handled"), handle_httpstatus_list=[404]),
        visit(web.url("/nocontent/1")),
        visit(web.url("/hiddenchallenge/1")),
        visit(web.url("/hiddenchallenge/2"), handle_httpstatus_all=True),
        visit(web.url("/reset/mends?times=1")),
    ]
    ran = shop("visits", {"RETRYSCRAPE_ATTEMPTS": "3"}, visits=json.dumps(visits))
    found = ran.by_path()
    assert len(found) == len(visits)
    assert found["/status/503/mends?times=1"]["status"] == 200
    assert found["/reset/mends?times=1"]["status"] == 200
    assert found["/gone/handled"]["status"] == 404
    assert found["/gone/handled"]["outcome"] == "gone"
    assert found["/nocontent/1"]["status"] == 204
    # the failures come as Scrapy's do, with the response
    for path in ("/status/500/stays", "/status/500/once?times=1", "/status/500/twice"):
        assert (found[path]["failed"], found[path]["status"]) == ("HttpError", 500)
    assert found["/gone/plain"]["failed"] == "HttpError"
    # a block page with a good status is no page
    assert (found["/hiddenchallenge/1"]["failed"], found["/hiddenchallenge/1"]["status"]) == (
        "GaveUp",
        200,
    )
    assert found["/hiddenchallenge/2"]["outcome"] == "blocked"
    asked = {path: len(web.requests(path=path)) for path in ("/status/500/once*", "/nocontent/1")}
    assert asked == {"/status/500/once*": 1, "/nocontent/1": 1}
    assert len(web.requests(path="/status/500/twice")) == 2
    assert len(web.requests(path="/gone/plain")) == 1
    # their pipeline and middleware are untouched; no ledger was asked for
    assert sorted(item["number"] for item in ran.items) == list(range(1, len(visits) + 1))
    assert web.requests(path="/nocontent/1")[0]["headers"].count(["X-Shop", "1"]) == 1
    assert not (ran.folder / "out").exists()
    assert "Traceback" not in ran.log


def test_a_challenge_is_rendered_and_what_is_no_get_is_not(shop: Any, web: WebHandle) -> None:
    visits = [
        visit(web.url("/challenge/1")),
        {"url": web.url("/challenge/2"), "method": "POST"},
        visit(web.url("/challenge/3"), retryscrape_ladder=["http"], max_retry_times=0),
    ]
    ran = shop("visits", {"RETRYSCRAPE_LADDER": "http,browser"}, visits=json.dumps(visits))
    found = ran.by_path()
    assert found["/challenge/1"]["status"] == 200
    assert "Just a moment" not in found["/challenge/1"]["text"]
    assert found["/challenge/2"]["failed"] == found["/challenge/3"]["failed"] == "HttpError"


def test_meta_that_is_handed_on_takes_nothing_of_ours_along(shop: Any, web: WebHandle) -> None:
    visits = [
        visit(
            web.url("/status/503/first?times=1"),
            then=web.url("/status/503/second?times=1"),
            download_slot="theirs",
            cookiejar=7,
        )
    ]
    ran = shop("visits", visits=json.dumps(visits))
    assert [item["status"] for item in ran.items] == [200, 200]
    assert len(web.requests(path="/status/503/*")) == 4


def test_requests_have_their_own_wishes(shop: Any, web: WebHandle) -> None:
    visits = [
        visit(web.url("/status/500/one"), retryscrape_attempts=1),
        visit(web.url("/status/500/wrong"), retryscrape_attempts="many", max_retry_times=0),
        visit(web.url("/ok/1"), retryscrape_require="h1.price", max_retry_times=0),
        visit(web.url("/ok/2"), retryscrape_require="h1"),
    ]
    ran = shop("visits", visits=json.dumps(visits))
    assert len(web.requests(path="/status/500/one")) == 1
    assert "Request.meta['retryscrape_attempts'] of <GET" in ran.log
    assert ran.by_path()["/ok/1"]["outcome"] == "invalid"
    assert ran.by_path()["/ok/2"]["outcome"] is None


def test_requests_leave_by_the_exits_and_a_proxy_of_their_own_wins(
    shop: Any, web: WebHandle, proxies_file: Any
) -> None:
    visits = [
        visit("http://ban.test/ok/1"),
        visit("http://ban.test/ok/2"),
        visit("http://shop.test/ok/own", proxy=web.proxy("auth1")),
    ]
    settings = {"RETRYSCRAPE_PROXIES": str(proxies_file("good1", "good2"))}
    ran = shop("visits", settings, visits=json.dumps(visits))
    assert [item["status"] for item in ran.items] == [200, 200, 200]
    clients = {request["client"] for request in web.requests(path="/ok/*", host="ban.test")}
    assert clients == {web.exit("good1"), web.exit("good2")} or clients == {web.exit("good2")}
    [own] = web.requests(path="/ok/own")
    assert own["client"] == web.exit("auth1")
    assert "proxy-authorization" not in {name.lower() for name, _ in own["headers"]}


@pytest.mark.parametrize("order", [400, 720], ids=["before ours", "after ours"])
def test_a_proxy_that_a_middleware_of_theirs_sets_wins_and_none_is_no_way_out(
    shop: Any, web: WebHandle, proxies_file: Any, order: int
) -> None:
    visits = [visit(f"http://shop.test/ok/{name}") for name in ("own-proxy", "no-proxy", "any")]
    settings = {
        "RETRYSCRAPE_PROXIES": str(proxies_file("auth1")),
        "SHOP_PROXY": web.proxy("good1"),
        "DOWNLOADER_MIDDLEWARES": json.dumps({"shop.middlewares.ProxyMiddleware": order}),
    }
    ran = shop("visits", settings, visits=json.dumps(visits))
    assert [item["status"] for item in ran.items] == [200, 200, 200]
    left_by = {request["path"]: request["client"] for request in web.requests(path="/ok/*")}
    assert left_by == {
        "/ok/own-proxy": web.exit("good1"),
        "/ok/no-proxy": web.exit("auth1"),
        "/ok/any": web.exit("auth1"),
    }
    # and no proxy is told another one's password
    heads = [head for seen in web.connections("good1") for head in seen["requests"]]
    assert {head["credentials"] for head in heads} == {None}


def test_what_their_scrapy_playwright_renders_leaves_by_the_exits(
    shop: Any, web: WebHandle, proxies_file: Any
) -> None:
    handler = "scrapy_playwright.handler.ScrapyPlaywrightDownloadHandler"
    launch = {"executable_path": executable(Settings()), "args": ["--no-sandbox"]}
    settings = {
        "DOWNLOAD_HANDLERS": json.dumps(dict.fromkeys(("http", "https"), handler)),
        "PLAYWRIGHT_LAUNCH_OPTIONS": json.dumps(launch),
        "RETRYSCRAPE_PROXIES": str(proxies_file("auth1")),
    }
    own = {"proxy": {"server": web.proxy("good1")}}
    visits = [
        visit("http://shop.test/ok/exit", playwright=True),
        visit("http://shop.test/status/503/again?times=1", playwright=True),
        visit(
            "http://shop.test/ok/own",
            playwright=True,
            playwright_context="mine",
            playwright_context_kwargs=own,
        ),
    ]
    ran = shop("visits", settings, visits=json.dumps(visits))
    assert [item.get("status") for item in ran.items] == [200, 200, 200], ran.log
    by_path = {request["path"]: request for request in web.requests(host="shop.test")}
    assert by_path["/ok/own"]["client"] == web.exit("good1")
    assert by_path["/ok/exit"]["client"] == web.exit("auth1")
    assert by_path["/status/503/again?times=1"]["client"] == web.exit("auth1")
    assert "proxy-authorization" not in json.dumps(web.requests(host="shop.test")).lower()


def test_exits_that_their_scrapy_playwright_has_no_context_for_are_refused() -> None:
    handler = "scrapy_playwright.handler.ScrapyPlaywrightDownloadHandler"
    own = {"DOWNLOAD_HANDLERS": {"https": handler}, "PLAYWRIGHT_MAX_CONTEXTS": 3}
    theirs = TheirBrowser(Settings(own))
    assert theirs.complaint(3) is None
    assert "PLAYWRIGHT_MAX_CONTEXTS is 3" in (theirs.complaint(4) or "")
    assert theirs.renders(Request("https://a.test/", meta={"playwright": True}))
    assert not theirs.renders(Request("http://a.test/", meta={"playwright": True}))
    assert not TheirBrowser(Settings()).renders(Request("https://a.test/", meta={"playwright": 1}))


# --- their own parts --------------------------------------------------------------


@pytest.mark.parametrize(
    "own",
    [
        {},
        {"SCHEDULER": "shop.scheduling.OwnScheduler"},
        {"DOWNLOADER": "shop.scheduling.OwnDownloader"},
        {
            "SCHEDULER": "shop.scheduling.OwnScheduler",
            "DOWNLOADER": "shop.scheduling.OwnDownloader",
        },
    ],
    ids=["ours", "scheduler", "downloader", "both"],
)
def test_waits_are_kept_whoever_schedules(shop: Any, web: WebHandle, own: dict[str, str]) -> None:
    visits = [visit(web.url("/throttle/1?after=1&times=1")), visit(web.url("/ok/1", "127.0.0.2"))]
    ran = shop("visits", own, visits=json.dumps(visits))
    assert [item["status"] for item in ran.items] == [200, 200]
    first, second = (request["time"] for request in web.requests(path="/throttle/1*"))
    assert 1.0 <= second - first < 4.0
    for name in ("SCHEDULER", "DOWNLOADER"):
        said = ran.log.count(f"Setting {name} of this project stays as it is")
        assert said == (1 if name in own else 0)


def test_a_manifest_is_crawled_with_their_scheduler_too(
    shop: Any, web: WebHandle, tmp_path: Path
) -> None:
    own = {
        "SCHEDULER": "shop.scheduling.OwnScheduler",
        "DOWNLOADER": "shop.scheduling.OwnDownloader",
    }
    urls = f"{web.url('/ok/1')} {web.url('/status/503/x?times=1')} {web.url('/gone/1')}"
    ran = shop("listed", own, urls=urls, batch="b")
    counts = rows(ran, "SELECT outcome, count(*) FROM entries GROUP BY outcome ORDER BY outcome")
    assert counts == [("gone", 1), ("ok", 2)]


def test_their_download_handler_fetches_and_retries_still_work(shop: Any, web: WebHandle) -> None:
    handlers = json.dumps(dict.fromkeys(("http", "https"), "shop.handlers.OwnHandler"))
    visits = [visit(web.url("/status/503/x?times=1")), visit(web.url("/hiddenchallenge/1"))]
    settings = {"DOWNLOAD_HANDLERS": handlers, "RETRYSCRAPE_LADDER": "http,browser"}
    ran = shop("visits", settings, visits=json.dumps(visits))
    found = ran.by_path()
    assert found["/status/503/x?times=1"]["own"] is True
    assert found["/hiddenchallenge/1"]["failed"] == "GaveUp"


def test_a_page_that_their_cache_holds_is_not_tried_again_out_of_it(
    shop: Any, web: WebHandle
) -> None:
    visits = json.dumps([visit(web.url("/status/503/x?times=1")), visit(web.url("/ok/1"))])
    cache = {"HTTPCACHE_ENABLED": "1"}
    assert [item["status"] for item in shop("visits", cache, visits=visits).items] == [200, 200]
    again = shop("visits", cache, visits=visits)
    assert [item["status"] for item in again.items] == [200, 200]
    assert len(web.requests(path="/ok/1")) == 1


def test_their_cookies_stay_with_them(shop: Any, web: WebHandle) -> None:
    web.set_page("/login", "<p>hello</p>", headers={"Set-Cookie": "session=abc; Path=/"})
    ran = shop("login", first=web.url("/login"), then=web.url("/echo/1"))
    assert "session=abc" in ran.items[0]["text"]


def test_files_of_scrapys_pipeline_are_tried_again_as_before(
    shop: Any, web: WebHandle, tmp_path: Path
) -> None:
    settings = {
        "ITEM_PIPELINES": '{"scrapy.pipelines.files.FilesPipeline": 1}',
        "FILES_STORE": str(tmp_path / "files"),
    }
    ran = shop("pictures", settings, start=web.url("/ok/1"), file=web.url("/status/503/x?times=1"))
    assert [file["status"] for file in ran.items[0]["files"]] == ["downloaded"]
    assert len(web.requests(path="/status/503/x*")) == 2


# --- a ledger for who names a batch -----------------------------------------------


def rows(ran: Ran, query: str) -> list[tuple[Any, ...]]:
    with sqlite3.connect(ran.folder / "out" / "ledger.db") as ledger:
        return ledger.execute(query).fetchall()


def test_a_crawl_spider_that_names_a_batch_has_its_rows(shop: Any, web: WebHandle) -> None:
    links = "".join(f'<a href="/item/{name}">{name}</a>' for name in ("a", "b", "gone"))
    web.set_page("/start", f"<html><body><h1>All</h1>{links}</body></html>")
    web.set_page("/item/a", "<html><body><h1>A</h1></body></html>")
    web.set_page("/item/b", "<html><body><h1>B</h1></body></html>")
    web.set_page("/item/gone", "gone", 404)
    ran = shop("catalogue", start=web.url("/start"), retryscrape_batch="shelves")
    assert sorted(item["title"] for item in ran.items) == ["A", "B"]
    found = rows(ran, "SELECT url, status, outcome FROM entries ORDER BY url")
    assert found == [
        (web.url("/item/a"), "success", "ok"),
        (web.url("/item/b"), "success", "ok"),
        (web.url("/item/gone"), "failed", "gone"),
        (web.url("/start"), "success", "ok"),
    ]
    assert len(list((ran.folder / "out" / "shelves" / "pages").rglob("*.html"))) == 3
    feed = (ran.folder / "out" / "shelves" / "failures.jsonl").read_text().splitlines()
    assert [json.loads(line)["outcome"] for line in feed] == ["gone"]
    said = json.loads((ran.folder / "out" / "shelves" / "run.json").read_text())
    assert (said["spider"], said["state"], said["exit_code"]) == ("catalogue", "ended", 0)


def test_a_batch_that_cannot_be_one_is_said_in_one_line(shop: Any, web: WebHandle) -> None:
    ran = shop("catalogue", start=web.url("/start"), retryscrape_batch="../up")
    assert "Attribute retryscrape_batch of spider catalogue" in ran.log
    assert web.requests(path="/start") == []
    assert "Traceback" not in ran.log


# --- their settings win -----------------------------------------------------------


def settings_with(**own: Any) -> Settings:
    settings = Settings()
    for name, value in own.items():
        settings.set(name, value, priority="project")
    Retryscrape().update_settings(settings)
    return settings


def test_what_the_project_sets_stays(caplog: pytest.LogCaptureFixture) -> None:
    exit_ = "retryscrape.crawl.middlewares.ExitMiddleware"
    own = {
        "SCHEDULER": "shop.Own",
        "CONCURRENT_ITEMS": 50,
        "RETRY_GIVE_UP_LOG_LEVEL": "ERROR",
        "DOWNLOAD_HANDLERS": {"http": "shop.Handler", "s3": None},
        "DOWNLOADER_MIDDLEWARES": {exit_: 700},
    }
    made = settings_with(**own)
    assert made["SCHEDULER"] == "shop.Own"
    assert made.getint("CONCURRENT_ITEMS") == 50
    assert made["RETRY_GIVE_UP_LOG_LEVEL"] == "ERROR"
    handlers = made.getdict("DOWNLOAD_HANDLERS")
    assert handlers["http"] == "shop.Handler"
    assert handlers["https"] == "retryscrape.crawl.download.DownloadHandler"
    assert handlers["s3"] is None
    assert made.get_component_priority_dict_with_base("DOWNLOADER_MIDDLEWARES")
    assert made.getdict("DOWNLOADER_MIDDLEWARES")[exit_] == 700
    assert [r.levelname for r in caplog.records] == ["WARNING"]


def test_custom_settings_of_a_spider_win() -> None:
    class Picky(Spider):
        name = "picky"
        custom_settings = {  # noqa: RUF012
            "RETRYSCRAPE_ATTEMPTS": 1,
            "SCHEDULER": "scrapy.core.scheduler.Scheduler",
        }

    addons = {"retryscrape.addon.Retryscrape": 300}
    crawler = get_crawler(Picky, {"RETRYSCRAPE_ATTEMPTS": 2, "ADDONS": addons})
    assert Run.of(crawler).config.attempts == 1
    assert crawler.settings["SCHEDULER"] == "scrapy.core.scheduler.Scheduler"


def test_an_ordinary_project_keeps_its_items_at_once() -> None:
    assert settings_with().getint("CONCURRENT_ITEMS") == Settings().getint("CONCURRENT_ITEMS")


def test_a_retry_middleware_of_their_own_stays_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    from tests.projects import OwnRetry

    made = settings_with(DOWNLOADER_MIDDLEWARES={OwnRetry: 550})
    assert made.getdict("DOWNLOADER_MIDDLEWARES")[OwnRetry] == 550
    assert [r.getMessage() for r in caplog.records] == [
        "OwnRetry retries too, and stays: its retries come on top of retryscrape's."
    ]


def test_every_wish_of_a_request_is_documented() -> None:
    page = (Path(__file__).parents[1] / "docs" / "reference" / "meta.md").read_text()
    assert [key for key in KEYS if f"| `{key}` |" not in page] == []


@pytest.mark.parametrize(
    ("own", "cap"),
    [({}, None), ({"RETRY_TIMES": 4}, 4), ({"RETRY_ENABLED": False, "RETRY_TIMES": 4}, 0)],
)
def test_scrapys_retry_settings_are_honoured_where_the_project_sets_them(
    own: dict[str, Any], cap: int | None
) -> None:
    assert retries_of(get_crawler(settings_dict=own).settings) == cap
