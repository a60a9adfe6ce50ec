"""The table of all scenarios, and the one function that finds the reply to a request.

Path first word -> behaviour; parameters that every scenario knows: ``?ms=`` answers so
many milliseconds later, ``?times=N`` misbehaves only N times (then an ordinary page comes),
``&per=client`` counts the times for each client address.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from retryscrape.hostile.body_scenes import BODIES
from retryscrape.hostile.challenge_scenes import CHALLENGES
from retryscrape.hostile.host_rules import HOSTS, ROBOTS, RULES, denial
from retryscrape.hostile.page_scenes import PAGES, ok
from retryscrape.hostile.redirect_scenes import REDIRECTS
from retryscrape.hostile.scene import Scenario, Scene
from retryscrape.hostile.status_scenes import STATUSES, refusal
from retryscrape.hostile.text import page
from retryscrape.hostile.wire import Reply, Wait, answer
from retryscrape.hostile.wire_scenes import WIRE

ALL: tuple[Scenario, ...] = (*PAGES, *STATUSES, *BODIES, *WIRE, *REDIRECTS, *CHALLENGES)
SCENARIOS: Mapping[str, Scenario] = {scenario.name: scenario for scenario in ALL}

#: Paths as vendors spell them, and the block page that stands there.
_VENDOR_PATHS = {".within.website": "anubis", "_____tmd_____": "alibaba"}


def respond(scene: Scene, hosts: Mapping[str, tuple[str, dict[str, Any]]] = HOSTS) -> Reply:
    """The reply to one request. ``hosts`` maps a host to the name of its rule and its params."""
    try:
        reply = _by_host(scene, hosts) or _by_path(scene)
    except (ValueError, OverflowError) as error:
        return answer(f"a parameter makes no sense: {error}\n", 400, "text/plain")
    delay = scene.number("ms") if scene.request.params else 0
    return (Wait(delay / 1000), *reply) if delay > 0 else reply


def _by_host(scene: Scene, hosts: Mapping[str, tuple[str, dict[str, Any]]]) -> Reply | None:
    found = hosts.get(scene.request.host)
    return RULES[found[0]].respond(scene, found[1]) if found else None


def _by_path(scene: Scene) -> Reply:
    path = scene.request.path
    name = path[1:].partition("/")[0]
    scenario = SCENARIOS.get(name)
    if scenario is None and name in _VENDOR_PATHS:
        return denial(_VENDOR_PATHS[name])
    if scenario is None:
        return _plain(path)
    if "times" in scene.request.params and _over(scene):
        return ok(scene)
    return scenario.respond(scene)


def _over(scene: Scene) -> bool:
    """Whether the scenario has misbehaved as often as it should."""
    client = scene.request.client if scene.text("per") == "client" else ""
    key = ("times", scene.request.host, scene.request.target, client)
    return scene.memory.visit(*key) > scene.number("times")


def _plain(path: str) -> Reply:
    if path == "/robots.txt":
        return answer(ROBOTS, kind="text/plain")
    if path == "/":
        return answer(listing())
    return answer(refusal(404), 404)


def listing() -> str:
    """All scenarios as a page."""
    rows = "".join(
        f'<tr><td><a href="{row.path}">{row.path}</a></td><td>{row.about}</td></tr>\n'
        for row in ALL
    )
    hosts = "".join(
        f"<tr><td>{host}</td><td>{RULES[rule].about} {params or ''}</td></tr>\n"
        for host, (rule, params) in HOSTS.items()
    )
    return page("The hostile web", f"<table>{rows}</table><h2>Hosts</h2><table>{hosts}</table>")
