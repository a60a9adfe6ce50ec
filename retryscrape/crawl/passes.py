"""The passes of a re-drive: each a ``scrapy crawl`` in a process of its own.

So that a pass that dies takes nothing with it. When to start one is
ledger/redrive.py's matter.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType

from msgspec import Struct

from retryscrape.crawl.lifeline import NAME, PATIENCE, lifeline


class Pass(Struct, frozen=True, kw_only=True):
    """One pass to be run: ``settings`` and ``arguments`` as on a command line."""

    spider: str
    arguments: Mapping[str, str]
    settings: Sequence[str]

    def command(self) -> list[str]:
        """The words of the command."""
        words = [sys.executable, "-m", "scrapy", "crawl", self.spider]
        for name, value in self.arguments.items():
            words += ["-a", f"{name}={value}"]
        for setting in self.settings:
            words += ["-s", setting]
        return words


class Interrupted(Exception):
    """A signal came while nothing was running."""


class Runner:
    """Runs passes, and hands on Ctrl-C and SIGTERM to the one that runs.

    Use within ``handling``. ``signalled`` is the first signal that came, or None.
    """

    def __init__(self) -> None:
        self.signalled: int | None = None
        self._child: subprocess.Popen[bytes] | None = None
        self._starting = False

    @contextmanager
    def handling(self) -> Iterator[None]:
        """Take signals; as they were afterwards."""
        before = {number: signal.signal(number, self._on_signal) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        first = self.signalled is None
        self.signalled = self.signalled or number
        if self._child is not None:
            self._child.send_signal(number)
        elif first and not self._starting:  # a second one must not break what the first ends
            raise Interrupted

    def wait_until(self, at: float) -> None:
        """Wait for an epoch second. Raises Interrupted."""
        while (left := at - time.time()) > 0:
            time.sleep(min(left, 3600.0))

    def run(self, pass_: Pass, *, seconds: float) -> int:
        """Run a pass to its end; its exit code, negative for the signal that killed it.

        It is stopped if it goes on for more than ``seconds`` and some patience, and if
        this process is gone.
        """
        # A group of its own: a terminal sends Ctrl-C to a whole group, and Scrapy takes
        # the second one (ours, handed on) for "do not wait for the downloads".
        self._starting = True
        try:
            with lifeline() as end:
                child = subprocess.Popen(  # noqa: S603 - our own command
                    pass_.command(),
                    stdin=subprocess.DEVNULL,
                    process_group=0,
                    pass_fds=(end,),
                    env={**os.environ, NAME: str(end)},
                )
                self._child = child
                if self.signalled is not None:  # it came while the child was being made
                    child.send_signal(self.signalled)
                return self._wait(child, seconds)
        finally:
            self._child, self._starting = None, False

    def _wait(self, child: subprocess.Popen[bytes], seconds: float) -> int:
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                return child.wait(max(0.0, seconds) + PATIENCE)
            except subprocess.TimeoutExpired:
                child.send_signal(number)
                seconds = 0.0
        return child.wait()


_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def pass_settings(
    given: Sequence[str], *, per_host: int, concurrency: int, max_wait: float, seconds: float
) -> list[str]:
    """The settings of a pass, as NAME=VALUE: those that were typed, then those of a re-drive.

    At most ``per_host`` requests at once a host, waits of at most ``max_wait``
    seconds, and an end after ``seconds``.
    """
    return [
        *given,
        f"CONCURRENT_REQUESTS_PER_DOMAIN={min(per_host, concurrency)}",
        f"RETRYSCRAPE_MAX_WAIT={max_wait:.3f}",
        f"CLOSESPIDER_TIMEOUT={max(1.0, seconds):.3f}",
    ]
