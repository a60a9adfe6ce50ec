"""Proxies, proved by real crawls: half of them broken, and none of their secrets anywhere."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from tests.commandline import *  # noqa: F403
from tests.commandline import Done, Project
from tests.hostile_fixture import *  # noqa: F403

GOOD = {"good1", "good2", "good3", "auth1"}
BROKEN = {"dead", "wrong-auth", "always-407", "closes-after"}


def crawl(project: Project, proxies: Path, urls: list[str], **settings: str) -> Done:
    manifest = project.manifest("m.txt", urls)
    plain = {
        "RETRYSCRAPE_PROXIES": str(proxies),
        "DOWNLOAD_VERIFY_CERTIFICATES": "0",
        "DOWNLOAD_TIMEOUT": "5",
    }
    return project.crawl(manifest, settings={**plain, **settings})


def outcomes(project: Project) -> dict[str, int]:
    return dict(project.sql("SELECT outcome, count(*) FROM entries GROUP BY 1"))


def header(request: dict, name: str) -> list[str]:
    return [value for key, value in request["headers"] if key.lower() == name]


def everything(project: Project, done: Done) -> str:
    """All that a run leaves behind: log, ledger, feeds, reports, whatever lies in OUT."""
    files = [path for path in project.out.rglob("*") if path.is_file()]
    texts = [path.read_bytes().decode("utf-8", "replace") for path in files]
    return "\n".join([done.out, done.err, *texts])


def test_eight_proxies_half_of_them_broken_deliver_every_page(web, project, proxies_file) -> None:
    """New exits on each retry, nothing direct, and no secret in any output, at any level."""
    urls = [f"http://shop.test/ok/{n}" for n in range(60)]
    urls += [f"https://secure.test/ok/{n}" for n in range(20)]
    urls += [f"http://shaky.test/status/503/{n}?times=2" for n in range(5)]
    urls += [f"http://bare-ban.test/ok/{n}" for n in range(5)]
    urls += ["http://someone:h1dd3n@shop.test/ok/60"]
    proxies = proxies_file(*sorted(GOOD | BROKEN))

    done = crawl(project, proxies, urls, LOG_LEVEL="DEBUG", ROBOTSTXT_OBEY="1")

    assert done.code == 0, done.err
    assert outcomes(project) == {"ok": 91}
    # Scrapy shows items at DEBUG; a URL's own password is in the ledger and the feed alone
    assert "someone" not in done.err
    assert "h1dd3n" not in done.err
    exits: dict[str, list[str]] = {}
    for url, name in project.sql("SELECT url, exit FROM attempts ORDER BY url, n"):
        exits.setdefault(url, []).append(name)
    assert all(None not in names for names in exits.values())
    # eight exits: nobody comes twice before all have been tried
    assert all(len(set(names)) == len(names) for names in exits.values() if len(names) <= 8)
    assert max(map(len, exits.values())) >= 3
    seen = {request["client"] for request in web.requests()}
    assert seen <= {web.exit(name) for name in GOOD}  # robots.txt too
    assert any(request["path"] == "/robots.txt" for request in web.requests())
    assert not any(header(request, "proxy-authorization") for request in web.requests())

    project.scrapy("report", "m", settings={"LOG_LEVEL": "DEBUG"})
    output = everything(project, done)
    for secret in ("s3cr3t", "old-s3cr3t", *(encoded(n) for n in ("user1:s3cr3t-1",))):
        assert secret not in output
    assert "u***@" in output or "user1" not in output


def encoded(credentials: str) -> str:
    return base64.b64encode(credentials.encode()).decode()


def test_each_proxy_gets_its_own_credentials_on_every_attempt(web, project, proxies_file) -> None:
    """C1, C2, C16: retries, redirects, http and https; never another's, never the target."""
    urls = ["http://moved.test/chain/3", "https://secure.test/status/503/1?times=2"]
    urls += ["http://shaky.test/status/503/2?times=2", "http://shop.test/ok/1"]
    done = crawl(project, proxies_file("auth1", "auth2", "good1"), urls)
    assert done.code == 0, done.err
    for name, credentials in (("auth1", "user1:s3cr3t-1"), ("auth2", "user2:s3cr3t-2")):
        sent = {r["credentials"] for c in web.connections(name) for r in c["requests"]}
        assert sent <= {credentials}, name
    sent = {r["credentials"] for c in web.connections("good1") for r in c["requests"]}
    assert sent <= {None}
    assert not any(header(request, "proxy-authorization") for request in web.requests())


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_one_that_refuses_our_credentials_is_out_and_costs_nothing(
    web, project, proxies_file, scheme
) -> None:
    """C3, in both shapes: a response, and a failed tunnel."""
    urls = [f"{scheme}://shop.test/ok/{n}" for n in range(10)]
    done = crawl(project, proxies_file("always-407", "good1"), urls, CONCURRENT_REQUESTS="1")
    assert done.code == 0, done.err
    assert outcomes(project) == {"ok": 10}
    refused = sum(len(c["requests"]) for c in web.connections("always-407"))
    assert refused <= 1
    assert project.sql("SELECT max(cost) FROM entries") == [(2,)]
    assert done.err.count("407") >= 1


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_when_every_proxy_refuses_the_run_stops_early(web, project, proxies_file, scheme) -> None:
    urls = [f"{scheme}://shop.test/ok/{n}" for n in range(40)]
    done = crawl(project, proxies_file("always-407", "wrong-auth"), urls)
    assert done.code == 1
    assert "407" in done.err.splitlines()[-3] + done.err.splitlines()[-4] + done.err
    assert "Stopped early" in done.err
    assert "every proxy rejected the credentials" in done.err.lower()
    asked = sum(
        len(c["requests"]) for n in ("always-407", "wrong-auth") for c in web.connections(n)
    )
    assert asked <= 40  # not 3 x N
    assert web.requests() == []
    feed = project.feed("m")
    assert sum("url" in line for line in feed) == 40
    assert all(line["error_class"] != "permanent" for line in feed if "url" in line)
    assert "Traceback" not in done.err


def test_all_proxies_dead_ends_in_bounded_time_and_never_goes_direct(
    web, project: Project, proxies_file
) -> None:
    done = crawl(project, proxies_file("dead"), [web.url(f"/ok/{n}") for n in range(5)])
    assert done.code == 1
    assert web.requests() == []
    assert len(project.feed("m")) == 5
    assert "Traceback" not in done.err
    assert "no usable proxy left" in done.err


def test_where_every_exit_is_broken_in_its_own_way_the_run_stops(
    web, project: Project, proxies_file
) -> None:
    """Nothing tells a dead pool from dead hosts; it must end all the same, robots.txt included."""
    names = ("dead", "resets", "garbage", "bad-gateway", "closes-partial", "wrong-auth")
    urls = [f"http://h{n % 5}.test/ok/{n}" for n in range(20)]
    done = crawl(project, proxies_file(*names), urls, ROBOTSTXT_OBEY="1")
    assert done.code == 1
    assert "no usable proxy left" in done.err
    assert web.requests() == []
    assert len(project.feed("m")) == 20
    tries = sum(len(web.connections(name)) for name in names)
    assert tries <= 150  # none is asked over and over for want of another


def test_environment_proxies_never_mix_with_ours(
    web, project: Project, proxies_file, monkeypatch
) -> None:
    """C18: with a proxies file, ours win always; robots.txt too."""
    for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, web.proxy("good4"))
    urls = [f"http://shop.test/ok/{n}" for n in range(5)]
    done = crawl(project, proxies_file("good1"), urls, ROBOTSTXT_OBEY="1")
    assert done.code == 0, done.err
    assert {request["client"] for request in web.requests()} == {web.exit("good1")}
    assert web.connections("good4") == []


def test_with_one_proxy_it_is_asked_again_and_nothing_goes_direct(
    web, project: Project, proxies_file
) -> None:
    """C13."""
    urls = [web.url("/status/503/1?times=2")]
    done = crawl(project, proxies_file("good1"), urls)
    assert done.code == 0, done.err
    clients = [request["client"] for request in web.requests(path="/status/503/*")]
    assert clients == [web.exit("good1")] * 3


def test_a_gateway_gets_a_new_connection_for_each_retry(web, project, proxies_file) -> None:
    """C14: its addresses come by connection."""
    urls = [f"https://shaky.test/status/503/{n}?times=2" for n in range(3)]
    done = crawl(project, proxies_file("gateway"), urls)
    assert done.code == 0, done.err
    clients: dict[str, list[str]] = {}
    for request in web.requests(path="/status/503/*"):
        clients.setdefault(request["path"], []).append(request["client"])
    assert all(len(set(used)) == len(used) == 3 for used in clients.values())


def test_cookies_belong_to_an_exit(web, project: Project, proxies_file) -> None:
    """C17: a new exit starts clean."""
    web.set_page("/sets", "denied", 403, headers={"Set-Cookie": "sid=first; Path=/"})
    done = crawl(project, proxies_file("good1", "good2"), ["http://shop.test/sets"])
    assert done.code == 1
    requests = web.requests(path="/sets")
    assert len({request["client"] for request in requests}) == 2
    first_of_each = {}
    for request in requests:
        first_of_each.setdefault(request["client"], header(request, "cookie"))
    assert list(first_of_each.values()) == [[], []]


def test_lines_of_a_proxies_file_are_checked_once_at_the_start(web, project, tmp_path) -> None:
    """C4, C6: usable shapes are used, the others are named with their number."""
    host, port = web.proxy("good1").rsplit("/", 1)[-1].split(":")
    auth = web.proxy("auth1").rsplit("@", 1)[-1]
    proxies = tmp_path / "p.txt"
    proxies.write_text(
        f"\ufeff# comment\r\n{host}:{port}\r\n  http://{host}:{port}  \r\n\r\n"
        f"{auth}:user1:s3cr3t-1\r\nhost.test\r\n127.0.0.1:99999\r\nsocks5://127.0.0.1:1\r\n",
        encoding="utf-8",
    )
    done = crawl(project, proxies, [f"http://shop.test/ok/{n}" for n in range(30)])
    assert done.code == 0, done.err
    assert {r["client"] for r in web.requests()} == {web.exit("good1"), web.exit("auth1")}
    for number in (7, 8):
        assert f"line {number}" in done.err
    assert "socks" in done.err
    assert "1 duplicate" in done.err or "repeated" in done.err


def test_no_usable_proxy_is_a_usage_error(web, project: Project, tmp_path) -> None:
    proxies = tmp_path / "p.txt"
    proxies.write_text("socks5://127.0.0.1:1\n127.0.0.1:99999\n")
    done = crawl(project, proxies, [web.url("/ok/1")])
    assert done.code == 2
    assert "Traceback" not in done.err
    assert str(proxies) in done.err
    assert web.requests() == []


def test_faults_of_the_target_do_not_poison_the_pool(web, project, proxies_file) -> None:
    """C10: errors of the target leave the exits healthy."""
    urls = [f"http://broken.test/status/500/{n}" for n in range(20)]
    urls += [f"http://gone.test/gone/{n}" for n in range(10)]
    crawl(project, proxies_file("good1", "good2"), urls)
    report = json.loads(project.scrapy("report", "m", "--json").out)
    text = json.dumps(report)
    assert "out for the run" not in text
    assert len(web.requests(path="/gone/*")) == 10
