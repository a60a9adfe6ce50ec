"""``kill -9`` at any moment while pages are bought: nothing is paid for twice.

But for rows whose order was under way at that very moment (``submitting``): nobody can
know whether it had arrived. ``API_KILLS``, ``API_KINDS`` and ``CHAOS_SEED`` change how often,
by which protocol and when (``make chaos``: 50 times, both).
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter

import pytest

from tests.commandline import *  # noqa: F403
from tests.commandline import LIMIT, Project, until
from tests.hostile_fixture import *  # noqa: F403
from tests.test_api_crawl import declared

KILLS = int(os.environ.get("API_KILLS", "2"))
SEED = int(os.environ.get("CHAOS_SEED", "4"))
PER_KILL = 12
KINDS = os.environ.get("API_KINDS", "tasks").split(",")
SURE = ("open", "done")


class Till:
    """What each kill excuses: a second payment for the rows that were ``submitting``."""

    def __init__(self, web, project: Project) -> None:
        self.web, self.project = web, project
        self.under_way: dict[str, str] = {}
        self.open = 0

    @property
    def excused(self) -> Counter[str]:
        """Orders of each URL that were ``submitting`` when a kill came."""
        return Counter(self.under_way.values())

    def paid(self) -> int:
        """Pages on the bill."""
        return sum(self.web.api()["bill"].values())

    def after(self) -> None:
        """Every payment is in the ledger, or its row is ``submitting``."""
        if not (self.project.out / "ledger.db").exists():
            return
        if not self.project.sql("SELECT 1 FROM sqlite_master WHERE name = 'tasks'"):
            return
        orders = self.project.sql("SELECT ref, target, state FROM tasks")
        self.under_way |= {ref: target for ref, target, state in orders if state == "submitting"}
        self.open += sum(state == "open" for _, _, state in orders)
        known, excused = Counter(one for _, one, state in orders if state in SURE), self.excused
        for target, times in self.web.api()["bill"].items():
            assert times <= known[target] + excused[target], target


@pytest.mark.parametrize("kind", KINDS)
def test_kill_9_at_any_moment_pays_for_nothing_twice(
    web, project: Project, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETRYSCRAPE_API_KEY", "k3y")
    rng = random.Random(SEED)
    till = Till(web, project)
    urls = [f"http://shop.test/{n}?ms={rng.randint(20, 400)}" for n in range(PER_KILL * KILLS)]
    manifest = project.manifest("m.txt", urls)
    settings = {
        "RETRYSCRAPE_LADDER": "api",
        "RETRYSCRAPE_API": declared(web, kind, poll=0.1, deadline=300, chunk=2),
    }
    killed = sum(_killed(rng, till, project, str(manifest), settings) for _ in range(KILLS))
    done = project.crawl(manifest, settings=settings)

    assert done.code == 0, done.err
    bill = web.api()["bill"]
    twice = {url: times for url, times in bill.items() if times > 1}
    assert set(bill) == set(urls)
    assert all(times <= 1 + till.excused[url] for url, times in twice.items()), twice
    assert killed >= KILLS * 0.6, "most kills must hit a crawl that is still going on"
    assert project.sql("SELECT count(*) FROM entries WHERE status = 'success'") == [(len(urls),)]
    print(
        f"{killed} kills, {till.open} open tasks read on, {sum(till.excused.values())} rows were "
        f"submitting; {len(urls)} URLs, paid for twice: {len(twice)}"
    )


def _killed(rng: random.Random, till: Till, project: Project, manifest: str, settings) -> bool:
    """Start the same command, kill it at a random moment; whether it was still running."""
    before = till.paid()
    crawl = project.start("crawl", "pages", "-a", f"manifest={manifest}", settings=settings)
    wanted = before + rng.randint(1, PER_KILL)
    until(lambda: till.paid() >= wanted or crawl.poll() is not None, LIMIT)
    time.sleep(rng.uniform(0.0, 0.2))
    running = crawl.poll() is None
    crawl.kill()
    till.after()
    return running
