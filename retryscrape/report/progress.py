"""How far a run has come, as one sentence: counts in, words out. No clock, no terminal."""

from __future__ import annotations

from collections import deque

from msgspec import Struct

#: Seconds over which pages per second are taken: long enough to be steady.
WINDOW = 30.0


class Progress(Struct, frozen=True, kw_only=True):
    """A run at one moment.

    ``total`` is the number of URLs that it will ask in all, None while that is not known;
    ``rate`` is pages a second; ``next_due`` seconds until the first waiting request may
    leave; ``exits`` a sentence on them, or nothing.
    """

    done: int
    succeeded: int
    parked: int = 0
    total: int | None = None
    waiting: int = 0
    next_due: float | None = None
    rate: float = 0.0
    exits: str = ""

    @property
    def failed(self) -> int:
        """Rows that ended without a page and were not parked."""
        return max(0, self.done - self.succeeded - self.parked)

    @property
    def left(self) -> float | None:
        """Seconds until the end at this pace; None where nobody can say."""
        if self.total is None or self.rate <= 0:
            return None
        return max(0, self.total - self.done) / self.rate


def sentence(progress: Progress) -> str:
    """``120 of 400 done: 100 succeeded, 20 failed; 3 waiting (next in 4 s), ...``."""
    of = f" of {progress.total:,}" if progress.total is not None else ""
    text = (
        f"{progress.done:,}{of} done: {progress.succeeded:,} succeeded, {progress.failed:,} failed"
        f"; {progress.waiting:,} waiting"
    )
    if progress.waiting and progress.next_due is not None:
        text += f" (next in {span(progress.next_due)})"
    text += f", {progress.parked:,} parked; {progress.rate:.1f} pages/s"
    left = progress.left
    return text if left is None else f"{text}, {span(left)} left"


def span(seconds: float) -> str:
    """Seconds as people read them: ``4 s``, ``3 min``, ``2 h 10 min``."""
    whole = max(0, round(seconds))
    if whole < 100:
        return f"{whole} s"
    minutes = round(whole / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60:02d} min"


class Pace:
    """Pages a second over the last WINDOW seconds; memory does not grow."""

    def __init__(self, start: float) -> None:
        self._marks: deque[tuple[float, int]] = deque([(start, 0)])

    def rate(self, now: float, done: int) -> float:
        """Take note of ``done`` pages at ``now`` (seconds of any clock that goes forward)."""
        if now - self._marks[-1][0] >= 0.5:
            self._marks.append((now, done))
        while len(self._marks) > 2 and self._marks[1][0] <= now - WINDOW:
            self._marks.popleft()
        since, before = self._marks[0]
        return (done - before) / (now - since) if now > since else 0.0
