"""The hostile web as a whole: listeners, names, proxies and logs, started and ended together.

    async with HostileWeb() as web:
        web.url("/ok/1")              # http://127.0.0.1:PORT/ok/1
        web.proxy("good1").url        # a proxy that knows shop.test and every other *.test
        web.requests(host="shop.test")

Everything is on 127.0.0.0/8. ``process`` runs it outside of the caller's process.
"""

from __future__ import annotations

import errno
import socket
import ssl
import tempfile
import time
from collections import deque
from collections.abc import Iterable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Self

from retryscrape.hostile.api import Stand
from retryscrape.hostile.control import control
from retryscrape.hostile.host_rules import HOSTS, RULES
from retryscrape.hostile.log import KEEP, RequestLog, Tunnel
from retryscrape.hostile.names import Names
from retryscrape.hostile.proxies import Proxy
from retryscrape.hostile.proxy_kinds import ProxySpec, default_specs
from retryscrape.hostile.scenarios import respond
from retryscrape.hostile.scene import Memory, Scene
from retryscrape.hostile.server import Listener, Origin, Responder
from retryscrape.hostile.tls import Authority
from retryscrape.hostile.wire import End, Reply, Request

#: Hosts by address, for those who ask without proxies. The last one is ``flaky.test``.
ADDRESSES = tuple(f"127.0.0.{n}" for n in range(1, 9))
FLAKY = "127.0.0.4"
_TRIES = 20


class HostileWeb:
    """Started by ``async with``. Raises OSError if no port can be had."""

    def __init__(
        self, proxies: Iterable[ProxySpec] | None = None, log_file: Path | None = None
    ) -> None:
        self.memory = Memory()
        self.log = RequestLog(log_file)
        self.tunnels: deque[Tunnel] = deque(maxlen=KEEP)
        self.api = Stand()
        self.hosts = dict(HOSTS)
        self.pages: dict[str, Reply] = {}
        self._specs = tuple(default_specs() if proxies is None else proxies)
        self._proxies: dict[str, Proxy] = {}
        self._sources = 0
        self._listeners: dict[str, Listener] = {}
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        folder = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="hostile-"))
        self._stack.callback(self.log.close)
        try:
            await self._start(Authority(Path(folder)))
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def _start(self, authority: Authority) -> None:
        self.ca_file = authority.ca_file
        addresses = usable_addresses()
        tls = authority.context(addresses=addresses)
        self.http = await self._everywhere("http", addresses)
        self.https = await self._everywhere("https", addresses, tls)
        self.expired = await self._single("https-expired", authority, "expired")
        self.wrong_host = await self._single("https-wrong", authority, "wrong")
        self.resets = await self._greeter("resets", (End.RESET,))
        self.hangs = await self._greeter("hangs", (End.HANG,))
        self.refused = self._closed_port()
        self.control = await self._one("control", self._control)
        self.api_port = await self._one("api", self.api.respond)
        self.memory.values["https_port",] = self.https
        self.addresses = addresses
        self.names = self._names()
        for spec in self._specs:
            await self.add_proxy(spec)

    async def _everywhere(
        self, name: str, addresses: tuple[str, ...], tls: ssl.SSLContext | None = None
    ) -> int:
        """One port that is free on all addresses, listened on."""
        for _ in range(_TRIES):
            listeners = [self._listener(f"{name}:{a}", a, self._respond, tls) for a in addresses]
            if _hold_all(listeners):
                for listener in listeners:
                    await self._add(listener)
                return listeners[0].port
        raise OSError(errno.EADDRINUSE, f"no port is free on all of {', '.join(addresses)}")

    def _listener(
        self,
        name: str,
        address: str,
        answerer: Responder,
        tls: ssl.SSLContext | None = None,
        greeting: Reply | None = None,
    ) -> Listener:
        listener = Listener(name, address, lambda: Origin(answerer, listener, greeting), tls=tls)
        return listener

    async def _add(self, listener: Listener) -> int:
        await listener.open()
        self._listeners[listener.name] = listener
        self._stack.callback(listener.close)
        return listener.port

    async def _one(self, name: str, answerer: Responder, tls: ssl.SSLContext | None = None) -> int:
        return await self._add(self._listener(name, "127.0.0.1", answerer, tls))

    async def _single(self, name: str, authority: Authority, fault: str) -> int:
        context = authority.context(addresses=("127.0.0.1",), fault=fault)
        return await self._one(name, self._respond, context)

    async def _greeter(self, name: str, greeting: Reply) -> int:
        return await self._add(self._listener(name, "127.0.0.1", self._respond, None, greeting))

    def _closed_port(self) -> int:
        listener = self._listener("refused", "127.0.0.1", self._respond)
        listener.hold()
        self._stack.callback(listener.close)
        return listener.port

    def _names(self) -> Names:
        local = "127.0.0.1"
        flaky = FLAKY if FLAKY in self.addresses else local
        special = {
            "flaky.test": (flaky, 0),
            "refused.test": (local, self.refused),
            "reset.test": (local, self.resets),
            "hang.test": (local, self.hangs),
            "plain-tls.test:443": (local, self.http),
        }
        return Names(self.http, self.https, special)

    def _respond(self, request: Request) -> Reply:
        self.log.add(request)
        own = self.pages.get(request.path)
        if own is not None:
            return own
        scene = Scene(request, self.memory, time.monotonic(), time.time())
        return respond(scene, self.hosts)

    def _control(self, request: Request) -> Any:
        return control(self, request)

    def url(self, path: str, host: str = "127.0.0.1", *, secure: bool = False) -> str:
        """The URL of a path; ``host`` is an address, or a ``.test`` name (through proxies)."""
        scheme, port = ("https", self.https) if secure else ("http", self.http)
        where = host if host.endswith(".test") else f"{host}:{port}"
        return f"{scheme}://{where}{path}"

    def proxy(self, name: str) -> Proxy:
        """A proxy by name. Raises KeyError."""
        return self._proxies[name]

    async def add_proxy(self, spec: ProxySpec) -> Proxy:
        """Start another proxy. Raises KeyError for an unknown kind."""
        if spec.name in self._proxies:
            await self._proxies.pop(spec.name).close()
        self._sources += 1
        # 250 an address block; tests and simulations of some hundred exits fit.
        source = (
            f"127.0.1.{self._sources}"
            if self._sources <= 250
            else (f"127.1.{self._sources // 250}.{1 + self._sources % 250}")
        )
        proxy = Proxy(spec, self.names, source, self.tunnels)
        await proxy.start()
        self._stack.push_async_callback(proxy.close)
        self._proxies[spec.name] = proxy
        return proxy

    def requests(self, **where: str | None) -> list[dict[str, Any]]:
        """What arrived at the origin: ``host``, ``path`` (``*`` at its end: prefix), ``client``."""
        return self.log.find(**where)

    def connections(self, proxy: str | None = None) -> list[dict[str, Any]]:
        """Connections to the proxies, oldest first."""
        return [note.plain() for note in self.tunnels if proxy in (None, note.proxy)]

    def set_host(self, host: str, rule: str | None, **params: Any) -> None:
        """Give a host (a name, or an address without port) a rule; None takes it away."""
        if rule is None:
            self.hosts.pop(host, None)
        else:
            RULES[rule]  # an unknown rule is a KeyError here, not in a later request
            self.hosts[host] = (rule, params)

    def outage(self, address: str, seconds: float) -> None:
        """Refuse all connections to an address (http and https) for so many seconds."""
        found = [li for li in self._listeners.values() if li.name.endswith(f":{address}")]
        if not found:
            raise KeyError(address)
        for listener in found:
            listener.down(seconds)

    async def reset(self) -> None:
        """As at the start: logs, counters, rules and pages of one's own forgotten."""
        self.log.clear()
        self.tunnels.clear()
        self.api.clear()
        self.memory.clear()
        self.memory.values["https_port",] = self.https
        self.hosts = dict(HOSTS)
        self.pages.clear()
        for listener in self._listeners.values():
            await listener.up()
        base = {spec.name for spec in self._specs}
        for name in [name for name in self._proxies if name not in base]:
            await self._proxies.pop(name).close()
        self._sources = len(base)
        for proxy in self._proxies.values():
            await proxy.reset()

    def describe(self) -> dict[str, Any]:
        """All addresses, as JSON can say them."""
        local = "127.0.0.1"
        return {
            "http": f"http://{local}:{self.http}",
            "https": f"https://{local}:{self.https}",
            "control": f"http://{local}:{self.control}",
            "api": f"http://{local}:{self.api_port}",
            "http_port": self.http,
            "https_port": self.https,
            "addresses": list(self.addresses),
            "ca_file": str(self.ca_file),
            "expired": f"https://{local}:{self.expired}",
            "wrong_host": f"https://{local}:{self.wrong_host}",
            "refused": f"http://{local}:{self.refused}",
            "resets": f"http://{local}:{self.resets}",
            "hangs": f"http://{local}:{self.hangs}",
            "proxies": {name: describe_proxy(proxy) for name, proxy in self._proxies.items()},
        }


def describe_proxy(proxy: Proxy) -> dict[str, str]:
    """A proxy, as JSON can say it."""
    return {"url": proxy.url, "kind": proxy.spec.kind, "exit": proxy.source}


def _hold_all(listeners: list[Listener]) -> bool:
    """Bind all to the first one's port; if one cannot have it, give all back."""
    try:
        for listener in listeners:
            listener.port = listeners[0].port
            listener.hold()
    except OSError:
        for listener in listeners:
            listener.close()
        return False
    return True


def usable_addresses() -> tuple[str, ...]:
    """Those of ``ADDRESSES`` that this machine has (macOS has only the first)."""
    usable = []
    for address in ADDRESSES:
        with socket.socket() as sock:
            try:
                sock.bind((address, 0))
            except OSError:
                continue
            usable.append(address)
    return tuple(usable)
