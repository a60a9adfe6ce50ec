"""A real Scrapyd on a free port of loopback, with the project deployed from a clean checkout."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest

from tests.checkout import script

__all__ = ["scrapyd", "scrapyd_server"]

#: Seconds that anything here may take on a busy machine.
PATIENCE = 60.0


class Scrapyd:
    """A running server; ``folder`` is its working folder."""

    def __init__(self, folder: Path, port: int, checkout: Path) -> None:
        self.folder, self.url, self.checkout = folder, f"http://127.0.0.1:{port}", checkout

    def get(self, name: str, **given: str) -> dict[str, Any]:
        """An answer of the API; Scrapyd says errors with status 200, so they are looked at."""
        with urlopen(f"{self.url}/{name}.json?{urlencode(given)}", timeout=PATIENCE) as answer:
            return self._checked(json.load(answer))

    def post(self, name: str, *settings: str, **given: str) -> dict[str, Any]:
        """The same with a form; ``settings`` are ``NAME=VALUE``."""
        form = [*given.items(), *(("setting", setting) for setting in settings)]
        body = urlencode(form).encode()
        with urlopen(f"{self.url}/{name}.json", body, timeout=PATIENCE) as answer:
            return self._checked(json.load(answer))

    @staticmethod
    def _checked(answer: dict[str, Any]) -> dict[str, Any]:
        assert answer["status"] == "ok", answer
        return answer

    def schedule(self, job: str, out: Path, *settings: str, **given: str) -> None:
        """Start a job of ``pages`` that writes below ``out``."""
        quick = ("DOWNLOAD_DELAY=0", f"RETRYSCRAPE_OUT={out}", *settings)
        self.post("schedule", *quick, project="retryscrape", spider="pages", jobid=job, **given)

    def cancel(self, job: str) -> None:
        """Cancel once."""
        self.post("cancel", project="retryscrape", job=job)

    def state(self, job: str) -> str:
        """``pending``, ``running``, ``finished``, or nothing."""
        jobs = self.get("listjobs", project="retryscrape")
        states = ("pending", "running", "finished")
        return next((s for s in states if any(j["id"] == job for j in jobs[s])), "")

    def log(self, job: str) -> str:
        """The job's log so far."""
        path = self.folder / "logs" / "retryscrape" / "pages" / f"{job}.log"
        return path.read_text(encoding="utf-8") if path.exists() else ""

    def finished(self, job: str) -> str:
        """Wait for the end of a job; its log."""
        until(lambda: self.state(job) == "finished", f"job {job} to end")
        return self.log(job)


def until(true: Callable[[], object], what: str) -> None:
    """Wait for something that happens in another process."""
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end, f"waited {PATIENCE:g} s for {what}"
        time.sleep(0.1)


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def clean_environment() -> dict[str, str]:
    """The environment without what this test run put into it."""
    return {k: v for k, v in os.environ.items() if not k.startswith(("SCRAPY", "PYTHON"))}


@pytest.fixture(scope="session")
def scrapyd_server(
    checkout: Path, bare_python: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scrapyd]:
    """A server without the project."""
    folder, port = tmp_path_factory.mktemp("scrapyd"), free_port()
    (folder / "scrapyd.conf").write_text(
        f"[scrapyd]\nhttp_port = {port}\npoll_interval = 0.2\nmax_proc = 2\n"
        "items_dir = items\njobs_to_keep = 100\n"
    )
    config = checkout / "scrapy.cfg"
    config.write_text(config.read_text().replace("127.0.0.1:6800", f"127.0.0.1:{port}"))
    with (folder / "scrapyd.log").open("wb") as log:
        process = subprocess.Popen(
            [bare_python, "-m", "scrapyd"],
            cwd=folder,
            env=clean_environment(),
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        server = Scrapyd(folder, port, checkout)
        until(lambda: _answers(port) or process.poll() is not None, "Scrapyd to start")
        assert process.poll() is None, (folder / "scrapyd.log").read_text()
        yield server
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE)


def _answers(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(scope="session")
def scrapyd(scrapyd_server: Scrapyd) -> Scrapyd:
    """A server with the project, deployed with ``scrapyd-client deploy``."""
    done = subprocess.run(
        [script("scrapyd-client"), "deploy"],
        cwd=scrapyd_server.checkout,
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert '"status": "ok"' in done.stdout, done.stdout
    return scrapyd_server


def python_path() -> str:
    """The folder of this environment's scripts, for shells."""
    return str(Path(sys.executable).parent)
