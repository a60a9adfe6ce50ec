"""Takes up a changed proxies file while the run goes on.

How a line is read, and what becomes of an exit's history, are the policy's.
"""

from __future__ import annotations

import asyncio
import logging
import time
from pathlib import Path

from msgspec.structs import replace

from retryscrape.crawl.proxyfile import ProxiesError, read_proxies
from retryscrape.crawl.runtime import Run
from retryscrape.ledger.records import ExitRow
from retryscrape.policy.proxies import ProxyList

logger = logging.getLogger("retryscrape")

#: Seconds between two looks at the file.
EVERY = 3.0
#: A file that was written within so many seconds may not be whole yet.
SETTLED = 0.5

Mark = tuple[int, int, int] | None


class ProxyWatch:
    """One run's proxies file. ``None`` from ``of`` if the run has none."""

    def __init__(self, run: Run, path: Path) -> None:
        self.run, self.path = run, path
        self.mark = _mark(path)

    @classmethod
    def of(cls, run: Run) -> ProxyWatch | None:
        """The watch of a run whose proxies come from a file."""
        given = run.config.proxies
        if run.pool is None or not isinstance(given, str):
            return None
        path = Path(given).expanduser()
        return cls(run, path) if path.is_file() else None

    async def keep(self) -> None:
        """Look again and again, until cancelled."""
        while True:
            await asyncio.sleep(EVERY)
            found = await asyncio.to_thread(self.look)
            if found is not None:
                self.take_up(*found)

    def look(self) -> tuple[ProxyList, list[ExitRow]] | None:
        """The new list if the file has changed, and what the ledger knows of exits; None if
        nothing is new or the file is no good (which is said once)."""
        mark = _mark(self.path)
        if mark == self.mark or (mark and 0 <= time.time() - mark[0] / 1e9 < SETTLED):
            return None
        self.mark = mark
        try:
            proxies = read_proxies(str(self.path))
        except ProxiesError as error:
            logger.warning("The proxies stay as they are: %s", error)
            return None
        if not proxies.exits:
            logger.warning(
                "The proxies stay as they are: %s; nothing is usable.", proxies.summary()
            )
            return None
        # before anything is said of them
        self.run.secrets.update(word for exit_ in proxies.exits for word in exit_.secrets())
        books = self.run.books
        return proxies, books.ledger.load_exits() if books is not None else []

    def take_up(self, proxies: ProxyList, rows: list[ExitRow]) -> None:
        """Exchange the list: those that stay or come back keep what is known of them."""
        run, pool = self.run, self.run.pool
        assert pool is not None
        before = pool.ids()
        fresh = pool.update(proxies.exits)
        pool.restore(row for row in rows if row.exit in fresh)
        run.hosts.rules = replace(run.hosts.rules, exits_needed=min(2, len(pool)))
        run.rungs.look(run.pool, run.clock())
        for complaint in proxies.complaints():
            logger.warning("%s", complaint)
        logger.info(
            "The proxies file has changed: %d added, %d removed; %s",
            len(pool.ids() - before),
            len(before - pool.ids()),
            proxies.summary(),
        )


def _mark(path: Path) -> Mark:
    """What changes when a file does: time, size, and the file itself (it may be renamed into
    place with an older time)."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
