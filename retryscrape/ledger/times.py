"""The ledger's times: epoch seconds in, ISO 8601 UTC with ``Z`` out, and back. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache


def iso(epoch: float) -> str:
    """``epoch`` as the ledger writes it, to the millisecond: ``2026-01-31T07:05:09.250Z``.

    Beyond what a calendar holds, the nearest time that it does.
    """
    try:
        milliseconds = int(epoch * 1000 // 1)
        return f"{_second(milliseconds // 1000)}.{milliseconds % 1000:03d}Z"
    except (OverflowError, ValueError, OSError):
        return "9999-12-31T00:00:00.000Z" if epoch > 0 else "0001-01-01T00:00:00.000Z"


@lru_cache(256)
def _second(epoch: int) -> str:
    """Four times are written down of each page, and many of the same second."""
    return datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%S").zfill(19)


def epoch(text: str | None) -> float | None:
    """The reverse of ``iso``; ``None`` for what is no time."""
    if not text:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
