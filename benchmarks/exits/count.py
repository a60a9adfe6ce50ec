"""What a crawl cost, as the proxies and the origin saw it: the same count for every tool."""

from __future__ import annotations

import statistics
from dataclasses import astuple, dataclass

from benchmarks.exits.worlds import COST_GB, Built
from retryscrape.hostile.process import WebHandle

#: Kinds that hang up before a request is read: each connection was an attempt.
SPEECHLESS = ("resets", "hangs")


@dataclass(frozen=True)
class Score:
    """``price`` in price units; ``megabytes`` in both directions, at the proxies' side."""

    delivered: float
    wrong: float
    attempts: float
    seconds: float
    cpu: float
    megabytes: float
    price: float


def score(web: WebHandle, world: Built, found: dict[str, str], seconds: float, cpu: float) -> Score:
    """``found`` maps URLs to the digest of what a tool took for their page."""
    attempts = size = 0
    price = 0.0
    kinds = {name: proxy["kind"] for name, proxy in web.addresses["proxies"].items()}
    for connection in web.connections():
        name = connection["proxy"]
        asked = len(connection["requests"]) or int(kinds[name] in SPEECHLESS)
        carried = connection["received"] + connection["sent"]
        attempts += asked
        size += carried
        price += asked * world.costs[name] + carried / 1e9 * COST_GB
    right = sum(world.pages.get(url) == digest for url, digest in found.items())
    return Score(right, len(found) - right, attempts, seconds, cpu, size / 1e6, price)


def medians(scores: list[Score]) -> Score:
    """The median of each figure."""
    return Score(*map(statistics.median, zip(*map(astuple, scores), strict=True)))
