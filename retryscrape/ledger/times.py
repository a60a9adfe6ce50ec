"""The ledger's times: epoch seconds in, ISO 8601 UTC with ``Z`` out, and back. Pure."""

from __future__ import annotations

from datetime import UTC, datetime


def iso(epoch: float) -> str:
    """``epoch`` as the ledger writes it, to the millisecond: ``2026-01-31T07:05:09.250Z``.

    Beyond what a calendar holds, the nearest time that it does.
    """
    try:
        at = datetime.fromtimestamp(epoch, UTC)
    except (OverflowError, ValueError, OSError):
        at = datetime(9999, 12, 31, tzinfo=UTC) if epoch > 0 else datetime(1, 1, 1, tzinfo=UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def epoch(text: str | None) -> float | None:
    """The reverse of ``iso``; ``None`` for what is no time."""
    if not text:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
