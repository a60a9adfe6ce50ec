"""``scrapy proxies``: each line tried and explained, and what the ledger knows of exits."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from retryscrape.crawl.proxycheck import seen_by
from retryscrape.hostile.process import WebHandle
from retryscrape.ledger.records import ExitRow
from retryscrape.ledger.store import Ledger
from retryscrape.report.proxies import exits_by_host, render_exits

pytest_plugins = ("tests.hostile_fixture",)

ROOT = Path(__file__).parent.parent


def proxies(*args: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """``scrapy proxies ARGS``, as typed."""
    command = [sys.executable, "-m", "scrapy", "proxies", *args]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=60)


def checked(web: WebHandle, file: Path) -> tuple[int, list[dict[str, Any]], str]:
    """Exit code, rows and all output of a check against the page that echoes."""
    url = web.url("/echo/1", host="shop.test")
    done = proxies("check", str(file), "--url", url, "--timeout", "2", "--json")
    return done.returncode, json.loads(done.stdout), done.stdout + done.stderr


def test_usable_proxies_give_0_and_the_address_that_the_target_saw(
    web: WebHandle, tmp_path: Path
) -> None:
    file = tmp_path / "proxies.txt"
    gateway = web.proxy("sticky").replace("http://", "http://u-{session}:s3cr3t-gw@")
    file.write_text(
        f"{web.proxy('good1')}  country=GB tier=dc\n# one\n{web.proxy('auth1')}\n{gateway}"
    )
    code, rows, output = checked(web, file)
    assert code == 0
    assert [row["line"] for row in rows] == [1, 3, 4]
    assert [row["seen"] for row in rows][:2] == [web.exit("good1"), web.exit("auth1")]
    assert (rows[0]["country"], rows[0]["tier"]) == ("GB", "dc")
    assert rows[0]["seconds"] > 0
    users = {r["credentials"] for t in web.connections(proxy="sticky") for r in t["requests"]}
    assert not any("{session}" in user for user in users)
    assert "s3cr3t" not in output


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("dead", "cannot be reached"),
        ("wrong-auth", "rejects its user name and password"),
        ("hangs", "no answer within 2 s"),
        ("refuses-403", "403"),
        ("closes-after", "closed without an answer"),
        ("garbage", "no HTTP answer"),
    ],
)
def test_what_is_wrong_is_said_in_words(
    web: WebHandle, proxies_file: Any, name: str, words: str
) -> None:
    code, rows, output = checked(web, proxies_file(name))
    assert (code, rows[0]["usable"]) == (1, False)
    assert words in rows[0]["wrong"]
    assert "old-s3cr3t" not in output


def test_a_line_that_is_no_proxy_is_named_by_its_number_alone(tmp_path: Path) -> None:
    file = tmp_path / "proxies.txt"
    file.write_text("\nsocks5://me:s3cr3t@10.0.0.1:1080\n")
    done = proxies("check", str(file), "--url", "http://127.0.0.1:9/")
    assert done.returncode == 1
    assert "2     -" in done.stdout
    assert "socks5 proxies are not supported" in done.stdout
    assert "s3cr3t" not in done.stdout + done.stderr


def test_without_a_url_proxies_are_only_connected_to(web: WebHandle, tmp_path: Path) -> None:
    """No site hears of a proxy that the user did not name."""
    file = tmp_path / "p.txt"
    file.write_text(web.proxies("auth1", "dead") + "nosuch.invalid:80\n")
    done = proxies("check", str(file), "--json")
    assert done.returncode == 1
    good, dead, unknown = json.loads(done.stdout)
    assert good["usable"]
    assert "cannot be reached" in dead["wrong"]
    assert "host name is not known" in unknown["wrong"]
    assert [one["requests"] for one in web.connections()] == [[]]
    assert "s3cr3t" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("check", "nosuch.txt"), "no such file: nosuch.txt"),
        (("check",), "give a file"),
        (("check", "setup.cfg", "--url", "ftp://x"), "--url must be"),
        (("check", "setup.cfg", "--timeout", "0"), "--timeout must be"),
        (("look",), "takes 'check FILE' or 'status'"),
    ],
)
def test_wrong_usage_gives_2_and_a_sentence(
    args: tuple[str, ...], words: str, tmp_path: Path
) -> None:
    done = proxies(*args)
    assert done.returncode == 2
    assert words in done.stderr + done.stdout
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("body", "seen"),
    [
        (b'{"origin": "203.0.113.7"}', ("203.0.113.7", None)),
        (b'{"ip": "2001:db8::1", "country": "de"}', ("2001:db8::1", "DE")),
        (
            b'{"query": "203.0.113.7", "country": "Germany", "countryCode": "DE"}',
            ("203.0.113.7", "DE"),
        ),
        (b"203.0.113.7\n", ("203.0.113.7", None)),
        (b'"203.0.113.7"', ("203.0.113.7", None)),
        (b"fl=1\nip=203.0.113.7\nuag=curl/8.1.2.3\nloc=FR\n", ("203.0.113.7", "FR")),
        (b'{"origin": "192.0.2.1, 203.0.113.7"}', ("192.0.2.1, 203.0.113.7", None)),
        (b"<html>hello</html>", (None, None)),
        (b"\xff\xfe", (None, None)),
        (b"[1, 2]", (None, None)),
    ],
)
def test_pages_that_echo_are_understood(body: bytes, seen: tuple[str | None, str | None]) -> None:
    assert seen_by(body) == seen


ROWS = (
    ExitRow(exit="http://a:1#1", ok=5, fail=1, bytes=9000, cost=2.5, updated_at=90.0),
    ExitRow(exit="http://a:1#1", host="shop.test", ok=5, bytes=8000, elapsed=0.25),
    ExitRow(exit="http://a:1#1", host="other.test", fail=1, state='{"rest_until": 160.0}'),
    ExitRow(exit="http://b:1#2", fail=3, state="damaged"),
)


def test_status_shows_each_exit_and_its_hosts() -> None:
    data = exits_by_host(ROWS, now=100.0)
    assert [one["exit"] for one in data] == ["http://a:1#1", "http://b:1#2"]
    assert [pair["host"] for pair in data[0]["hosts"]] == ["shop.test", "other.test"]
    assert data[0]["hosts"][1]["rests_for"] == 60.0
    text = render_exits(data)
    assert "kept away for 60 s more" in text
    assert "nothing came through" in text
    assert [one["exit"] for one in exits_by_host(ROWS, now=100.0, host="shop.test")] == [
        "http://a:1#1"
    ]


def test_status_reads_the_ledger(tmp_path: Path) -> None:
    ledger = Ledger.open(str(tmp_path / "ledger.db"))
    ledger.save_exits(ROWS)
    ledger.close()
    done = proxies("status", "--json", "-s", f"RETRYSCRAPE_OUT={tmp_path}")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)[0]["cost"] == 2.5


def test_status_without_a_ledger_gives_2(tmp_path: Path) -> None:
    done = proxies("status", "-s", f"RETRYSCRAPE_OUT={tmp_path / 'none'}")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
