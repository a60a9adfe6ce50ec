"""One process, and two that share the hosts of one batch (``-a shard=K/N``) on one ledger.

    python benchmarks/shards.py [--pages 4000] [--rounds 3]

13 KB pages from 200 hosts. The server needs a core of its own, and a machine of two has none
left: so by CPU seconds, start included. What two cores would do is twice the one over the other.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.throughput.__main__ import command_of, urls_of
from benchmarks.throughput.server import ROOT, running


def crawl(port: int, pages: int, shards: int, folder: Path) -> float:
    """CPU seconds of so many processes at once on one batch."""
    folder.mkdir()
    urls = urls_of("13 KB, 200 hosts", port, pages)
    (folder / "urls.txt").write_text("\n".join(urls) + "\n")
    before = os.times()
    with (folder / "log").open("wb") as log:
        started = []
        for number in range(1, shards + 1):
            command = command_of("retryscrape", folder)
            if shards > 1:
                command += ["-a", f"shard={number}/{shards}"]
            started.append(subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log))
        codes = [process.wait() for process in started]
    if any(codes):
        raise SystemExit((folder / "log").read_text()[-2000:])
    after = os.times()
    return sum(after[2:4]) - sum(before[2:4])


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks/shards.py")
    parser.add_argument("--pages", type=int, default=4000)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    used: dict[int, list[float]] = {1: [], 2: []}
    made = tempfile.TemporaryDirectory(prefix="retryscrape-shards-", ignore_cleanup_errors=True)
    with made as name, running() as port:
        for turn in range(given.rounds):
            for shards in used:
                folder = Path(name) / f"{turn}-{shards}"
                used[shards].append(crawl(port, given.pages, shards, folder))
    one, two = (statistics.median(used[shards]) for shards in used)
    print(f"one process {given.pages / one:.0f} pages a CPU second, two {given.pages / two:.0f}")
    print(f"on two cores of their own: {2 * one / two:.2f} times one process")


if __name__ == "__main__":
    main()
