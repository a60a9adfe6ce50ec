"""``scrapy reconcile`` over a large batch: time and memory, with a page on disk for every row.

Bound (issue 4): 1,000,000 rows in under 30 s and 300 MB. Pages are 2 kB each.
Run: python benchmarks/reconcile.py [ROWS [FOLDER]] (a FOLDER is kept and used again)
"""

from __future__ import annotations

import contextlib
import hashlib
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from retryscrape.ledger.pages import page_path
from retryscrape.ledger.records import NewRow, Result
from retryscrape.ledger.store import Ledger
from retryscrape.manifest.read import digest
from retryscrape.policy.outcomes import Outcome, Status

BODY = b"<html><body>" + b"words of a page that is good enough " * 56 + b"</body></html>"
CHUNK = 5000


def main() -> None:
    """Make a batch if there is none, then measure the command in a process of its own."""
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with contextlib.ExitStack() as stack:
        if len(sys.argv) > 2:
            folder = Path(sys.argv[2])
        else:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if not (folder / "out" / "ledger.db").exists():
            make(folder, rows)
        command = [sys.executable, "-m", "scrapy", "reconcile", "big"]
        began = time.monotonic()
        done = subprocess.run(
            [*command, "-s", f"RETRYSCRAPE_OUT={folder / 'out'}"],
            check=False, capture_output=True, text=True,
        )  # fmt: skip
        seconds = time.monotonic() - began
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(done.stdout + done.stderr)
    print(
        f"{rows:,} rows: {seconds:.1f} s, {used.ru_utime + used.ru_stime:.1f} s of CPU,"
        f" at most {used.ru_maxrss / 1024:.0f} MB (exit code {done.returncode})"
    )


def make(folder: Path, rows: int) -> None:
    """A manifest, a ledger and a page store that agree."""
    out = folder / "out"
    out.mkdir(parents=True)
    manifest = folder / "big.txt"
    with manifest.open("w", encoding="utf-8") as file:
        file.writelines(f"{url(n)}\n" for n in range(rows))
    with Ledger.open(str(out / "ledger.db")) as ledger:
        name = str(manifest)
        ledger.open_batch("big", name, digest(name), now=0.0)
        given = {"manifest": name}
        ledger.start_job("j", "big", "2026-01-01T00:00:00Z", spider="pages", arguments=given)
        for start in range(0, rows, CHUNK):
            numbers = range(start, min(start + CHUNK, rows))
            lines = [NewRow(url=url(n), line=n + 1, host="h.test") for n in numbers]
            ledger.add_rows(
                "big", lines, manifest=name, read_to=numbers[-1] + 1, job_id="j", now=0.0
            )
            ledger.write(list(successes(out, numbers)))
        ledger.finish_read("big", name)


def successes(out: Path, numbers: range) -> Iterator[Result]:
    """Rows, each with its page written."""
    sha256 = hashlib.sha256(BODY).hexdigest()
    for n in numbers:
        path = page_path("big", url(n), "text/html")
        target = out / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(BODY)
        yield Result(
            batch_id="big", url=url(n), line=n + 1, host="h.test",
            status=Status.SUCCESS, outcome=Outcome.OK, http_code=200, attempts=1, passes=1,
            cost=2.0, bytes=len(BODY), rung="http", page_path=path, page_sha256=sha256,
            page_bytes=len(BODY), content_type="text/html", job_id="j",
        )  # fmt: skip


def url(n: int) -> str:
    """The n-th URL."""
    return f"http://h.test/section/{n % 97}/page-{n}.html?id={n}"


if __name__ == "__main__":
    main()
