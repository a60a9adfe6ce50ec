"""Memory of a long crawl: after the first 10,000 pages, and at the end.

    python benchmarks/memory.py [--pages 200000] [--lines 1000000] [--workload "JSON 1 KB"]

``--lines`` is the length of the manifest: the crawl is stopped after ``--pages``. How many
are done is read from ``run.json`` and the process's own memory from /proc, once a second.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.throughput.__main__ import ROOT, command_of, urls_of

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


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks/memory.py")
    parser.add_argument("--pages", type=int, default=200_000)
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--workload", default="JSON 1 KB")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="retryscrape-memory-"))
    server = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.throughput.server"],
        cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert server.stdin is not None
    assert server.stdout is not None
    try:
        urls = urls_of(given.workload, int(server.stdout.readline()), given.lines)
        (folder / "urls.txt").write_text("\n".join(urls) + "\n")
        del urls
        with (folder / "log").open("wb") as log:
            command = command_of("retryscrape", folder)
            process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)
            seen = watch(process, folder / "out" / "ledger.db", given.pages)
        early = max(memory for done, memory in seen if done <= FIRST)
        print(f"{given.lines} lines; {seen[-1][0]} pages done when it was stopped")
        print(f"after {FIRST} pages {early:.0f} MB, at most {max(m for _, m in seen):.0f} MB")
        step = max(1, len(seen) // 12)
        print("; ".join(f"{done}: {memory:.0f} MB" for done, memory in seen[::step]))
    finally:
        server.stdin.close()
        server.wait()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
