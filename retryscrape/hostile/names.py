"""Where the proxies find a host: ``*.test`` and the vendors' walls lead to our own listeners.

Pure. Nothing outside of loopback is ever reached.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Address = tuple[str, int]
#: ``unknown``: no such name; ``outside``: not on loopback, never contacted.
Missing = Literal["unknown", "outside"]

#: Names that resolve nowhere, on purpose.
UNKNOWN = ("nosuch.test",)
#: Real names that appear in redirects of ``/wall/...``.
WALL_HOSTS = ("validate.perfdrive.com", "consent.google.com")


@dataclass(frozen=True, slots=True)
class Names:
    """``http`` and ``https`` are the origin's ports; ``special`` maps a name to its address.

    The key of ``special`` is a name, or a name with a port.
    """

    http: int
    https: int
    special: Mapping[str, Address] = field(default_factory=dict)

    def find(self, host: str, port: int) -> Address | Missing:
        """The address behind a name, or why there is none."""
        name = host.lower().rstrip(".").strip("[]")
        found = self.special.get(f"{name}:{port}") or self.special.get(name)
        if found is not None:
            return found[0], found[1] or self._port(port)
        if name in UNKNOWN or name.endswith(".invalid"):
            return "unknown"
        if name.endswith(".test") or name in WALL_HOSTS:
            return "127.0.0.1", self._port(port)
        if name == "localhost":
            return "127.0.0.1", port
        return _literal(name, port)

    def _port(self, port: int) -> int:
        return {80: self.http, 443: self.https}.get(port, port)


def _literal(name: str, port: int) -> Address | Missing:
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return "unknown"
    return (str(address), port) if address.is_loopback else "outside"
