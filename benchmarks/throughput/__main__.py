"""One table: pages per CPU second of the whole process tree, pages per second, peak memory.

    make bench [ARGS="--pages 4000 --rounds 5 --quick"]

One server process on core 0, the crawlers by turns on core 1, medians of the rounds. Every
crawler gets 64 requests at once and no delay. Ours keeps everything: classification,
decisions, ledger committed, pages on disk.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.throughput.server import HOSTS, PROXIES, ROOT, running

OURS = {
    "CONCURRENT_REQUESTS": "64",
    "CONCURRENT_REQUESTS_PER_DOMAIN": "64",
    "DOWNLOAD_DELAY": "0",
    "RETRYSCRAPE_PROGRESS": "0",
    "RETRYSCRAPE_BACKOFF_BASE": "0.05",
    "RETRYSCRAPE_LADDER": "http",
}
EVERYBODY = (
    "scrapy",
    "scrapy-tuned",
    "crawlee-impit-memory",
    "crawlee-impit-memory-pages",
    "crawlee-httpx-memory",
    "crawlee-impit-file-pages",
    "crawlee-impit-sql-pages",
    "retryscrape",
    "floor-client",
    "floor-engine",
)
FEW = ("scrapy", "scrapy-tuned", "crawlee-impit-memory-pages", "retryscrape")
#: Name of the workload: who takes part.
WORKLOADS = {
    "13 KB": EVERYBODY,
    "13 KB, 8 proxies": ("scrapy", "scrapy-tuned", "retryscrape"),
    "13 KB, 200 hosts": FEW,
    "13 KB, 5% faults": FEW,
    "150 KB": FEW,
    "JSON 1 KB": FEW,
}
QUICK = {"13 KB": ("scrapy", "scrapy-tuned", "crawlee-impit-memory-pages", "retryscrape")}


@dataclass(frozen=True, slots=True)
class Measured:
    """One crawl: seconds of CPU (children included), seconds, peak memory in MB."""

    cpu: float
    wall: float
    memory: float


def urls_of(workload: str, port: int, pages: int) -> list[str]:
    """The addresses of a workload."""
    kind = {"150 KB": "150", "JSON 1 KB": "json"}.get(workload, "13")
    hosts = HOSTS if "200 hosts" in workload else ["127.0.0.1"]
    faulty = "faults" in workload
    return [
        f"http://{hosts[n % len(hosts)]}:{port}/{'fault' if faulty and n % 20 == 0 else kind}/{n}"
        for n in range(pages)
    ]


def command_of(name: str, folder: Path) -> list[str]:
    """How a contender is started."""
    if name != "retryscrape":
        return [sys.executable, "-m", "benchmarks.throughput.rivals", name, str(folder)]
    settings = dict(OURS, RETRYSCRAPE_OUT=str(folder / "out"))
    if (folder / "proxies.txt").exists():
        settings["RETRYSCRAPE_PROXIES"] = str(folder / "proxies.txt")
    words = [word for item in settings.items() for word in ("-s", "=".join(item))]
    manifest = f"manifest={folder / 'urls.txt'}"
    return [sys.executable, "-m", "scrapy", "crawl", "pages", "-a", manifest, *words]


def run_of(name: str, workload: str, port: int, pages: int, folder: Path) -> Measured:
    """One crawl in a process of its own. Raises SystemExit with its output if it fails."""
    folder.mkdir()
    (folder / "urls.txt").write_text("\n".join(urls_of(workload, port, pages)) + "\n")
    if "proxies" in workload:
        (folder / "proxies.txt").write_text("".join(f"http://{p}:{port}\n" for p in PROXIES))
    core = "1" if len(os.sched_getaffinity(0)) > 1 else "0"
    command = ["taskset", "-c", core, *command_of(name, folder)]
    before, start = _used(), time.perf_counter()
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    wall = time.perf_counter() - start
    if process.returncode:
        raise SystemExit(f"{name} failed:\n{(folder / 'log').read_text()[-2000:]}")
    return Measured(_used() - before, wall, usage.ru_maxrss / 1024)


def _used() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def table(workloads: dict[str, tuple[str, ...]], pages: int, rounds: int, folder: Path) -> None:
    """All contenders by turns, on one server."""
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, {time.strftime('%F %R')}")
    print("| workload | crawler | pages per CPU s | spread | of Scrapy's | pages/s | MB |")
    print("|---|---|---|---|---|---|---|")
    number = 0
    with running("taskset", "-c", "0") as port:
        for workload, names in workloads.items():
            runs: dict[str, list[Measured]] = {name: [] for name in names}
            size = pages // 4 if workload == "150 KB" else pages
            for name in names if not number else ():  # in a fresh clone nothing is compiled yet
                run_of(name, workload, port, 20, folder / f"first-{name}")
            for _ in range(rounds):
                for name in names:
                    number += 1
                    runs[name].append(run_of(name, workload, port, size, folder / str(number)))
            base = _per_cpu(runs["scrapy"], size)
            for name in names:
                print(_row(workload, name, runs[name], size, base), flush=True)


def _per_cpu(runs: list[Measured], pages: int) -> float:
    return statistics.median(pages / run.cpu for run in runs)


def _row(workload: str, name: str, runs: list[Measured], pages: int, base: float) -> str:
    rates = sorted(pages / run.cpu for run in runs)
    middle = _per_cpu(runs, pages)
    wall = statistics.median(pages / run.wall for run in runs)
    memory = statistics.median(run.memory for run in runs)
    spread = f"{rates[0]:.0f} to {rates[-1]:.0f}"
    return (
        f"| {workload} | {name} | {middle:.0f} | {spread} | {middle / base:.2f} "
        f"| {wall:.0f} | {memory:.0f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.throughput")
    parser.add_argument("--pages", type=int, default=4000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="one workload, under a minute")
    parser.add_argument("--only", help="the one workload to run")
    given = parser.parse_args()
    workloads = QUICK if given.quick else WORKLOADS
    if given.only:
        workloads = {given.only: WORKLOADS[given.only]}
    pages, rounds = (1000, 1) if given.quick else (given.pages, given.rounds)
    folder = Path(tempfile.mkdtemp(prefix="retryscrape-bench-"))
    try:
        table(workloads, pages, rounds, folder)
    finally:
        # not between two crawls: a file system is slow for seconds after many files were deleted
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
