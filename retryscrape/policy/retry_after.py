"""Reads Retry-After: header text in, seconds to wait out.

No waiting and no caps of a host here: how long a host pauses is hosts.py's matter.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_tz
from itertools import pairwise

#: The most that ``not_before`` may lie ahead, in seconds (DESIGN.md section 6: 30 days).
LONGEST = 30 * 86400.0

# An exponent is accepted because servers send "1e10" (field case B5) and mean "never".
_SECONDS = re.compile(r"[0-9]+(?:\.[0-9]+)?(?:[eE]\+?[0-9]+)?")
_ISO = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ][0-9:.]+ ?(?:[Zz]|[+-][0-9:]+)?)?")
# IMF-fixdate, RFC 850 and asctime. The gate is strict because ``parsedate_tz`` alone
# makes dates out of much that is none.
_CLOCK = r"[0-9]{1,2}:[0-9]{2}(?::[0-9]{2})?"
_HTTP_DATE = re.compile(
    rf"(?:[A-Za-z]+, *)?[0-9]{{1,2}}[ -][A-Za-z]{{3,9}}[ -](?:[0-9]{{4}}|[0-9]{{2}}) +{_CLOCK}"
    rf"(?: *(?:[A-Za-z]{{1,4}}|[+-][0-9]{{4}}))?"
    rf"|[A-Za-z]+ +[A-Za-z]{{3,9}} +[0-9]{{1,2}} +{_CLOCK} +[0-9]{{4}}"
)


def parse(values: Sequence[str], *, date: str | None, now: float) -> float | None:
    """Seconds to wait (0 to ``LONGEST``), or None if no header says so usably.

    ``values`` are all Retry-After headers as sent, ``date`` the response's Date
    header, ``now`` epoch seconds. Of several values the largest usable one counts.
    Zero means that the server names no wait (zero seconds, or a date that is
    past): the pause is then our own backoff, but a 503 still counts as throttled.
    Never raises.
    """
    clock = None if date is None else _moment(date.strip())
    base = now if clock is None else clock
    waits = [wait for value in values for wait in _waits(value, base)]
    return max(waits, default=None)


def _waits(value: str, base: float) -> Iterator[float]:
    """The usable waits in one header, which may be a list; dates contain a comma too."""
    whole = _wait(value, base)
    if whole is not None:
        yield whole
        return
    parts = value.split(",")
    pairs = [f"{left},{right}" for left, right in pairwise(parts)]
    for text in (*parts, *pairs):
        wait = _wait(text, base)
        if wait is not None:
            yield wait


def _wait(text: str, base: float) -> float | None:
    text = text.strip(" \t\r\n")
    if _SECONDS.fullmatch(text):
        # float() of 400 digits is infinite: that is a long wait, not an error.
        seconds = float(text)
        return LONGEST if seconds >= LONGEST else float(math.ceil(seconds))
    moment = _moment(text)
    return None if moment is None else min(max(moment - base, 0.0), LONGEST)


def _moment(text: str) -> float | None:
    """Epoch seconds of an HTTP or ISO 8601 date; without a zone it is UTC."""
    try:
        if _ISO.fullmatch(text):
            parsed = datetime.fromisoformat(text.upper().replace(" Z", "Z"))
            return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp()
        if not _HTTP_DATE.fullmatch(text):
            return None
        fields = parsedate_tz(text)
        if fields is None:
            return None
        # 60 is a leap second; datetime checks all else, which parsedate_tz does not.
        year, month, day, hour, minute, second = fields[:6]
        parsed = datetime(year, month, day, hour, minute, min(second, 59), tzinfo=UTC)
        return parsed.timestamp() + second // 60 - (fields[9] or 0)
    except (ValueError, OverflowError, IndexError, TypeError):
        # The 31st of a 30-day month, year 0, month "Foo": no date.
        return None
