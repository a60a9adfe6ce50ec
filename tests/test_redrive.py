"""``scrapy redrive`` as users type it: real passes against a web that misbehaves."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.commandline import *  # noqa: F403
from tests.commandline import Project, until
from tests.hostile_fixture import *  # noqa: F403


def loops(project: Project) -> list[tuple[object, ...]]:
    return project.sql("SELECT n, reason, passes, left_over FROM redrives ORDER BY n")


def paths(web) -> list[str]:
    return [request["path"] for request in web.requests()]


def test_a_loop_ends_clean_when_the_site_is_well_again(web, project: Project) -> None:
    for path in ("/a", "/b"):
        web.set_page(path, "broken", 500)
    manifest = project.manifest("m.txt", map(web.url, ("/a", "/b", "/ok/1", "/status/404")))
    assert project.crawl(manifest, "-a", "min_text=1").code == 1
    for path in ("/a", "/b"):
        web.set_page(path, "<html><body>short, and good</body></html>")

    done = project.scrapy("redrive", "m")

    assert done.code == 0, done.err  # 404 is settled; min_text=1 was remembered
    assert loops(project) == [(1, "clean", 1, 0)]
    assert "stopped after 1 pass (clean: nothing is left to re-drive)" in done.err
    assert [row["outcome"] for row in project.feed("m")] == ["gone"]
    assert paths(web).count("/ok/1") == 1
    assert paths(web).count("/status/404") == 1


def test_a_loop_stops_after_three_passes_of_a_row(web, project: Project) -> None:
    manifest = project.manifest("m.txt", [web.url("/status/500")])
    settings = {"RETRYSCRAPE_FLOOR": "0", "RETRYSCRAPE_ATTEMPTS": "1"}
    assert project.crawl(manifest, settings=settings).code == 1
    done = project.scrapy("redrive", "m", settings=settings)
    assert done.code == 1
    assert loops(project) == [(1, "budget", 2, 1)]
    assert project.sql("SELECT passes FROM entries") == [(3,)]
    assert len(paths(web)) == 3

    again = project.scrapy("redrive", "m", settings=settings)
    assert again.code == 1
    assert loops(project)[1:] == [(2, "budget", 0, 1)]
    assert len(paths(web)) == 3


@pytest.mark.parametrize(
    ("setting", "value", "reason"),
    [
        ("RETRYSCRAPE_RUN_BUDGET", "2", "over_budget"),
        ("RETRYSCRAPE_STOP", '{"target_error": 0.9, "window": 2}', "stop_rule"),
    ],
)
def test_a_pass_that_stopped_itself_ends_the_loop_with_its_reason(
    web, project: Project, setting: str, value: str, reason: str
) -> None:
    manifest = project.manifest("m.txt", [web.url(f"/status/500?{n}") for n in range(4)])
    plain = {"RETRYSCRAPE_FLOOR": "0", "RETRYSCRAPE_ATTEMPTS": "1", "CONCURRENT_REQUESTS": "1"}
    assert project.crawl(manifest, settings=plain).code == 1
    done = project.scrapy("redrive", "m", settings={**plain, setting: value})
    assert done.code == 1
    assert [(why, passes) for _, why, passes, _ in loops(project)] == [(reason, 1)]
    assert f"stopped after 1 pass ({reason}: {setting}" in done.err
    assert len(project.feed("m")) == 4


def test_few_rows_after_a_pass_are_left_at_the_floor(web, project: Project) -> None:
    manifest = project.manifest("m.txt", [web.url(f"/status/500?{n}") for n in range(3)])
    settings = {"RETRYSCRAPE_FLOOR": "4", "RETRYSCRAPE_ATTEMPTS": "1"}
    project.crawl(manifest, settings=settings)
    assert project.scrapy("redrive", "m", settings=settings).code == 1
    assert loops(project) == [(1, "floor", 1, 3)]


def test_a_wait_that_fits_is_waited_for_and_one_that_does_not_is_parked(
    web, project: Project
) -> None:
    manifest = project.manifest("m.txt", [web.url("/soon"), web.url("/late", "127.0.0.2")])
    web.set_page("/soon", "wait", 429, headers={"Retry-After": "5"})
    web.set_page("/late", "wait", 429, headers={"Retry-After": "900"})
    settings = {"RETRYSCRAPE_MAX_WAIT": "1", "RETRYSCRAPE_DEADLINE": "60"}
    assert project.crawl(manifest, "-a", "min_text=1", settings=settings).code == 1
    (asked,) = web.requests(path="/soon")
    for path in ("/soon", "/late"):
        web.set_page(path, "<html><body>a page</body></html>")

    done = project.scrapy("redrive", "m", settings=settings)

    assert done.code == 1
    assert loops(project) == [(1, "deadline", 1, 1)]
    assert [row["url"] for row in project.feed("m")] == [web.url("/late", "127.0.0.2")]
    assert len(web.requests(path="/late")) == 1
    assert web.requests(path="/soon")[1]["epoch"] - asked["epoch"] >= 5


def test_what_a_killed_crawl_left_is_crawled_without_a_new_manifest(web, project: Project) -> None:
    """Rows that were pending, and lines that were never read."""
    urls = [web.url(f"/ok/{n}?ms=200") for n in range(60)]
    manifest = project.manifest("m.txt", urls)
    crawl = project.start("crawl", "pages", "-a", f"manifest={manifest}")
    until(lambda: len(web.requests(path="/ok/*")) >= 5)
    crawl.kill()

    done = project.scrapy("redrive", "m")

    assert done.code == 0, done.err
    assert project.sql("SELECT status, count(*) FROM entries GROUP BY 1") == [("success", 60)]


def test_a_pass_that_is_killed_does_not_end_the_loop(web, project: Project) -> None:
    manifest = project.manifest("m.txt", [web.url(f"/slow/{n}") for n in range(30)])
    for n in range(30):
        web.set_page(f"/slow/{n}", "broken", 500)
    settings = {"RETRYSCRAPE_ATTEMPTS": "1"}
    project.crawl(manifest, settings=settings)
    before = len(web.requests())
    for n in range(30):
        web.set_page(f"/slow/{n}", "<html><body>" + "good " * 200)

    loop = project.start("redrive", "m", settings={**settings, "DOWNLOAD_DELAY": "0.2"})
    until(lambda: len(web.requests()) >= before + 3)
    (child,) = _children(loop.pid)
    os.kill(child, signal.SIGKILL)
    done = loop.wait()

    assert "the pass died (SIGKILL); the loop goes on" in done.err
    assert done.code == 0, done.err
    assert loops(project) == [(1, "clean", 2, 0)]


def test_a_killed_loop_takes_its_pass_along_and_the_same_command_goes_on(
    web, project: Project
) -> None:
    urls = [web.url(f"/x/{n}") for n in range(30)]
    project.crawl(project.manifest("m.txt", urls))  # /x is no page: 404
    project.sql("UPDATE entries SET outcome='target_error', error_class='retryable'")
    for n in range(30):
        web.set_page(f"/x/{n}", "<html><body>" + "good " * 200)
    loop = project.start(
        "redrive", "m", settings={"DOWNLOAD_DELAY": "0.2", "CONCURRENT_REQUESTS_PER_DOMAIN": "1"}
    )
    until(lambda: len(web.requests()) >= 33)
    (child,) = _children(loop.pid)
    loop.kill()

    done = project.scrapy("redrive", "m")

    assert done.code == 0, done.err
    assert not Path(f"/proc/{child}").exists()
    assert loops(project) == [(1, "clean", 2, 0)]
    assert len(web.requests()) == 60


def test_ctrl_c_reaches_the_pass_and_the_same_command_goes_on(web, project: Project) -> None:
    urls = [web.url(f"/x/{n}") for n in range(30)]
    manifest = project.manifest("m.txt", urls)
    project.crawl(manifest, settings={"RETRYSCRAPE_ATTEMPTS": "1"})  # /x is no page: 404
    project.sql("UPDATE entries SET outcome='target_error', error_class='retryable'")
    for n in range(30):
        web.set_page(f"/x/{n}", "<html><body>" + "good " * 200)
    before = len(web.requests())

    loop = project.start(
        "redrive", "m", settings={"DOWNLOAD_DELAY": "0.2", "CONCURRENT_REQUESTS_PER_DOMAIN": "1"}
    )
    until(lambda: len(web.requests()) >= before + 3)
    loop.send_signal(signal.SIGINT)
    done = loop.wait()

    assert done.code == 130, done.err
    assert loops(project)[0][1] == "interrupted"
    left = len(project.feed("m"))
    assert 0 < left < 30

    done = project.scrapy("redrive", "m")
    assert done.code == 0, done.err
    assert "going on with the re-drive of" in done.err
    assert loops(project) == [(1, "clean", 2, 0)]
    assert len(web.requests()) == before + 30


def test_a_loop_that_waits_ends_at_once_on_ctrl_c(web, project: Project) -> None:
    manifest = project.manifest("m.txt", [web.url("/later")])
    web.set_page("/later", "wait", 429, headers={"Retry-After": "600"})
    settings = {"RETRYSCRAPE_MAX_WAIT": "1"}
    project.crawl(manifest, settings=settings)
    loop = project.start("redrive", "m", settings=settings)
    until(lambda: "pass 1 of at most 3, in " in loop.said())
    loop.send_signal(signal.SIGINT)
    assert loop.wait().code == 130
    assert loops(project) == [(1, "interrupted", 0, 1)]


def test_a_second_loop_and_a_running_crawl_are_named_and_refused(web, project: Project) -> None:
    manifest = project.manifest("m.txt", [web.url("/ok/1?ms=600000")])
    crawl = project.start("crawl", "pages", "-a", f"manifest={manifest}", "-a", "_job=nightly-7")
    until(lambda: web.requests(path="/ok/*"))
    done = project.scrapy("redrive", "m")
    assert done.code == 2
    assert "atch m is being crawled by job nightly-7" in done.err
    assert "Traceback" not in done.err
    crawl.kill()


def test_a_pass_with_a_wrong_setting_ends_the_loop_with_its_sentence(web, project: Project) -> None:
    project.crawl(project.manifest("m.txt", [web.url("/status/500")]))
    done = project.scrapy("redrive", "m", "-a", "min_text=many")
    assert done.code == 2
    assert "min_text" in done.err
    assert "Traceback" not in done.err


def test_a_forgotten_proxies_file_is_not_forgotten(web, project: Project, proxies_file) -> None:
    """A re-drive must not go direct because an option was not typed again."""
    proxies = proxies_file("good1")
    manifest = project.manifest("m.txt", ["http://site.test/page"])
    web.set_page("/page", "broken", 500)
    project.crawl(manifest, settings={"RETRYSCRAPE_PROXIES": str(proxies)})
    web.set_page("/page", "<html><body>" + "good " * 200)
    done = project.scrapy("redrive", "m")
    assert done.code == 0, done.err
    assert {request["client"] for request in web.requests(path="/page")} == {web.exit("good1")}


def _children(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
    return [int(word) for word in text.split()]
