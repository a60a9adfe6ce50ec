"""The webhook: signed, tried again, and never waited for too long."""

from __future__ import annotations

import hashlib
import hmac
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from retryscrape.crawl.webhook import Delivery, Refused, deliver, repeat, shown, signature
from retryscrape.hostile.process import WebHandle
from tests.hostile_fixture import hostile_session, web

__all__ = ["hostile_session", "web"]


class Receiver:
    """Takes posts and answers with ``answers``, then 200."""

    def __init__(self) -> None:
        self.answers: list[int] = []
        self.got: list[tuple[dict[str, str], bytes]] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.got.append(({k.lower(): v for k, v in self.headers.items()}, body))
                self.send_response(receiver.answers.pop(0) if receiver.answers else 200)
                self.send_header("Location", "/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook?token=t0ken"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    thread = threading.Thread(target=made.server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield made
    made.server.shutdown()
    made.server.server_close()
    thread.join()


class Clock:
    """Time that passes only where somebody waits or works."""

    def __init__(self) -> None:
        self.now = 0.0
        self.waits: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds


def test_the_signature_is_the_documented_one() -> None:
    made = hmac.new(b"key", b"body\n", hashlib.sha256).hexdigest()
    assert signature("key", b"body\n") == f"sha256={made}"


def test_tries_are_repeated_with_backoff_until_no_time_is_left() -> None:
    clock = Clock()
    ended = repeat(lambda left: "HTTP 503", 10.0, clock, clock.sleep)
    assert ended == Delivery(tries=5, problem="HTTP 503")
    assert clock.waits == [0.5, 1.0, 2.0, 4.0]


def test_a_receiver_that_hangs_is_asked_again_and_the_end_is_kept() -> None:
    clock = Clock()

    def hang(left: float) -> str:
        clock.now += left
        return "timed out"

    ended = repeat(hang, 10.0, clock, clock.sleep)
    assert ended.problem == "timed out"
    assert ended.tries > 1
    assert clock.now <= 10.0


def test_a_refusal_is_not_repeated() -> None:
    def refuse(left: float) -> str | None:
        raise Refused("HTTP 401")

    clock = Clock()
    assert repeat(refuse, 10.0, clock, clock.sleep) == Delivery(tries=1, problem="HTTP 401")
    assert clock.waits == []


def test_the_receiver_gets_the_exact_bytes_and_one_id_for_all_tries(receiver: Receiver) -> None:
    receiver.answers = [503, 429]
    body = json.dumps({"text": "ä", "n": 1}).encode()
    assert deliver(receiver.url, body, "key") == Delivery(tries=3)
    assert [got for _, got in receiver.got] == [body] * 3
    heads = [head for head, _ in receiver.got]
    assert {head["x-retryscrape-signature"] for head in heads} == {signature("key", body)}
    assert len({head["x-retryscrape-delivery"] for head in heads}) == 1
    assert {head["content-type"] for head in heads} == {"application/json"}


@pytest.mark.parametrize("status", [302, 400, 401, 404])
def test_an_answer_that_will_not_change_stands(receiver: Receiver, status: int) -> None:
    receiver.answers = [status, 200]
    assert deliver(receiver.url, b"{}", None) == Delivery(tries=1, problem=f"HTTP {status}")
    assert "x-retryscrape-signature" not in receiver.got[0][0]


def test_nobody_there_is_said_in_words() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{bound.getsockname()[1]}/"
        assert deliver(url, b"{}", None, patience=0.4).problem == "Connection refused"


def test_a_receiver_that_drips_holds_nobody_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        began = time.monotonic()
        sent = deliver(f"http://127.0.0.1:{silent.getsockname()[1]}/", b"{}", None, patience=0.3)
        assert time.monotonic() - began < 2
        assert sent.problem is not None


@pytest.mark.parametrize("url", ["http://h:99999/", "http://[::1", "http:///x", "http://h\n/"])
def test_an_address_that_is_none_is_a_problem_and_no_error(url: str) -> None:
    assert deliver(url, b"{}", None, patience=0.3).problem


def test_messages_name_the_host_alone() -> None:
    assert shown("https://u:p@hooks.example/T0/secret?x=1") == "hooks.example"


# --- in a run ---------------------------------------------------------------------


def crawl(
    out: Path, *settings: str, env: dict[str, str] | None = None, **arguments: str
) -> tuple[int, str]:
    """``scrapy crawl pages``: exit code and everything it printed."""
    command = [sys.executable, "-m", "scrapy", "crawl", "pages"]
    for setting in (f"RETRYSCRAPE_OUT={out}", "DOWNLOAD_DELAY=0", "LOG_LEVEL=DEBUG", *settings):
        command += ["-s", setting]
    for name, value in arguments.items():
        command += ["-a", f"{name}={value}"]
    done = subprocess.run(
        command,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=60,
        cwd=Path(__file__).parent.parent,
    )
    return done.returncode, done.stdout


def test_the_body_is_run_json_and_no_output_holds_the_secret(
    receiver: Receiver, web: WebHandle, tmp_path: Path
) -> None:
    secret = "hush-hush-4711"
    code, said = crawl(
        tmp_path,
        f"RETRYSCRAPE_WEBHOOK={receiver.url}",
        f"RETRYSCRAPE_WEBHOOK_SECRET={secret}",
        urls=web.url("/ok/1"),
        batch="b",
    )
    assert code == 0, said
    [(head, body)] = receiver.got
    assert body == (tmp_path / "b" / "run.json").read_bytes()
    assert head["x-retryscrape-signature"] == signature(secret, body)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not [path for path in files if secret.encode() in path.read_bytes()]
    assert secret not in said
    assert "t0ken" not in said
    document: dict[str, Any] = json.loads(body)
    assert (document["state"], document["exit_code"]) == ("ended", 0)


def test_a_run_that_was_refused_is_told_too_and_a_dead_receiver_changes_no_exit_code(
    receiver: Receiver, tmp_path: Path
) -> None:
    receiver.answers = [404]
    code, said = crawl(
        tmp_path, f"RETRYSCRAPE_WEBHOOK={receiver.url}", manifest=str(tmp_path / "no.txt")
    )
    assert code == 2
    document = json.loads(receiver.got[0][1])
    assert document["finish_reason"] == "usage"
    assert "no.txt" in document["stopped_early"]
    assert "t0ken" not in said
