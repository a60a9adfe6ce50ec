"""The five worlds: which exits are broken, which hosts ban whom, and the pages that can be had.

Built on the hostile web's own proxies and host rules; the same seed is the same world.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from hashlib import sha256

from retryscrape.hostile.process import WebHandle
from retryscrape.hostile.text import article

#: Price units per request of cheap and of dear exits, in turn, and per 10^9 bytes of all.
COSTS, COST_GB = (0.5, 2.0), 5.0
#: Size of a page, and the share of pages whose first request fails by chance (503).
KB, CHANCE = 13, 0.05


@dataclass(frozen=True, kw_only=True)
class World:
    """``broken`` maps kinds of proxies to how many of the exits are so; ``slow`` are good ones
    that take two seconds. ``turned`` hosts (all: None) ban a ``banned`` share of the exits
    from their ``after``-th request on."""

    name: str
    exits: int = 20
    hosts: int = 6
    urls: int = 600
    broken: dict[str, int] = field(default_factory=dict)
    slow: int = 0
    banned: float = 0.0
    turned: int | None = None
    after: int = 0


WORLDS = (
    World(name="healthy"),
    World(name="half dead", broken={"resets": 4, "closes-after": 3, "bad-gateway": 3}),
    World(name="bans per host", banned=0.3),
    World(name="slow and hanging", broken={"hangs": 2, "hangs-after": 2}, slow=4),
    World(name="blocks from the middle on", banned=0.5, turned=2, after=50),
)


@dataclass(frozen=True)
class Built:
    """A world that stands: its URLs with the digest of each page, and its exits' prices."""

    pages: dict[str, str]
    costs: dict[str, float]
    proxies: tuple[str, ...]

    @property
    def oracle(self) -> float:
        """Attempts per page of a choice that knows everything but chance."""
        return sum(2 if "/status/" in url else 1 for url in self.pages) / len(self.pages)


def build(web: WebHandle, world: World, seed: int) -> Built:
    """Start the world's proxies and rules on a web that is as new."""
    web.reset()
    rng = random.Random(f"{world.name} {seed}")
    kinds = [kind for kind, number in world.broken.items() for _ in range(number)]
    kinds += ["slow"] * world.slow
    kinds += ["good"] * (world.exits - len(kinds))
    rng.shuffle(kinds)
    delays = {"good": lambda: rng.uniform(0.05, 0.15), "slow": lambda: 2.0}
    urls, costs = [], {}
    for number, kind in enumerate(kinds):
        delay = delays[kind]() if kind in delays else None
        name = f"exit{number}"
        urls.append(web.add_proxy(name, kind, delay=delay))
        costs[name] = COSTS[number % len(COSTS)]
    hosts = [f"shop{number}.test" for number in range(world.hosts)]
    for host in hosts[: world.turned]:
        web.set_host(host, "banned", share=world.banned, after=world.after, seed=seed)
    return Built(_pages(world, hosts, rng), costs, tuple(urls))


def _pages(world: World, hosts: list[str], rng: random.Random) -> dict[str, str]:
    unlucky = set(rng.sample(range(world.urls), round(CHANCE * world.urls)))
    pages = {}
    for number in range(world.urls):
        host = hosts[number % world.hosts]
        path = f"/status/503/{number}?times=1&kb={KB}" if number in unlucky else f"/medium/{number}"
        body = article(host + path, KB * 1000).encode()
        pages[f"http://{host}{path}"] = sha256(body).hexdigest()
    return pages
