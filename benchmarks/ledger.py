"""What the ledger costs a crawl: CPU time per page row with its attempt, as the crawl writes them.

Bound (issue 4): under 5 % of a crawl's CPU time. The whole process is counted (handing over,
the writer's thread, SQLite), making the records is not. A crawl of 150 pages a second has
about 8 pages in a commit (the writer waits 50 ms), one of 500 has 25.
Run: python benchmarks/ledger.py [PAGES [DATABASE-URL]]
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from retryscrape.ledger.pages import PageFile
from retryscrape.ledger.records import AttemptRecord, NewRow, Result
from retryscrape.ledger.store import Ledger
from retryscrape.ledger.times import iso
from retryscrape.ledger.writer import Writer
from retryscrape.policy.outcomes import ErrorClass, Outcome, Status

BEGAN = 1_790_000_000.0
BODY = b"<html><body>" + b"words of a page that is good enough " * 400 + b"</body></html>"
GROUPS = (1, 8, 25)


def main() -> None:
    """Each way of writing into a ledger of its own (PostgreSQL: a batch of its own)."""
    pages = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        with Ledger.open(sys.argv[2] if len(sys.argv) > 2 else str(out / "ledger.db")) as ledger:
            print(f"lines become rows: {added(ledger, pages):.1f} microseconds each")
            for body, what in ((None, "row and attempt"), (BODY, "the same and a 14 kB page")):
                for group in GROUPS:
                    cost = written(ledger, out, f"{what} {group}", pages, group, body)
                    print(f"{what}, {group} in a commit: {cost:.1f} microseconds each")


def added(ledger: Ledger, pages: int) -> float:
    """Microseconds per line, in chunks as the feeder's."""
    return _fill(ledger, "added", pages)


def written(
    ledger: Ledger, out: Path, batch: str, pages: int, group: int, body: bytes | None
) -> float:
    """Microseconds per page, so many of them in a commit."""
    _fill(ledger, batch, pages)
    records = [(attempt(batch, n), result(batch, n, body is not None)) for n in range(pages)]
    page = PageFile(body=body, content_type="text/html; charset=utf-8") if body else None
    writer = Writer(ledger, out)
    began = time.process_time()
    for start in range(0, pages, group):
        for tried, row in records[start : start + group]:
            writer.attempt(tried)
            writer.submit(row, page=page)
        writer.flush()
    spent = time.process_time() - began
    writer.close()
    return spent / pages * 1e6


def _fill(ledger: Ledger, batch: str, pages: int) -> float:
    ledger.open_batch(batch, "bench.txt", None, now=BEGAN)
    spent = 0.0
    for start in range(0, pages, 1000):
        numbers = range(start, min(start + 1000, pages))
        rows = [NewRow(url=url(n), line=n + 1, host=host(n)) for n in numbers]
        began = time.process_time()
        ledger.add_rows(
            batch, rows, manifest="bench.txt", read_to=numbers[-1] + 1, job_id="job", now=BEGAN
        )
        spent += time.process_time() - began
    return spent / pages * 1e6


def result(batch: str, n: int, good: bool) -> Result:
    """What a page came to: a success with its page, else a 404."""
    return Result(
        batch_id=batch, url=url(n), line=n + 1, host=host(n),
        status=Status.SUCCESS if good else Status.FAILED,
        outcome=Outcome.OK if good else Outcome.GONE,
        error_class=None if good else ErrorClass.PERMANENT,
        http_code=200 if good else 404, attempts=1, passes=1, cost=2.0, bytes=len(BODY),
        rung="http", final_url=url(n), job_id="20260101T000000-123-abcd",
        last_error_at=None if good else iso(BEGAN + n / 100),
    )  # fmt: skip


def attempt(batch: str, n: int) -> AttemptRecord:
    """Its only attempt."""
    return AttemptRecord(
        batch_id=batch, url=url(n), n=1, started_at=iso(BEGAN + n / 100), elapsed=0.4,
        rung="http", exit="http://u***@10.0.0.7:8080#3fa2c1", http_code=200, outcome=Outcome.OK,
        vendor=None, kind=None, evidence=None, reason=None, decision="done: the page is good",
        waited=0.0, bytes=len(BODY), cost=2.0, job_id="20260101T000000-123-abcd",
    )  # fmt: skip


def host(n: int) -> str:
    """Its host."""
    return f"h{n % 40}.test"


def url(n: int) -> str:
    """The n-th URL."""
    return f"http://{host(n)}/section/{n * 7919 % 100_003}/page-{n}.html?id={n}"


if __name__ == "__main__":
    main()
