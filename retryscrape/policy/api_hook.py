"""Events that a scraping API sends: whether one is genuine, and what it is about. Pure."""

from __future__ import annotations

import hashlib
import hmac

from msgspec import Struct

from retryscrape.policy.api_answers import dig, parsed
from retryscrape.policy.api_provider import Provider

#: Bytes of an event's body; it says that something happened, not what came of it.
MOST = 1 << 20


class Event(Struct, frozen=True, kw_only=True):
    """``name`` is ``completed``, ``failed`` or whatever the provider calls it."""

    task_id: str
    name: str


def secret_of(key: str) -> str:
    """A secret for events where none is declared: the same in every run of this key."""
    return hmac.new(key.encode(), b"retryscrape webhook", hashlib.sha256).hexdigest()


def genuine(secret: str, body: bytes, signature: str | None) -> bool:
    """Whether ``sha256=...`` is this body's, looked at in constant time."""
    expected = f"sha256={hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()}"
    given = (signature or "").strip().lower()
    return hmac.compare_digest(expected.encode(), given.encode("utf-8", "replace"))


def event_of(body: bytes, provider: Provider) -> Event | None:
    """What the event is about; None if it names no task."""
    data = parsed(body)
    found = dig(data, provider.fields["id"])
    if isinstance(found, bool) or not isinstance(found, str | int) or found == "":
        return None
    name = dig(data, provider.fields["event"])
    return Event(task_id=str(found)[:200], name=str(name or "completed")[:100])
