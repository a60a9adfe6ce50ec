"""What share of a real crawl's CPU time the ledger takes: clocks of threads around its functions.

Bound (issue 4): under 5 %. Pages of 13 KB from the server of benchmarks/throughput, on loopback,
as fast as one core goes; that is the worst case, a crawl that waits for its sites has fewer rows a
second and the same share. Page files are no part of the ledger and are shown beside it.
Run: python -m benchmarks.ledger_share [PAGES]
"""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

from benchmarks.throughput.__main__ import OURS, urls_of
from benchmarks.throughput.server import ROOT, running
from retryscrape.ledger import files
from retryscrape.ledger.store import Ledger
from retryscrape.ledger.storing import Storing
from retryscrape.ledger.writer import Writer

SPENT: Counter[str] = Counter()


def main() -> None:
    """One crawl in a process of its own; that process says what it spent."""
    pages = int(sys.argv[1]) if len(sys.argv) > 1 else 4000
    with running("taskset", "-c", "0") as port, tempfile.TemporaryDirectory() as folder:
        manifest = Path(folder) / "urls.txt"
        manifest.write_text("\n".join(urls_of("13 KB", port, pages)) + "\n")
        settings = dict(OURS, RETRYSCRAPE_OUT=f"{folder}/out", LOG_FILE=f"{folder}/log")
        words = [word for item in settings.items() for word in ("-s", "=".join(item))]
        core = str(len(os.sched_getaffinity(0)) - 1)
        inside = [sys.executable, "-m", "benchmarks.ledger_share", "inside", str(pages)]
        crawl = ["scrapy", "crawl", "pages", "-a", f"manifest={manifest}", *words]
        subprocess.run(["taskset", "-c", core, *inside, *crawl], cwd=ROOT, check=False)


def inside(pages: int, words: list[str]) -> None:
    """In the crawl's process: clocks first, then Scrapy."""
    from scrapy.cmdline import execute

    clock(Writer, "_run", "writer's thread")
    clock(Storing, "_write", "page files")
    clock(Writer, "_enqueue", "handing over")
    clock(Ledger, "add_rows", "lines become rows")
    clock(Ledger, "open", "opening")
    clock(files, "write_failures", "feed, index, report")
    clock(files, "write_index", "feed, index, report")
    clock(files, "report_data", "feed, index, report")
    atexit.register(tell, pages)
    execute(words)


def clock(owner: Any, name: str, what: str) -> None:
    """Count the CPU time of the calling thread in a function, without what it waits for."""
    function: Callable[..., Any] = getattr(owner, name)

    @wraps(function)
    def timed(*args: Any, **kwargs: Any) -> Any:
        began = time.thread_time()
        try:
            return function(*args, **kwargs)
        finally:
            SPENT[what] += time.thread_time() - began  # type: ignore[assignment]

    setattr(owner, name, timed)


def tell(pages: int) -> None:
    """A line for each part, and the sum."""
    total, thread = time.process_time(), SPENT.pop("writer's thread")
    SPENT["rows (the rest of the writer's thread)"] = thread - SPENT["page files"]  # type: ignore[assignment]
    ledger = sum(SPENT.values()) - SPENT["page files"]
    print(f"{pages} pages, {total:.1f} s of CPU, load {os.getloadavg()[0]:.1f}")
    for what, seconds in [*SPENT.most_common(), ("the ledger in all", ledger)]:
        print(f"  {what}: {seconds / pages * 1e6:.0f} microseconds a page, {seconds / total:.1%}")


if __name__ == "__main__":
    inside(int(sys.argv[2]), sys.argv[3:]) if sys.argv[1:2] == ["inside"] else main()
