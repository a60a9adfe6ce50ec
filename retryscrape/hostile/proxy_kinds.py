"""The table of proxies: well-behaved ones, and every way in which one can be broken.

Data only; ``proxies`` carries it out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from retryscrape.hostile.host_rules import denial
from retryscrape.hostile.wire import End, Reply, Send, Wait, answer, phrase


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyKind:
    """How a proxy behaves; the default is a good one.

    ``greets`` happens when a client connects, before it says anything; ``answers`` instead of
    forwarding a request, ``tunnels`` instead of opening a tunnel (defaults to ``answers``).
    ``delay`` seconds pass before each request goes on; ``cut`` bytes of an answer arrive.
    ``exits``: one address of its own, a new one per connection, or one per user name.
    ``dies`` after so many requests, ``recovers`` after so many seconds (0: never).
    """

    about: str
    listens: bool = True
    greets: Reply | None = None
    answers: Reply | None = None
    tunnels: Reply | None = None
    delay: float = 0.0
    cut: int | None = None
    exits: Literal["own", "connection", "user"] = "own"
    dies: int | None = None
    recovers: float = 0.0
    injects: bool = False
    auth: bool = False
    accepts: bool = True


def _refuses(status: int, about: str = "") -> ProxyKind:
    text = f"{status} {phrase(status)}\n"
    extra = {"Proxy-Authenticate": 'Basic realm="proxy"'} if status == 407 else {}
    reply = answer(text, status, "text/plain", {"Via": "1.1 hostile", **extra}, close=True)
    return ProxyKind(about=about or f"answers everything with {status}", answers=reply)


_BANNER = b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n"

KINDS: Mapping[str, ProxyKind] = {
    "good": ProxyKind(about="forwards"),
    "auth": ProxyKind(about="forwards with the right credentials, else 407", auth=True),
    "gateway": ProxyKind(about="a new exit for each connection", exits="connection"),
    "sticky": ProxyKind(about="an exit for each user name", exits="user"),
    "slow": ProxyKind(about="forwards after 1.5 s", delay=1.5),
    "dead": ProxyKind(about="refuses connections", listens=False),
    "wrong-auth": ProxyKind(about="knows no credentials: always 407", auth=True, accepts=False),
    "always-407": _refuses(407),
    "refuses-403": _refuses(403),
    "bad-gateway": _refuses(502),
    "unavailable": _refuses(503),
    "gateway-timeout": _refuses(504),
    "hangs": ProxyKind(about="accepts and says nothing", greets=(End.HANG,)),
    "hangs-after": ProxyKind(about="takes the request and says nothing", answers=(End.HANG,)),
    "closes": ProxyKind(about="closes at once", greets=(End.CLOSE,)),
    "resets": ProxyKind(about="resets at once", greets=(End.RESET,)),
    "closes-after": ProxyKind(about="closes after the request", answers=(End.CLOSE,)),
    "resets-after": ProxyKind(about="resets after the request", answers=(End.RESET,)),
    "closes-partial": ProxyKind(
        about="closes in the middle of its headers",
        answers=(Send(b"HTTP/1.1 200 OK\r\nContent-Ty"), Wait(0.05), End.CLOSE),
    ),
    "garbage": ProxyKind(about="is an SSH server", answers=(Send(_BANNER + b"\r\n"), End.CLOSE)),
    "cuts": ProxyKind(about="closes after 2,000 bytes of each answer", cut=2000),
    "injects": ProxyKind(about="puts its own block page before some hosts", injects=True),
    "no-tunnels": ProxyKind(
        about="forwards http, refuses tunnels with 403",
        tunnels=answer("no tunnels\n", 403, "text/plain", close=True),
    ),
    "closes-tunnels": ProxyKind(
        about="forwards http, opens tunnels and closes them at once",
        tunnels=(Send(b"HTTP/1.1 200 Connection established\r\n\r\n"), Wait(0.05), End.CLOSE),
    ),
    "flaps": ProxyKind(about="refuses after 5 requests, back after 3 s", dies=5, recovers=3.0),
    "dies": ProxyKind(about="refuses after 5 requests, for good", dies=5),
    "socks": ProxyKind(
        about="speaks SOCKS: notes what it gets and refuses it",
        answers=(Send(b"\x05\xff"), End.CLOSE),
    ),
}

#: What an ``injects`` proxy puts before its hosts.
INJECTED = denial("fortiweb")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxySpec:
    """One proxy: a name of its own, its kind, credentials, and what differs from the kind."""

    name: str
    kind: str = "good"
    user: str = ""
    password: str = ""
    delay: float | None = None
    cut: int | None = None
    dies: int | None = None
    recovers: float | None = None
    hosts: tuple[str, ...] = ("shop.test",)

    def behaviour(self) -> ProxyKind:
        """The kind with this proxy's own numbers. Raises KeyError for an unknown kind."""
        own = {name: getattr(self, name) for name in ("delay", "cut", "dies", "recovers")}
        return replace(KINDS[self.kind], **{k: v for k, v in own.items() if v is not None})


def default_specs() -> tuple[ProxySpec, ...]:
    """The proxies that a web has from the start: four good ones first, then one of each kind."""
    good = [ProxySpec(name=f"good{n}") for n in (1, 2, 3, 4)]
    auth = [
        ProxySpec(name=f"auth{n}", kind="auth", user=f"user{n}", password=f"s3cr3t-{n}")
        for n in (1, 2)
    ]
    wrong = ProxySpec(name="wrong-auth", kind="wrong-auth", user="user", password="old-s3cr3t")
    made = ("good", "auth", "wrong-auth")
    return (
        *good,
        *auth,
        wrong,
        *(ProxySpec(name=kind, kind=kind) for kind in KINDS if kind not in made),
    )
