"""docs/scrapyd.md does what it says: its commands are run, one after the other."""

from __future__ import annotations

import hmac
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from retryscrape.crawl.webhook import signature
from retryscrape.hostile.process import WebHandle
from tests.checkout import ROOT, bare_environment, checkout
from tests.hostile_fixture import hostile_session, web
from tests.scrapyd_fixture import PATIENCE, Scrapyd, clean_environment, free_port, until

__all__ = ["checkout", "hostile_session", "web"]

PAGE = (ROOT / "docs" / "scrapyd.md").read_text(encoding="utf-8")
SERVER = "cd /srv/scrapyd && venv/bin/scrapyd"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


class Reader:
    """Somebody who types what the page says; only addresses and folders are others."""

    def __init__(self, tmp: Path, checkout: Path, web: WebHandle) -> None:
        self.tmp, self.checkout, self.port = tmp, checkout, free_port()
        self.python = bare_environment(tmp / "scrapyd" / "venv")
        pip = f"{shlex.quote(sys.executable)} -m pip --python {self.python}"
        offline = "--no-deps --no-index --no-build-isolation --quiet"
        self.changes = {
            "python3 -m venv": f"{sys.executable} -m venv --without-pip",
            "/srv/scrapyd/venv/bin/pip install": f"{pip} install {offline}",
            "/srv/scrapyd/venv/bin/pip uninstall": f"{pip} uninstall --quiet",
            "venv/bin/scrapyd": "exec venv/bin/python -m scrapyd",
            "/srv/": f"{tmp}/",
            "6800": str(self.port),
            "https://quotes.toscrape.com/page/2/": web.url("/ok/2"),
            "https://quotes.toscrape.com/": web.url("/ok/1"),
            "https://httpbin.org/status/503": web.url("/mends"),
        }
        config = checkout / "scrapy.cfg"
        config.write_text(self.changed(config.read_text()))

    def changed(self, text: str) -> str:
        for before, after in self.changes.items():
            text = text.replace(before, after)
        return text

    def shell(self, commands: str) -> dict[str, Any]:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        return {
            "args": ["bash", "-euc", self.changed(commands)],
            "cwd": self.checkout,
            "env": {**clean_environment(), "PATH": path},
        }

    def types(self, commands: str) -> str:
        done = subprocess.run(
            **self.shell(commands), capture_output=True, text=True, timeout=PATIENCE, check=False
        )
        assert done.returncode == 0, commands + done.stdout + done.stderr
        return done.stdout


@pytest.fixture
def reader(tmp_path: Path, checkout: Path, web: WebHandle) -> Iterator[Reader]:
    (tmp_path / "scrapyd").mkdir()
    config = (checkout / "scrapy.cfg").read_text()
    yield Reader(tmp_path, checkout, web)
    (checkout / "scrapy.cfg").write_text(config)


def test_from_nothing_to_a_re_driven_batch(reader: Reader, web: WebHandle) -> None:
    web.set_page("/mends", "out of order", 503)
    steps = blocks("sh")
    *setup, server, deploy, listed, first, watch, second, stop = (s.strip() for s in steps)
    assert server == SERVER
    for commands in setup:
        reader.types(commands)
    with subprocess.Popen(**reader.shell(server), stdout=subprocess.DEVNULL, stderr=-2) as process:
        try:
            scrapyd = Scrapyd(reader.tmp / "scrapyd", reader.port, reader.checkout)
            until(lambda: _up(scrapyd), "Scrapyd to start")
            assert reader.types(deploy).split()[-2:] == ["pages", "products"]
            reader.types(listed)
            data = reader.tmp / "retryscrape" / "data" / "quotes"

            assert '"status": "ok"' in reader.types(first)
            scrapyd.finished("quotes-1")
            seen = reader.types(watch)
            assert '"exit_code": 1' in seen
            assert "1 left to re-drive (exit code 1)" in seen

            web.set_page("/mends", "<html><body>" + "<p>It works again.</p>" * 60)
            assert '"status": "ok"' in reader.types(second)
            scrapyd.finished("quotes-2")
            said = json.loads((data / "run.json").read_text())
            assert (said["job_id"], said["exit_code"]) == ("quotes-2", 0)
            assert said["counts"]["by_outcome"] == {"ok": 3}
            assert (data / "failures.jsonl").read_text() == ""
            assert '"status": "ok"' in reader.types(stop)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE)


def _up(scrapyd: Scrapyd) -> bool:
    try:
        return scrapyd.get("daemonstatus")["status"] == "ok"
    except OSError:
        return False


def test_the_pages_way_to_check_a_signature_is_right() -> None:
    names: dict[str, Any] = {"hmac": hmac}
    exec(blocks("python")[0], names)
    assert names["is_genuine"]("s3cret", b'{"a": 1}\n', signature("s3cret", b'{"a": 1}\n'))
    assert not names["is_genuine"]("s3cret", b'{"a": 2}\n', signature("s3cret", b'{"a": 1}\n'))
