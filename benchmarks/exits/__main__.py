"""The table: five worlds, four tools, medians over seeds. ``--quick``: one seed, fewer pages."""

from __future__ import annotations

import argparse
import itertools
import statistics
import tempfile
from dataclasses import replace
from pathlib import Path

from benchmarks.exits.count import Score, medians, score
from benchmarks.exits.tools import TOOLS, run
from benchmarks.exits.worlds import WORLDS, World, build
from retryscrape.hostile.process import WebHandle, hostile_process

SEEDS = 5
#: Of ``--quick``: pages of each world.
QUICK_URLS = 120


def measure(
    web: WebHandle, world: World, tool: str, seed: int, folder: Path
) -> tuple[Score, float]:
    """One crawl, and the oracle's attempts per page.

    ``folder`` is kept: ext4 passes over what was deleted within the last minute, one inode after
    the other, so that each file of the next crawl would cost up to a millisecond.
    """
    built = build(web, world, seed)
    folder.mkdir()
    found, seconds, cpu = run(tool, folder, built)
    return score(web, built, found, seconds, cpu), built.oracle


def line(tool: str, world: World, found: Score, oracle: float) -> str:
    """A row of the table."""
    per_page = found.attempts / max(1, found.delivered)
    wrong = f" {found.wrong:.0f} wrong" if found.wrong else ""
    return (
        f"| {tool} | {found.delivered:.0f} of {world.urls}{wrong} | {per_page:.3f} "
        f"| {per_page / oracle:.2f} | {found.seconds:.1f} | {found.cpu:.1f} "
        f"| {found.megabytes:.2f} | {found.price:.0f} |"
    )


HEAD = (
    "| | pages | attempts per page | of the oracle's | seconds | CPU s | MB | price |\n"
    "|---|---|---|---|---|---|---|---|"
)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.exits", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one seed, fewer pages")
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"worlds of each kind ({SEEDS})")
    parser.add_argument("--world", help="only worlds whose name contains this")
    parser.add_argument("--tool", help="only tools whose name contains this")
    given = parser.parse_args()
    seeds = 1 if given.quick else given.seeds
    prefix = "bench-exits-"
    with tempfile.TemporaryDirectory(prefix=prefix) as folder, hostile_process() as web:
        number = itertools.count()
        for world in WORLDS:
            if given.world and given.world not in world.name:
                continue
            world = replace(world, urls=QUICK_URLS) if given.quick else world
            print(f"\n**{world.name}**\n\n{HEAD}", flush=True)
            for tool in TOOLS:
                if given.tool and given.tool not in tool:
                    continue
                rows = [
                    measure(web, world, tool, seed, Path(folder) / str(next(number)))
                    for seed in range(seeds)
                ]
                found = medians([row for row, _ in rows])
                oracle = statistics.median(one for _, one in rows)
                print(line(tool, world, found, oracle), flush=True)


if __name__ == "__main__":
    main()
