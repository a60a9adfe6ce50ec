"""The events of the scraping API that misbehaves: signed, forged, early, twice, or never."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

#: The secret of events of batches, which an order does not carry.
BATCH_SECRET = "secret-of-the-account"


@dataclass(frozen=True, slots=True)
class Target:
    """Where events of one order go."""

    url: str
    secret: str


@dataclass(slots=True)
class Hooks:
    """Sends events; ``answers`` are the statuses that the receiver gave, 0 for none."""

    answers: list[int] = field(default_factory=list)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def clear(self) -> None:
        """Forget what was sent, and what is still to be sent."""
        self.answers.clear()
        for task in self._tasks:
            task.cancel()

    @staticmethod
    def order(webhook: Mapping[str, Any] | None, faults: frozenset[str]) -> Target | None:
        """Where a task's events go, as its order says it."""
        if not webhook or "mute" in faults:
            return None
        return Target(str(webhook["url"]), str(webhook["secret"]))

    @staticmethod
    def batch(callback: str | None, faults: frozenset[str]) -> Target | None:
        """Where a batch's events go."""
        return Target(callback, BATCH_SECRET) if callback and "mute" not in faults else None

    async def plan(
        self, target: Target | None, event: dict[str, Any], faults: frozenset[str], ready: float
    ) -> None:
        """Send the event at once if it is to come early, else when its task is ready."""
        if target is None:
            return
        if "early" in faults:
            await self.send(target, event)
            return
        task = asyncio.get_running_loop().create_task(self._later(target, event, faults, ready))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _later(
        self, target: Target, event: dict[str, Any], faults: frozenset[str], ready: float
    ) -> None:
        await asyncio.sleep(max(0.0, ready - asyncio.get_running_loop().time()))
        if "forged" in faults:
            await self.send(Target(target.url, "a wrong secret"), event)
        await self.send(target, event)
        if "twice" in faults:
            await self.send(target, event)

    async def send(self, target: Target, event: dict[str, Any]) -> None:
        """POST one event, and note the answer's status."""
        body = json.dumps(event).encode()
        digest = hmac.new(target.secret.encode(), body, hashlib.sha256).hexdigest()
        self.answers.append(await _post(target.url, body, f"sha256={digest}"))


async def _post(url: str, body: bytes, signature: str) -> int:
    parts = urlsplit(url)
    lines = (
        f"POST {parts.path or '/'} HTTP/1.1",
        f"Host: {parts.netloc}",
        f"Content-Length: {len(body)}",
        f"X-Webhook-Signature: {signature}",
        "Connection: close",
    )
    try:
        async with asyncio.timeout(5):
            reader, writer = await asyncio.open_connection(parts.hostname, parts.port or 80)
            writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
            status = (await reader.readline()).split()
            writer.close()
            return int(status[1])
    except (OSError, TimeoutError, IndexError, ValueError):
        return 0
