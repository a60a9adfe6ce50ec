"""``kill -9`` at any moment: nothing is lost, nothing is fetched twice that need not be.

Real crawl processes are killed at seeded random moments, and what is left is
held against the hostile web's own log. ``CHAOS_KILLS`` and ``CHAOS_SEED`` change
how often and when (``make chaos``: 200 times).
"""

from __future__ import annotations

import hashlib
import os
import random
import time

from tests.commandline import *  # noqa: F403
from tests.commandline import LIMIT, Project, until
from tests.hostile_fixture import *  # noqa: F403

KILLS = int(os.environ.get("CHAOS_KILLS", "10"))
SEED = int(os.environ.get("CHAOS_SEED", "4"))

#: Requests at once, and results that one commit may hold (DESIGN.md section 4): what
#: a kill may take with it.
AT_ONCE, GROUP = 8, 50
SETTINGS = {"CONCURRENT_REQUESTS": str(AT_ONCE), "CONCURRENT_REQUESTS_PER_DOMAIN": str(AT_ONCE)}


class Watch:
    """What must hold after every kill."""

    def __init__(self, web, project: Project) -> None:
        self.web, self.project = web, project
        self.done: set[str] = set()
        self.seen = 0
        self.repeats: list[int] = []
        self._asked: dict[str, int] = {}

    def requests(self) -> int:
        return int(self.web._ask("GET", "/__state")["requests"])

    def after(self) -> None:
        """The ledger opens, successes have their pages, and none was asked again."""
        asked = self._new_requests()
        again = [url for url in asked if url in self.done]
        assert not again, f"fetched again after their end was recorded: {again}"
        self.repeats.append(sum(url in self._asked for url in asked))
        for url in asked:
            self._asked[url] = self._asked.get(url, 0) + 1
        if (self.project.out / "ledger.db").exists():
            self.done = self._ended()
            self._attempts()

    def _new_requests(self) -> list[str]:
        entries = self.web.requests()[self.seen :]
        self.seen += len(entries)
        return [self.web.url(entry["path"]) for entry in entries]

    def _ended(self) -> set[str]:
        """Rows that are not to be asked again: successes, each with its whole page, and 404s."""
        assert self.project.sql("PRAGMA integrity_check") == [("ok",)]
        if not self.project.sql("SELECT 1 FROM sqlite_master WHERE name = 'entries'"):
            return set()  # killed before the tables were made
        rows = self.project.sql(
            "SELECT url, outcome, page_path, page_sha256, page_bytes FROM entries"
            " WHERE status = 'success' OR error_class = 'permanent'"
        )
        for url, outcome, path, digest, size in rows:
            if outcome == "ok":
                body = (self.project.out / path).read_bytes()
                assert (len(body), hashlib.sha256(body).hexdigest()) == (size, digest), url
        found = {row[0] for row in rows}
        assert self.done <= found, "a row's end was lost"
        return found

    def _attempts(self) -> None:
        """No attempt is on record that did not happen, and none twice."""
        if not self.done:
            return
        for url, attempts in self.project.sql("SELECT url, count(*) FROM attempts GROUP BY url"):
            assert attempts <= self._asked.get(url, 0), url


def test_kill_9_at_any_moment_loses_nothing_and_repeats_only_what_was_in_flight(
    web, project: Project
) -> None:
    rng = random.Random(SEED)
    watch = Watch(web, project)
    ok, gone = "/ok/{}?ms=40", "/status/404?ms=40&n={}"
    urls = [web.url((gone if n % 10 == 7 else ok).format(n)) for n in range(30 * KILLS)]
    manifest = project.manifest("m.txt", urls)
    killed = 0
    for _ in range(KILLS):
        killed += _killed_crawl(rng, watch, project, str(manifest))
        watch.after()

    done = project.crawl(manifest, settings=SETTINGS)
    watch.after()

    assert done.code == 0, done.err
    assert watch.done == set(urls)
    assert [row["outcome"] for row in project.feed("m")] == ["gone"] * (3 * KILLS)
    assert max(watch.repeats) <= AT_ONCE + GROUP
    assert killed >= KILLS * 0.8, "most kills must hit a crawl that is still going on"
    assert project.scrapy("reconcile", "m").code == 0
    print(f"{killed} kills; repeated after each: {watch.repeats}")


def _killed_crawl(rng: random.Random, watch: Watch, project: Project, manifest: str) -> bool:
    """Start the same command, kill it at a random moment; whether it was still running."""
    before = watch.requests()
    crawl = project.start("crawl", "pages", "-a", f"manifest={manifest}", settings=SETTINGS)
    if rng.random() < 0.2:  # anywhere: imports, the making of the ledger, the first rows
        time.sleep(rng.uniform(0.0, 2.0))
    else:
        wanted = before + rng.randint(1, 30)
        until(lambda: watch.requests() >= wanted or crawl.poll() is not None, LIMIT)
        time.sleep(rng.uniform(0.0, 0.15))
    running = crawl.poll() is None
    crawl.kill()
    return running
