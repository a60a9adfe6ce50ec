"""What it costs that others wait: requests of free hosts, beside 100,000 on 5,000 paused hosts.

    python benchmarks/waiting.py [--waiting 100000] [--hosts 5000] [--requests 20000] [--rounds 5]

The real scheduler, with a downloader that has room and an engine that is never idle: each
request is put in, given out and comes back. By turns with and without those that wait;
microseconds of CPU a request, medians, and how often the scheduler woke the engine.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from scrapy import Request, Spider
from scrapy.utils.test import get_crawler

from retryscrape.crawl.keys import TICKET, host_of
from retryscrape.crawl.scheduler import WaitingScheduler
from retryscrape.policy.ticket import Ticket

FREE_HOSTS = 50


def request(url: str) -> Request:
    made = Request(url, dont_filter=True)
    made.meta[TICKET] = Ticket(url=url, request_url=url, host=host_of(made), batch="b")
    return made


def scheduler() -> tuple[WaitingScheduler, list[int]]:
    """A scheduler, and a list that grows with each wake-up of the engine."""
    woken: list[int] = []
    crawler = get_crawler(Spider)
    crawler.spider = crawler._create_spider("s")
    nextcall = SimpleNamespace(schedule=lambda: woken.append(1))
    downloader = SimpleNamespace(get_slot_key=host_of)
    slot = SimpleNamespace(closing=None, nextcall=nextcall)
    crawler._engine = SimpleNamespace(downloader=downloader, _slot=slot)  # type: ignore[assignment]
    made = WaitingScheduler.from_crawler(crawler)
    made.open(crawler.spider)
    return made, woken


def fill(queue: WaitingScheduler, waiting: int, hosts: int) -> None:
    until = time.time()
    for n in range(hosts):
        queue.run.hosts.throttled(f"h{n}.test", until, 200.0 + n / hosts)
    for n in range(waiting):
        queue.enqueue_request(request(f"http://h{n % hosts}.test/{n}"))
    while queue.next_request() is not None:
        raise AssertionError("a paused host's request left")


def step(queue: WaitingScheduler, requests: list[Request]) -> float:
    """Microseconds of CPU a request."""
    begun = time.process_time()
    for one in requests:
        queue.enqueue_request(one)
        given = queue.next_request()
        assert given is one
        queue._left(given)
    return (time.process_time() - begun) / len(requests) * 1e6


async def measure(given: Any) -> None:
    alone, _ = scheduler()
    beside, woken = scheduler()
    begun = time.process_time()
    fill(beside, given.waiting, given.hosts)
    filled = (time.process_time() - begun) / max(1, given.waiting) * 1e6
    urls = [f"http://free{n % FREE_HOSTS}.test/{n}" for n in range(given.requests)]
    times: dict[str, list[float]] = {"alone": [], "beside": []}
    for _ in range(given.rounds):
        for name, queue in (("alone", alone), ("beside", beside)):
            times[name].append(step(queue, [request(url) for url in urls]))
    alone_us, beside_us = (statistics.median(times[name]) for name in ("alone", "beside"))
    await asyncio.sleep(5)
    count, due = beside.waiting()
    print(f"{count} wait on {given.hosts} hosts, the next for {due - time.time():.0f} s more")
    print(f"putting one of them in: {filled:.0f} microseconds")
    print(f"a request of a free host: {alone_us:.1f} alone, {beside_us:.1f} beside them")
    print(f"the engine was woken {len(woken)} times, 5 s without a request included")


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks/waiting.py")
    parser.add_argument("--waiting", type=int, default=100_000)
    parser.add_argument("--hosts", type=int, default=5_000)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    asyncio.run(measure(parser.parse_args()))


if __name__ == "__main__":
    main()
