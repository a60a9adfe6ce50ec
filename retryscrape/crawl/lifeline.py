"""Ends a pass whose ``scrapy redrive`` was killed: it would hold the batch, and nobody would
wait for it.

The loop holds one end of a pipe and never writes; its pass waits at the other for the end.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

#: In the environment of a pass: the number of its end of the pipe.
NAME = "REDRIVE_LIFELINE"

#: Seconds that a pass may go on after it was told to stop: downloads under way end, the
#: feed is written.
PATIENCE = 60.0


@contextmanager
def lifeline() -> Iterator[int]:
    """The end for a pass, to be handed on to it while the block goes on."""
    read, write = os.pipe()
    try:
        yield read
    finally:
        os.close(read)
        os.close(write)


def watch() -> None:
    """In a pass: stop as for SIGTERM when the loop is gone. Nothing without a loop."""
    number = os.environ.pop(NAME, "")
    if number.isdigit():
        threading.Thread(target=_watch, args=(int(number),), daemon=True).start()


def _watch(end: int) -> None:
    try:
        os.read(end, 1)
    except OSError:  # no pipe of ours: somebody else's variable
        return
    for number in (signal.SIGTERM, signal.SIGKILL):
        os.kill(os.getpid(), number)
        time.sleep(PATIENCE)
