"""How each tool is run over a world, in a process of its own, and what it says it got.

All with 32 requests at once, no delay, no robots.txt, 8 s for an answer, 10 retries.
"""

from __future__ import annotations

import json
import resource
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.exits.worlds import COST_GB, Built

AT_ONCE, TIMEOUT, RETRIES = 32, 8, 10
#: Seconds after which a tool is ended; what it has got by then counts.
LIMIT = 300

Found = dict[str, str]


def ours(folder: Path, world: Built) -> list[str]:
    """``scrapy crawl pages`` with the plain rung, one pass."""
    settings = {
        "RETRYSCRAPE_OUT": folder / "out",
        "RETRYSCRAPE_PROXIES": folder / "priced.txt",
        "RETRYSCRAPE_LADDER": "http",
        "RETRYSCRAPE_PROGRESS": 0,
        "CONCURRENT_REQUESTS": AT_ONCE,
        "CONCURRENT_REQUESTS_PER_DOMAIN": AT_ONCE,
        "DOWNLOAD_DELAY": 0,
        "DOWNLOAD_TIMEOUT": TIMEOUT,
        "ROBOTSTXT_OBEY": 0,
        "LOG_LEVEL": "ERROR",
    }
    lines = zip(world.proxies, world.costs.values(), strict=True)
    priced = "".join(f"{url} cost={cost} cost_gb={COST_GB}\n" for url, cost in lines)
    (folder / "priced.txt").write_text(priced)
    options = [word for item in settings.items() for word in ("-s", "=".join(map(str, item)))]
    manifest = f"manifest={folder / 'urls.txt'}"
    return [sys.executable, "-m", "scrapy", "crawl", "pages", "-a", manifest, *options]


def rival(name: str) -> Callable[[Path, Built], list[str]]:
    """Another tool's crawl, as a user of it would write it."""

    def command(folder: Path, world: Built) -> list[str]:
        (folder / "proxies.txt").write_text("".join(f"{url}\n" for url in world.proxies))
        return [sys.executable, "-m", "benchmarks.exits.rivals", name, str(folder)]

    return command


TOOLS: dict[str, Callable[[Path, Built], list[str]]] = {
    "retryscrape": ours,
    "Scrapy, in turn": rival("turn"),
    "Scrapy, rotating-proxies": rival("rotating"),
    "Crawlee": rival("crawlee"),
}


def run(tool: str, folder: Path, world: Built) -> tuple[Found, float, float]:
    """What the tool found, the seconds from its start to its end, and those of the processor."""
    (folder / "urls.txt").write_text("".join(f"{url}\n" for url in world.pages))
    command = TOOLS[tool](folder, world)
    home = Path(__file__).parents[2]
    started, before = time.monotonic(), _cpu()
    with (folder / "log.txt").open("wb") as log:
        try:
            subprocess.run(command, cwd=home, stdout=log, stderr=log, timeout=LIMIT, check=False)
        except subprocess.TimeoutExpired:
            print(f"{tool} was ended after {LIMIT} s", file=sys.stderr)
    return _found(folder), time.monotonic() - started, _cpu() - before


def _cpu() -> float:
    """Processor seconds of the children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _found(folder: Path) -> Found:
    ledger, lines = folder / "out" / "ledger.db", folder / "found.jsonl"
    if ledger.exists():
        with sqlite3.connect(ledger) as connection:
            sql = "SELECT url, page_sha256 FROM entries WHERE status = 'success'"
            return dict(connection.execute(sql).fetchall())
    if lines.exists():
        return dict(json.loads(line) for line in lines.read_text().splitlines())
    return {}
