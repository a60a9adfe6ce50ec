"""Memory of a long crawl: after the first 10,000 pages, and at the end.

    python benchmarks/memory.py [--pages 200000] [--lines 1000000] [--workload "JSON 1 KB"]

``--lines`` is the length of the manifest: the crawl is stopped after ``--pages``. How many
are done is read from ``run.json`` and the process's own memory from /proc, once a second.
"""

from __future__ import annotations

import argparse
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.throughput.__main__ import command_of, urls_of
from benchmarks.throughput.server import ROOT, running

FIRST = 10_000


def resident(pid: int) -> float:
    """MB that a process has in memory now, and 0 when it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS")), 0.0)


def done_of(ledger: Path) -> int:
    """Pages that are in the ledger."""
    try:
        with sqlite3.connect(f"file:{ledger}?mode=ro", uri=True) as connection:
            query = "SELECT count(*) FROM entries WHERE status = 'success'"
            return int(connection.execute(query).fetchone()[0])
    except sqlite3.Error:
        return 0


def watch(process: subprocess.Popen[bytes], ledger: Path, pages: int) -> list[tuple[int, float]]:
    """Pages done and MB, every few seconds, until as many are done."""
    seen: list[tuple[int, float]] = []
    while process.poll() is None:
        time.sleep(1 if len(seen) < 60 else 5)
        done, memory = done_of(ledger), resident(process.pid)
        if memory:
            seen.append((done, memory))
        if done >= pages:
            process.send_signal(signal.SIGINT)
            process.wait()
    return seen


def crawl(folder: Path, urls: list[str], pages: int) -> list[tuple[int, float]]:
    """A crawl of these, watched until so many pages are done."""
    (folder / "urls.txt").write_text("\n".join(urls) + "\n")
    with (folder / "log").open("wb") as log:
        command = command_of("retryscrape", folder)
        process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)
        return watch(process, folder / "out" / "ledger.db", pages)


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks/memory.py")
    parser.add_argument("--pages", type=int, default=200_000)
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--workload", default="JSON 1 KB")
    given = parser.parse_args()
    made = tempfile.TemporaryDirectory(prefix="retryscrape-memory-", ignore_cleanup_errors=True)
    with made as name, running() as port:
        seen = crawl(Path(name), urls_of(given.workload, port, given.lines), given.pages)
    early = max(memory for done, memory in seen if done <= FIRST)
    print(f"{given.lines} lines; {seen[-1][0]} pages done when it was stopped")
    print(f"after {FIRST} pages {early:.0f} MB, at most {max(m for _, m in seen):.0f} MB")
    step = max(1, len(seen) // 12)
    print("; ".join(f"{done}: {memory:.0f} MB" for done, memory in seen[::step]))


if __name__ == "__main__":
    main()
