"""Plain pages per second while a browser renders some of the list, against the same list without.

    python -m benchmarks.browser_mixed [PAGES] [ROUNDS]

A crawl of plain pages of 13 KB alone, then one of the same length of which every twentieth
is made by script and rendered in real Chromium. The crawl has core 1 to itself in both; the
browser, its driver, the process of ours that they work for and the server share core 0. What
counts is the plain rung, from its first request to its last answer, and the CPU time of the
crawl's process meanwhile. The plain
crawl is also run while somebody else's browser works on core 0: cores share caches and
memory, and what that takes is no cost of ours.
"""

from __future__ import annotations

import os
import platform
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from json import dumps
from pathlib import Path

from benchmarks.throughput.__main__ import OURS
from benchmarks.throughput.server import ROOT, running
from retryscrape.crawl.browser.engine import bundled_node
from retryscrape.crawl.browser.executable import NAMES

SHARE = 20
TARGET = 0.9
#: How often a look is taken at what CPU time our process has used.
_EVERY = 0.02
_TICK = os.sysconf("SC_CLK_TCK")
#: What keeps a program of the browser on the other core.
_WRAPPER = '#!/bin/sh\nexec taskset -c 0 "{path}" "$@"\n'
#: A crawl whose own Python processes are started by a wrapper.
_CRAWL = (
    "import sys; sys.executable = sys.argv.pop(1); from scrapy.cmdline import execute; execute()"
)


@dataclass(frozen=True, slots=True)
class Measured:
    """The plain rung of one crawl: pages, seconds and our CPU seconds for them; and how many
    pages were rendered, meanwhile and in all."""

    pages: int
    wall: float
    cpu: float
    meanwhile: int
    rendered: int


class Meter(threading.Thread):
    """What CPU time a process (without those below it) has used, by the clock."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.stat = Path(f"/proc/{pid}/stat")
        self.times: list[float] = []
        self.used: list[float] = []
        self.start()

    def run(self) -> None:
        while True:
            try:
                fields = self.stat.read_text().rpartition(")")[2].split()
            except OSError:
                return
            self.times.append(time.time())
            self.used.append((int(fields[11]) + int(fields[12])) / _TICK)
            time.sleep(_EVERY)

    def between(self, first: float, last: float) -> float:
        """CPU seconds from one moment to another (epoch seconds)."""
        start, end = (
            self.used[min(bisect_left(self.times, t), len(self.used) - 1)] for t in (first, last)
        )
        return end - start


def wrapped(path: str, folder: Path, name: str) -> Path:
    """A program that runs on core 0 whatever started it."""
    wrapper = folder / name
    wrapper.write_text(_WRAPPER.format(path=path))
    wrapper.chmod(0o755)
    return wrapper


def crawl(urls: list[str], folder: Path) -> Measured:
    """One crawl on core 1, its browser on core 0."""
    folder.mkdir()
    (folder / "urls.txt").write_text("\n".join(urls) + "\n")
    path = next(found for found in map(shutil.which, NAMES) if found)
    options = {"executable_path": str(wrapped(path, folder, "chromium"))}
    settings = OURS | {
        "RETRYSCRAPE_LADDER": "http,browser",
        "RETRYSCRAPE_OUT": str(folder / "out"),
        "PLAYWRIGHT_LAUNCH_OPTIONS": dumps(options),
    }
    words = [word for item in settings.items() for word in ("-s", "=".join(item))]
    python = str(wrapped(sys.executable, folder, "python"))
    command = ["taskset", "-c", "1", sys.executable, "-c", _CRAWL, python, "crawl", "pages"]
    command += ["-a", f"manifest={folder / 'urls.txt'}", *words]
    node = wrapped(str(bundled_node()), folder, "node")
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            stdout=log,
            stderr=log,
            env=os.environ | {"PLAYWRIGHT_NODEJS_PATH": str(node)},
        )
        meter = Meter(process.pid)
        code = process.wait()
    if code:
        raise SystemExit((folder / "log").read_text(errors="replace")[-2000:])
    return measured(folder / "out" / "ledger.db", meter)


@contextmanager
def another_browser(base: str) -> Iterator[None]:
    """A bare Playwright loop on core 0, over the pages that our crawl would render."""
    words = [sys.executable, "benchmarks/browser.py", "--bare", f"{base}/script"]
    other = subprocess.Popen(["taskset", "-c", "0", *words], cwd=ROOT, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        other.terminate()
        other.wait()


def measured(ledger: Path, meter: Meter) -> Measured:
    """What the ledger tells of a crawl that is over."""
    with sqlite3.connect(ledger) as connection:
        rows = connection.execute("SELECT started_at, elapsed, rung, outcome FROM attempts")
        attempts = [(epoch(at), epoch(at) + took, rung, how) for at, took, rung, how in rows]
    plain = [a for a in attempts if a[2] == "http" and a[3] == "ok"]
    rendered = [a for a in attempts if a[2] == "browser"]
    assert all(how == "ok" for *_, how in rendered), "a page was not rendered"
    first, last = min(a[0] for a in plain), max(a[1] for a in plain)
    meanwhile = sum(end <= last for _, end, *_ in rendered)
    used = meter.between(first, last)
    return Measured(len(plain), last - first, used, meanwhile, len(rendered))


def epoch(moment: str) -> float:
    """The ledger's times as seconds."""
    return datetime.fromisoformat(moment).timestamp()


def main(pages: int, rounds: int) -> None:
    runs: dict[str, list[Measured]] = {"plain alone": [], "plain, beside a browser": []}
    runs["5% rendered"] = []
    made = tempfile.TemporaryDirectory(prefix="retryscrape-bench-", ignore_cleanup_errors=True)
    with made as name, running("taskset", "-c", "0") as port:
        base, folder = f"http://127.0.0.1:{port}", Path(name)
        alone = [f"{base}/13/{n}" for n in range(pages)]
        mixed = [f"{base}/script/{n}" if n % SHARE == 0 else url for n, url in enumerate(alone)]
        for turn in range(rounds):
            runs["plain alone"].append(crawl(alone, folder / f"{turn}-alone"))
            with another_browser(base):
                runs["plain, beside a browser"].append(crawl(alone, folder / f"{turn}-beside"))
            runs["5% rendered"].append(crawl(mixed, folder / f"{turn}-mixed"))
    show(runs, pages, rounds)


def show(runs: dict[str, list[Measured]], pages: int, rounds: int) -> None:
    """The table and its ratios."""
    print(f"{pages} pages, medians of {rounds} rounds, Python {platform.python_version()}")
    print("| crawl | plain pages/s | plain pages per CPU s of ours | rendered meanwhile, in all |")
    print("|---|---|---|---|")
    rates = []
    for name, some in runs.items():
        wall = statistics.median(run.pages / run.wall for run in some)
        cpu = statistics.median(run.pages / run.cpu for run in some)
        rates.append((wall, cpu))
        last = some[-1]
        print(f"| {name} | {wall:.0f} | {cpu:.0f} | {last.meanwhile}, {last.rendered} |")
    *others, mixed = rates
    for name, rate in zip(runs, others, strict=False):
        kept = [f"{mixed[n] / rate[n]:.2f} by {by}" for n, by in enumerate(("clock", "CPU time"))]
        print(f"kept of {name!r}: {', '.join(kept)} (target {TARGET})")


if __name__ == "__main__":
    numbers = [int(arg) for arg in sys.argv[1:]]
    main(*(numbers + [4000, 2][len(numbers) :]))
