"""Real ``scrapy`` commands of this project in processes of their own, for tests.

``Project(tmp_path)`` has an OUT and manifests below a test's own folder.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

__all__ = ["Done", "Project", "Started", "project", "until"]

HOME = Path(__file__).parents[1]

#: A machine with all helpers at work takes ten times as long as a quiet one.
LIMIT = 300.0

#: As fast as a test can be: no politeness on loopback, short waits, the plain rung only.
FAST = {
    "DOWNLOAD_DELAY": "0",
    "CONCURRENT_REQUESTS_PER_DOMAIN": "16",
    "ROBOTSTXT_OBEY": "0",
    "RETRYSCRAPE_LADDER": "http",
    "RETRYSCRAPE_BACKOFF_BASE": "0.05",
    "RETRYSCRAPE_PROGRESS": "0",
    "RETRYSCRAPE_REDRIVE_BASE": "0",
    "RETRYSCRAPE_REDRIVE_JITTER": "0,0",
}


@dataclass(frozen=True)
class Done:
    """A command that has ended."""

    code: int
    out: str
    err: str


class Started:
    """A command that goes on. Its output goes to a file: a pipe that nobody reads would
    stop it."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self._process, self._log = process, log
        self.pid = process.pid
        self.poll = process.poll
        self.send_signal = process.send_signal

    def said(self) -> str:
        """Its output so far."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    def wait(self) -> Done:
        """Wait for its end; one that does not end is killed, and the test fails."""
        try:
            code = self._process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            self.kill()
            pytest.fail(f"it did not end: {self.said()}")
        return Done(code, "", self.said())

    def kill(self) -> None:
        """``kill -9``."""
        self._process.kill()
        self._process.wait()


class Project:
    """This project, with an OUT of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.out = folder / "out"
        self._started: list[Started] = []

    def close(self) -> None:
        """End what was started and goes on (a failed test's; a pass is told by its loop)."""
        for started in self._started:
            if started.poll() is None:
                started.send_signal(signal.SIGTERM)
                started.send_signal(signal.SIGTERM)
                started.wait()

    def manifest(self, name: str, urls: Iterable[str]) -> Path:
        """A list of URLs as a file."""
        path = self.folder / name
        path.write_text("".join(f"{url}\n" for url in urls), encoding="utf-8")
        return path

    def words(self, *words: str, settings: dict[str, str] | None = None) -> list[str]:
        """The command's words, with the settings of all tests."""
        merged = {**FAST, "RETRYSCRAPE_OUT": str(self.out), **(settings or {})}
        options = [word for item in merged.items() for word in ("-s", "=".join(item))]
        return [sys.executable, "-m", "scrapy", *words, *options]

    def start(self, *words: str, settings: dict[str, str] | None = None) -> Started:
        """A command that goes on."""
        log = self.folder / f"started-{len(self._started)}.log"
        with log.open("wb") as file:
            process = subprocess.Popen(
                self.words(*words, settings=settings),
                cwd=HOME,
                env=environment(),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
            )
        self._started.append(Started(process, log))
        return self._started[-1]

    def scrapy(self, *words: str, settings: dict[str, str] | None = None) -> Done:
        """A command, run to its end."""
        done = subprocess.run(
            self.words(*words, settings=settings),
            cwd=HOME,
            env=environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def crawl(self, manifest: Path, *words: str, settings: dict[str, str] | None = None) -> Done:
        """``scrapy crawl pages`` over a manifest."""
        return self.scrapy(
            "crawl", "pages", "-a", f"manifest={manifest}", *words, settings=settings
        )

    def sql(self, text: str, *values: Any) -> list[tuple[Any, ...]]:
        """Ask the ledger, past all of our code."""
        with sqlite3.connect(self.out / "ledger.db") as connection:
            found = connection.execute(text, values).fetchall()
        connection.close()
        return found

    def feed(self, batch: str) -> list[dict[str, Any]]:
        """The failures feed of a batch."""
        text = (self.out / batch / "failures.jsonl").read_text(encoding="utf-8")
        return [json.loads(line) for line in text.splitlines()]


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    """This project, with an OUT of the test's own."""
    made = Project(tmp_path)
    yield made
    made.close()


def until(condition: Callable[[], object], seconds: float = LIMIT) -> None:
    """Look again and again, where nothing tells us. Fails after ``seconds``."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.02)


def environment() -> dict[str, str]:
    """Ours, without what a Scrapyd or another project may have left in it."""
    return {name: value for name, value in os.environ.items() if not name.startswith("SCRAPY")}
