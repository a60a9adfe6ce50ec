"""More processes for a long check: a million pages are more than one core's 30 s.

Knows processes and files; what is checked is reconcile.py's.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

#: Rows for which a process is worth its start.
WORTH = 10_000
#: Two for each core, because half of them wait for the disk; more than these would only
#: take turns at it.
PER_CORE, MOST = 2, 8

Emit = Callable[[Any], None]


def processes(rows: int) -> int:
    """How many processes, this one included, a check of so many rows is worth."""
    cores = os.cpu_count() or 1
    if cores == 1 or "fork" not in multiprocessing.get_all_start_methods():
        return 1
    return max(1, min(rows // WORTH, PER_CORE * cores, MOST))


class Helper:
    """A copy of this process that runs ``work`` and hands over what it emits, in order.

    Start it with ``with``; after the block ``results`` waits for its end.
    """

    def __init__(self, work: Callable[[Emit], None]) -> None:
        self._work = work
        # Forked: judge and callbacks are closures, which nothing could send over.
        self._process = multiprocessing.get_context("fork").Process(target=self._run, daemon=True)
        self._folder = tempfile.TemporaryDirectory(prefix="reconcile-")
        self._path = Path(self._folder.name) / "results"

    def __enter__(self) -> Helper:
        self._process.start()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:
            self._process.terminate()
        self._process.join()

    def _run(self) -> None:
        # Ctrl-C goes to the whole group; the first process takes it, and ends this one.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        with self._path.open("wb") as file:
            self._work(lambda value: pickle.dump(value, file))

    def results(self) -> Iterator[Any]:
        """What was emitted. Raises RuntimeError if the copy did not come to its end."""
        if self._process.exitcode != 0:
            raise RuntimeError(f"a helper process ended with {self._process.exitcode}")
        with self._path.open("rb") as file:
            while True:
                try:
                    yield pickle.load(file)  # noqa: S301 - our own process wrote it
                except EOFError:
                    break
        self._folder.cleanup()
