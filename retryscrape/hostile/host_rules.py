"""Behaviours of whole hosts: bans by address, throttling, robots.txt variants, walls.

A rule sees each request before the path does, and may leave it to the path (None).
``HOSTS`` names the ``.test`` hosts that have one; any other may be given one at run time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from zlib import crc32

from retryscrape.hostile.blockpages import BLOCK_PAGES
from retryscrape.hostile.challenge_scenes import challenge, cleared
from retryscrape.hostile.scene import HostRule, Scene
from retryscrape.hostile.status_scenes import refusal
from retryscrape.hostile.text import article
from retryscrape.hostile.wire import End, Reply, Wait, answer

Params = dict[str, Any]

#: What an ordinary host's robots.txt says.
ROBOTS = "User-agent: *\nDisallow: /private\n"


def _robots_body(text: str) -> Callable[[], Reply]:
    return lambda: answer(text, kind="text/plain")


#: Variants of robots.txt by name.
ROBOTS_KINDS: dict[str, Callable[[], Reply]] = {
    "allow": _robots_body("User-agent: *\nAllow: /\n"),
    "private": _robots_body(ROBOTS),
    "deny": _robots_body("User-agent: *\nDisallow: /\n"),
    "403": lambda: answer(refusal(403), 403),
    "404": lambda: answer(refusal(404), 404),
    "503": lambda: answer(refusal(503), 503),
    "hang": lambda: (End.HANG,),
    "reset": lambda: (End.RESET,),
    "garbage": _robots_body("\x00\x01<<<>>>: : :\nDisallow\n%zz: /\n"),
    "html": lambda: answer(article("no robots here")),
    "challenge": lambda: answer(
        BLOCK_PAGES["cloudflare"].body, 403, headers=(("cf-mitigated", "challenge"),)
    ),
}


def robots(scene: Scene, params: Params) -> Reply | None:
    """``kind``: a name of ``ROBOTS_KINDS``."""
    if scene.request.path != "/robots.txt":
        return None
    return ROBOTS_KINDS[params.get("kind", "private")]()


def denial(vendor: str = "cloudflare-deny") -> Reply:
    """A vendor's page that denies this address."""
    row = BLOCK_PAGES[vendor]
    return answer(row.body, row.status, row.kind_header, row.headers)


def _not_page(scene: Scene) -> bool:
    return scene.request.path == "/robots.txt"


def banned(scene: Scene, params: Params) -> Reply | None:
    """Denies ``clients``, and a ``share`` of all; ``vendor`` names the page (``bare``: 403).

    Who belongs to the share (0 to 1) depends on host, address and ``seed`` alone. Nobody is
    denied before the host has had ``after`` requests.
    """
    client = scene.request.client
    lot = crc32(f"{params.get('seed', 0)} {scene.request.host} {client}".encode()) % 1000
    listed = client in params.get("clients", ()) or lot < 1000 * float(params.get("share", 0))
    if _not_page(scene):
        return None
    early = scene.memory.visit("banned", scene.request.host) <= int(params.get("after", 0))
    if early or not listed:
        return None
    vendor = params.get("vendor", "cloudflare-deny")
    return answer(refusal(403), 403) if vendor == "bare" else denial(vendor)


def wears_out(scene: Scene, params: Params) -> Reply | None:
    """Denies an address after its first ``after`` requests, for good or ``seconds``."""
    if _not_page(scene):
        return None
    key = ("worn", scene.request.host, scene.request.client)
    since = scene.memory.values.get(key)
    if since is not None and scene.now - since < float(params.get("seconds", 1e9)):
        return denial()
    if since is not None:
        del scene.memory.values[key]
        scene.memory.counts[key] = 0
    if scene.memory.visit(*key) > int(params.get("after", 5)):
        scene.memory.values[key] = scene.now
        return denial()
    return None


def busy(scene: Scene, params: Params) -> Reply | None:
    """429 to everybody for ``seconds`` from the request after the ``after``-th on (B12)."""
    if _not_page(scene):
        return None
    key = ("busy", scene.request.host)
    since = scene.memory.values.get(key)
    if since is None:
        if scene.memory.visit(*key) <= int(params.get("after", 5)):
            return None
        since = scene.memory.values[key] = scene.now
    seconds = float(params.get("seconds", 2))
    if scene.now - since >= seconds:
        return None
    after = params.get("retry_after", f"{seconds:.0f}")
    return answer(refusal(429), 429, headers={"Retry-After": str(after)} if after else ())


def turns(scene: Scene, params: Params) -> Reply | None:
    """Starts to deny everybody after ``after`` requests: a site that begins to block."""
    if _not_page(scene) or scene.memory.visit("turns", scene.request.host) <= int(
        params.get("after", 20)
    ):
        return None
    return denial()


def walled(scene: Scene, params: Params) -> Reply | None:
    """Every page stands behind a challenge that a browser solves."""
    return None if _not_page(scene) or cleared(scene) else challenge(scene)


def closed(scene: Scene, params: Params) -> Reply | None:
    """Denies everybody always."""
    return None if _not_page(scene) else denial(params.get("vendor", "cloudflare-deny"))


def failing(scene: Scene, params: Params) -> Reply | None:
    """Answers everything with ``status``."""
    return None if _not_page(scene) else answer(refusal(s := int(params.get("status", 503))), s)


def chance(scene: Scene, params: Params) -> Reply | None:
    """Fails one request in ``one_in`` with 503, evenly and the same way in each run."""
    if _not_page(scene) or scene.memory.visit("chance", scene.request.host) % int(
        params.get("one_in", 20)
    ):
        return None
    return answer(refusal(503), 503)


def hanging(scene: Scene, params: Params) -> Reply | None:
    """Takes every request and says nothing; robots.txt too."""
    return (Wait(float(params.get("seconds", 120))), End.CLOSE)


RULES: dict[str, HostRule] = {
    name: HostRule(name, (respond.__doc__ or "").partition("\n")[0], respond)
    for name, respond in {
        "robots": robots,
        "banned": banned,
        "wears_out": wears_out,
        "busy": busy,
        "turns": turns,
        "walled": walled,
        "closed": closed,
        "failing": failing,
        "chance": chance,
        "hanging": hanging,
    }.items()
}

#: Hosts that have a rule from the start: name -> (rule, params).
HOSTS: dict[str, tuple[str, Params]] = {
    "ban.test": ("banned", {"clients": ("127.0.1.1",)}),
    "bare-ban.test": ("banned", {"clients": ("127.0.1.1",), "vendor": "bare"}),
    "worn.test": ("wears_out", {"after": 5}),
    "busy.test": ("busy", {"after": 3, "seconds": 2}),
    "walled.test": ("walled", {}),
    "closed.test": ("closed", {}),
    "failing.test": ("failing", {"status": 503}),
    "hanging.test": ("hanging", {}),
    **{f"robots-{kind}.test": ("robots", {"kind": kind}) for kind in ROBOTS_KINDS},
}
