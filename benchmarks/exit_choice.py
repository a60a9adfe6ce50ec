"""The choice of exits against an oracle, in the small world of issue 7, without sockets.

50 exits, 30 % dead; each of 20 hosts bans 20 % of them; 5 % of answers fail by
chance; 5,000 URLs, at most 10 attempts each. Run: python benchmarks/exit_choice.py
"""

from __future__ import annotations

import random
import statistics
import time
from collections import deque
from dataclasses import dataclass

from retryscrape.policy.exits import Pool, Signal
from retryscrape.policy.proxies import Exit


@dataclass(frozen=True, kw_only=True)
class World:
    """Shares are 0 to 1; ``at_once`` requests are under way at a time."""

    exits: int = 50
    hosts: int = 20
    urls: int = 5000
    dead: float = 0.3
    banned: float = 0.2
    chance: float = 0.05
    at_once: int = 1
    attempts: int = 10
    #: seconds between two answers, all requests together
    pace: float = 0.05
    #: half-way all is drawn anew: other exits are dead, other exits are banned
    turns: bool = False


@dataclass(frozen=True)
class Score:
    """What a run through a world came to."""

    delivered: int
    attempts: int
    busiest_share: float

    @property
    def per_page(self) -> float:
        return self.attempts / max(1, self.delivered)


def make_exits(count: int) -> list[Exit]:
    return [
        Exit(id=f"http://10.0.{n // 250}.{n % 250}:1#{n:06x}", host="h", port=1 + n)
        for n in range(count)
    ]


class Truth:
    """Which exits are dead or banned where, and what an attempt comes to."""

    def __init__(self, world: World, exits: list[Exit], rng: random.Random) -> None:
        ids = [one.id for one in exits]
        self._chance = world.chance
        self._rng = rng
        self.dead = set(rng.sample(ids, round(world.dead * len(ids))))
        self.bans = {
            f"h{n}.test": set(rng.sample(ids, round(world.banned * len(ids))))
            for n in range(world.hosts)
        }

    def outcome(self, exit_id: str, host: str) -> Signal:
        if exit_id in self.dead:
            return Signal.DEAD
        if self._rng.random() < self._chance:
            return Signal.UNSURE
        return Signal.BLOCK if exit_id in self.bans[host] else Signal.GOOD


def run(world: World, seed: int) -> Score:
    """Our pool: URLs in turn over the hosts, retries behind those that wait."""
    exits = make_exits(world.exits)
    truth = Truth(world, exits, random.Random(seed))
    pool = Pool(exits, rng=random.Random(seed + 1))
    waiting = deque((f"h{n % world.hosts}.test", ()) for n in range(world.urls))
    under_way: deque[tuple[str, tuple[str, ...], str]] = deque()
    load: dict[str, int] = {}
    now, delivered, attempts, turned = 1000.0, 0, 0, False
    while waiting or under_way:
        while waiting and len(under_way) < world.at_once:
            host, used = waiting.popleft()
            exit_ = pool.choose(host, now, used=used)
            assert exit_ is not None
            pool.sent(exit_.id, host, now)
            under_way.append((host, used, exit_.id))
            load[exit_.id] = load.get(exit_.id, 0) + 1
        now += world.pace
        host, used, exit_id = under_way.popleft()
        attempts += 1
        if world.turns and not turned and delivered >= world.urls / 2:
            truth, turned = Truth(world, exits, random.Random(seed + 2)), True
        signal = truth.outcome(exit_id, host)
        pool.done(exit_id, host, now, signal, 0.2)
        if signal is Signal.GOOD:
            delivered += 1
        elif len(used) + 1 < world.attempts:
            waiting.appendleft((host, (*used, exit_id)))
    return Score(delivered, attempts, max(load.values()) / attempts)


def oracle(world: World) -> float:
    """Attempts per page of a choice that knows everything but chance."""
    return 1.0 / (1.0 - world.chance)


def microseconds_per_choice(exits: int, choices: int = 20_000) -> float:
    """CPU time of a choice while the world is being learned: median of blocks of 100."""
    world = World(exits=exits, urls=0)
    members = make_exits(exits)
    truth = Truth(world, members, random.Random(1))
    pool = Pool(members, rng=random.Random(2))
    hosts = [f"h{n % world.hosts}.test" for n in range(100)]
    now, blocks = 1000.0, []
    for _ in range(choices // 100):
        start = time.process_time()
        chosen = [(pool.choose(host, now), host) for host in hosts]
        blocks.append((time.process_time() - start) / 100 * 1e6)
        for exit_, host in chosen:
            assert exit_ is not None
            pool.sent(exit_.id, host, now)
            pool.done(exit_.id, host, now, truth.outcome(exit_.id, host), 0.2)
        now += 1.0
    return statistics.median(blocks)


WORLDS = {
    "issue 7": World(),
    "issue 7, 32 at once": World(at_once=32),
    "1,000 exits, 32 at once": World(exits=1000, at_once=32),
    "healthy": World(dead=0.0, banned=0.0),
    "half dead": World(dead=0.5),
    "half banned": World(banned=0.5),
    "one host": World(hosts=1),
    "all changes half-way": World(turns=True),
}


def main() -> None:
    print(f"{'world':28}{'delivered':>10}{'per page':>10}{'oracle':>8}{'ratio':>7}{'busiest':>9}")
    for name, world in WORLDS.items():
        scores = [run(world, seed) for seed in range(5)]
        per_page = statistics.median(score.per_page for score in scores)
        delivered = statistics.median(score.delivered for score in scores)
        busiest = statistics.median(score.busiest_share for score in scores)
        best = oracle(world)
        print(
            f"{name:28}{delivered:>10.0f}{per_page:>10.3f}{best:>8.3f}"
            f"{per_page / best:>7.3f}{busiest:>9.1%}"
        )
    for exits in (50, 1000):
        print(f"{exits} exits: {microseconds_per_choice(exits):.1f} microseconds a choice")


if __name__ == "__main__":
    main()
