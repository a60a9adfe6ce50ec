"""The words of a scenario: what it is told, what it remembers, how it is listed.

Values only; the scenarios themselves are tables in the modules ``*_scenes``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from retryscrape.hostile.wire import Reply, Request


@dataclass(slots=True)
class Memory:
    """What the web remembers between requests; forgotten on reset."""

    counts: Counter[tuple[str, ...]] = field(default_factory=Counter)
    values: dict[tuple[str, ...], Any] = field(default_factory=dict)

    def visit(self, *key: str) -> int:
        """Count one more, and say how many there were with it."""
        self.counts[key] += 1
        return self.counts[key]

    def clear(self) -> None:
        """Forget everything."""
        self.counts.clear()
        self.values.clear()


@dataclass(slots=True)
class Scene:
    """One request and what is known around it. ``now`` is monotonic seconds, ``epoch`` UTC ones."""

    request: Request
    memory: Memory
    now: float
    epoch: float

    @property
    def rest(self) -> str:
        """What follows the scenario's name in the path: ``17`` in ``/status/17``."""
        return self.request.path.lstrip("/").partition("/")[2]

    @property
    def seed(self) -> str:
        """What makes this page different from others: host, path and query."""
        return self.request.host + self.request.target

    def text(self, name: str, default: str = "") -> str:
        """A parameter of the query."""
        return self.request.params.get(name, default)

    def number(self, name: str, default: float = 0) -> float:
        """A parameter of the query as a number; the default if it is none."""
        try:
            return float(self.request.params[name])
        except (KeyError, ValueError):
            return default

    def elsewhere(self, host: str, path: str) -> str:
        """A URL on another host: ``host``, or another address if asked by address."""
        scheme = "https" if self.request.secure else "http"
        name, _, port = self.request.header("host").partition(":")
        if name.endswith(".test"):
            return f"{scheme}://{host}{path}"
        other = "127.0.0.3" if name == "127.0.0.2" else "127.0.0.2"
        return f"{scheme}://{other}:{port}{path}"


Respond = Callable[[Scene], Reply]


@dataclass(frozen=True, slots=True)
class Scenario:
    """One behaviour, at ``/NAME/...`` on every host. ``example`` is a path that shows it."""

    name: str
    about: str
    respond: Respond
    example: str = ""

    @property
    def path(self) -> str:
        """A path that shows it."""
        return self.example or f"/{self.name}/1"


@dataclass(frozen=True, slots=True)
class HostRule:
    """One behaviour of a whole host; None from ``respond`` leaves it to the path.

    ``params`` of the host (set by the table or over the control port) come with each call.
    """

    name: str
    about: str
    respond: Callable[[Scene, dict[str, Any]], Reply | None]
