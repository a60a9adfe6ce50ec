"""The hostile web in a process of its own, and a handle to talk to it from plain code.

with hostile_process() as web:
    web.url("/ok/1"); web.proxies("good1", "dead"); web.requests(path="/ok/1")
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

#: Seconds that a web may take to answer on its control port, and to end. Milliseconds on a
#: quiet machine; on one that is busy ten times over it has waited for its turn longer than 10.
PATIENCE, END = 60.0, 10.0


class WebHandle:
    """Talks to a web over its control port. ``addresses`` is what the web printed."""

    def __init__(self, addresses: dict[str, Any]) -> None:
        self.addresses = addresses
        self.http_port: int = addresses["http_port"]
        self.https_port: int = addresses["https_port"]
        self.ca_file: str = addresses["ca_file"]

    def url(self, path: str, host: str = "127.0.0.1", *, secure: bool = False) -> str:
        """The URL of a path; ``host`` is an address, or a ``.test`` name (through proxies)."""
        scheme, port = ("https", self.https_port) if secure else ("http", self.http_port)
        where = host if host.endswith(".test") else f"{host}:{port}"
        return f"{scheme}://{where}{path}"

    def proxy(self, name: str) -> str:
        """A proxy's URL, credentials included. Raises KeyError."""
        found: str = self.addresses["proxies"][name]["url"]
        return found

    def exit(self, name: str) -> str:
        """The address that the origin sees of this proxy."""
        found: str = self.addresses["proxies"][name]["exit"]
        return found

    def proxies(self, *names: str) -> str:
        """A proxies file's text, one line for each name."""
        return "".join(f"{self.proxy(name)}\n" for name in names)

    def add_proxy(self, name: str, kind: str = "good", **more: Any) -> str:
        """Start a proxy (fields of ``ProxySpec``); its URL. It ends with the next reset."""
        made = self._ask("POST", "/__proxy", {"name": name, "kind": kind, **more})
        self.addresses["proxies"][name] = made
        url: str = made["url"]
        return url

    def requests(self, **where: str) -> list[dict[str, Any]]:
        """What arrived at the origin: ``host``, ``path`` (``*`` at its end: prefix), ``client``."""
        found: list[dict[str, Any]] = self._ask("GET", f"/__log?{urlencode(where)}")
        return found

    def connections(self, proxy: str = "") -> list[dict[str, Any]]:
        """Connections to a proxy, or to all: bytes, exits, requests and credentials."""
        query = f"?{urlencode({'proxy': proxy})}" if proxy else ""
        found: list[dict[str, Any]] = self._ask("GET", f"/__proxylog{query}")
        return found

    def api(self) -> dict[str, Any]:
        """What the scraping API has seen: ``bill`` (how often each URL was paid for), ``seen``,
        ``sizes`` of batches, ``bodies`` of orders, ``events`` (the receiver's answers)."""
        found: dict[str, Any] = self._ask("GET", "/__api")
        return found

    def set_host(self, host: str, rule: str | None, **params: Any) -> None:
        """Give a host (a name, or an address without port) a rule of ``host_rules``."""
        self._ask("POST", "/__host", {"host": host, "rule": rule, **params})

    def set_page(self, path: str, body: str = "", status: int = 200, **more: Any) -> None:
        """Serve an answer of one's own at a path, on all hosts (``headers``, ``type``)."""
        self._ask("POST", "/__page", {"path": path, "body": body, "status": status, **more})

    def outage(self, address: str, seconds: float) -> None:
        """Refuse connections to an address for so many seconds."""
        self._ask("POST", "/__outage", {"address": address, "seconds": seconds})

    def reset(self) -> None:
        """As at the start."""
        self._ask("POST", "/__reset")
        self.addresses["proxies"] = self._ask("GET", "/__state")["proxies"]

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        """One command. Raises ValueError with the web's own sentence if it refuses."""
        connection = HTTPConnection(urlsplit(self.addresses["control"]).netloc, timeout=PATIENCE)
        try:
            connection.request(method, path, json.dumps(body) if body is not None else None)
            response = connection.getresponse()
            answer = json.load(response)
        finally:
            connection.close()
        if response.status >= 400:
            raise ValueError(answer["error"])
        return answer


@contextmanager
def hostile_process(log_file: Path | None = None) -> Iterator[WebHandle]:
    """Run a web in a process of its own. Raises RuntimeError if it does not start."""
    command = [sys.executable, "-m", "retryscrape.hostile"]
    if log_file is not None:
        command += ["--log", str(log_file)]
    # A session of its own: Ctrl-C is for the crawl, the web ends when its stdin does.
    with subprocess.Popen(
        command,
        env=_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            if not line:
                raise RuntimeError("the hostile web did not start (see its message above)")
            yield WebHandle(json.loads(line))
        finally:
            process.stdin.close()
            try:
                process.wait(END)
            except subprocess.TimeoutExpired:
                process.kill()


def _environment() -> dict[str, str]:
    """Ours, with this very package findable from any folder."""
    home = str(Path(__file__).parents[2])
    before = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": f"{home}{os.pathsep}{before}" if before else home}
