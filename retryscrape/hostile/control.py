"""The control port: the web's questions and switches over HTTP, for those in another process.

GET  /__log?host=&path=&client=   requests at the origin     GET  /__proxylog?proxy=   connections
GET  /__state                     all addresses              POST /__reset
POST /__host    {"host", "rule", ...params}                  POST /__outage  {"address", "seconds"}
POST /__page    {"path", "status", "headers", "body", "type"}  POST /__proxy  {"name", "kind", ...}
GET  /__api     the scraping API's bill and what it was asked
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from retryscrape.hostile.proxy_kinds import KINDS, ProxySpec
from retryscrape.hostile.wire import HTML, Reply, Request, answer

if TYPE_CHECKING:
    from retryscrape.hostile.web import HostileWeb

Command = Callable[["HostileWeb", dict[str, Any]], Awaitable[Any]]


async def control(web: HostileWeb, request: Request) -> Reply:
    """Carry one command out; 400 with a sentence if it cannot be."""
    command = _COMMANDS.get((request.method, request.path))
    if command is None:
        known = ", ".join(f"{method} {path}" for method, path in _COMMANDS)
        return _say({"error": f"unknown command; known: {known}"}, 404)
    try:
        given = json.loads(request.body) if request.body else dict(request.params)
        return _say(await command(web, given))
    except (KeyError, TypeError, ValueError) as error:
        return _say({"error": f"{type(error).__name__}: {error}"}, 400)


def _say(value: Any, status: int = 200) -> Reply:
    return answer(json.dumps(value), status, "application/json")


async def _log(web: HostileWeb, given: dict[str, Any]) -> Any:
    return web.requests(**given)


async def _proxy_log(web: HostileWeb, given: dict[str, Any]) -> Any:
    return web.connections(given.get("proxy"))


async def _state(web: HostileWeb, given: dict[str, Any]) -> Any:
    return {**web.describe(), "requests": web.log.total, "hosts": web.hosts}


async def _reset(web: HostileWeb, given: dict[str, Any]) -> Any:
    await web.reset()
    return {}


async def _api(web: HostileWeb, given: dict[str, Any]) -> Any:
    return web.api.describe()


async def _host(web: HostileWeb, given: dict[str, Any]) -> Any:
    web.set_host(given.pop("host"), given.pop("rule"), **given)
    return {}


async def _outage(web: HostileWeb, given: dict[str, Any]) -> Any:
    web.outage(given["address"], float(given["seconds"]))
    return {}


async def _page(web: HostileWeb, given: dict[str, Any]) -> Any:
    headers = given.get("headers") or {}
    pairs = headers.items() if isinstance(headers, dict) else [tuple(pair) for pair in headers]
    kind = None if any(name.lower() == "content-type" for name, _ in pairs) else HTML
    web.pages[given["path"]] = answer(
        given.get("body", ""), int(given.get("status", 200)), given.get("type", kind), list(pairs)
    )
    return {}


async def _proxy(web: HostileWeb, given: dict[str, Any]) -> Any:
    from retryscrape.hostile.web import describe_proxy

    if given.get("kind", "good") not in KINDS:
        raise ValueError(f"no kind of proxy is called {given['kind']!r}")
    if "hosts" in given:
        given["hosts"] = tuple(given["hosts"])
    return describe_proxy(await web.add_proxy(ProxySpec(**given)))


_COMMANDS: dict[tuple[str, str], Command] = {
    ("GET", "/__log"): _log,
    ("GET", "/__proxylog"): _proxy_log,
    ("GET", "/__state"): _state,
    ("GET", "/__api"): _api,
    ("POST", "/__reset"): _reset,
    ("POST", "/__host"): _host,
    ("POST", "/__outage"): _outage,
    ("POST", "/__page"): _page,
    ("POST", "/__proxy"): _proxy,
}
