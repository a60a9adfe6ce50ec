"""``scrapy reconcile`` and ``scrapy report`` over a large batch: time and memory.

Bound (issue 4): 1,000,000 rows in under 30 s and 300 MB each. The batch is 40 hosts, a page
of 2 kB on disk for 97 % of the rows, 3 % failed, every tenth row with 3 attempts instead of
one, through 50 exits in two runs.
Run: python benchmarks/large_batch.py [ROWS [FOLDER]] (a FOLDER is kept and used again)
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from retryscrape.ledger.pages import page_path
from retryscrape.ledger.records import AttemptRecord, NewRow, Result
from retryscrape.ledger.store import Ledger
from retryscrape.ledger.times import iso
from retryscrape.manifest.read import digest
from retryscrape.policy.outcomes import ErrorClass, Kind, Outcome, Status

BODY = b"<html><body>" + b"words of a page that is good enough " * 56 + b"</body></html>"
SHA256 = hashlib.sha256(BODY).hexdigest()
CHUNK = 5000
HOSTS, EXITS = 40, 50
#: Rows a second of the crawl that is played, and when it began (epoch seconds).
SPEED, BEGAN = 50, 1_790_000_000.0
COMMANDS = (
    ("reconcile", "big"),
    ("report", "big"),
    ("report", "big", "--json"),
    ("report", "big", "--html", "{folder}/report.html"),
)


def main() -> None:
    """Make a batch if there is none, then measure each command in a process of its own."""
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with contextlib.ExitStack() as stack:
        if len(sys.argv) > 2:
            folder = Path(sys.argv[2])
        else:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if not (folder / "out" / "ledger.db").exists():
            make(folder, rows)
        print(f"{rows:,} rows, Python {sys.version.split()[0]}, {os.cpu_count()} cores")
        for words in COMMANDS:
            measure(folder, [word.format(folder=folder) for word in words])


def measure(folder: Path, words: list[str]) -> None:
    """Run one command and print what it took; the memory is that of its largest process."""
    command = [sys.executable, "-m", "scrapy", *words, "-s", f"RETRYSCRAPE_OUT={folder / 'out'}"]
    before, began = os.times(), time.monotonic()
    with (folder / "output.txt").open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
        _, status, used = os.wait4(process.pid, 0)
    seconds, after = time.monotonic() - began, os.times()
    cpu = after.children_user + after.children_system
    cpu -= before.children_user + before.children_system
    print(
        f"scrapy {' '.join(words)}: {seconds:.1f} s, {cpu:.1f} s of CPU, at most"
        f" {used.ru_maxrss / 1024:.0f} MB (exit code {os.waitstatus_to_exitcode(status)})"
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
        ledger.open_batch("big", name, digest(name), now=BEGAN)
        given = {"manifest": name}
        for job in ("first", "second"):
            ledger.start_job(job, "big", iso(BEGAN), spider="pages", arguments=given)
        for start in range(0, rows, CHUNK):
            numbers = range(start, min(start + CHUNK, rows))
            lines = [NewRow(url=url(n), line=n + 1, host=host(n)) for n in numbers]
            ledger.add_rows(
                "big", lines, manifest=name, read_to=numbers[-1] + 1, job_id="first", now=BEGAN
            )
            history = [attempt(n, k) for n in numbers for k in range(1, tried(n) + 1)]
            ledger.write(list(results(out, numbers)), history)
        ledger.finish_read("big", name)


def results(out: Path, numbers: range) -> Iterator[Result]:
    """Rows, those of successes with their page written."""
    for n in numbers:
        yield success(out, n) if fine(n) else failure(n)


def success(out: Path, n: int) -> Result:
    """A row with its page."""
    path = page_path("big", url(n), "text/html")
    target = out / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(BODY)
    return Result(
        batch_id="big", url=url(n), line=n + 1, host=host(n),
        status=Status.SUCCESS, outcome=Outcome.OK, http_code=200, attempts=tried(n), passes=1,
        cost=2.0 * tried(n), bytes=len(BODY), rung="http", page_path=path, page_sha256=SHA256,
        page_bytes=len(BODY), content_type="text/html", job_id=job(n),
    )  # fmt: skip


def failure(n: int) -> Result:
    """A row that is blocked, or not there."""
    gone = n % 2 == 0
    return Result(
        batch_id="big", url=url(n), line=n + 1, host=host(n), status=Status.FAILED,
        outcome=Outcome.GONE if gone else Outcome.BLOCKED,
        error_class=ErrorClass.PERMANENT if gone else ErrorClass.RETRYABLE,
        http_code=404 if gone else 403, vendor=None if gone else "cloudflare",
        kind=None if gone else Kind.CHALLENGE, reason=None if gone else "title: just a moment",
        attempts=tried(n), passes=1, cost=2.0 * tried(n), rung="http", job_id=job(n),
        last_error_at=iso(BEGAN + n / SPEED),
    )  # fmt: skip


def attempt(n: int, k: int) -> AttemptRecord:
    """The k-th attempt of a row; those before its last were blocked."""
    last = k == tried(n)
    blocked = not last or (not fine(n) and n % 2 == 1)
    outcome = Outcome.BLOCKED if blocked else Outcome.OK if fine(n) else Outcome.GONE
    return AttemptRecord(
        batch_id="big", url=url(n), n=k, started_at=iso(BEGAN + n / SPEED), elapsed=0.4,
        rung="http", exit=f"http://u***@10.0.0.{(n + k) % EXITS}:8080#3fa2c1",
        http_code=403 if blocked else 200 if fine(n) else 404, outcome=outcome,
        vendor="cloudflare" if blocked else None, kind=Kind.CHALLENGE if blocked else None,
        evidence="title: just a moment" if blocked else None, reason=None,
        decision="retry through another exit" if not last else "done",
        waited=0.0 if k == 1 else 1.5, bytes=len(BODY), cost=2.0, job_id=job(n),
    )  # fmt: skip


def fine(n: int) -> bool:
    """Whether the row is a success."""
    return n % 33 != 0


def tried(n: int) -> int:
    """How many attempts it took."""
    return 3 if n % 10 == 0 else 1


def job(n: int) -> str:
    """The run that asked for it."""
    return "second" if n % 10 == 0 else "first"


def host(n: int) -> str:
    """Its host."""
    return f"h{n % HOSTS}.test"


def url(n: int) -> str:
    """The n-th URL."""
    return f"http://{host(n)}/section/{n % 97}/page-{n}.html?id={n}"


if __name__ == "__main__":
    main()
