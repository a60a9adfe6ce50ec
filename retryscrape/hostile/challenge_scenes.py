"""Scenarios that want a browser: challenges that a script solves, and some that nothing solves.

A solved challenge leaves a cookie that holds for this client's address and lets plain
requests pass too, as ``cf_clearance`` does.
"""

from __future__ import annotations

from zlib import crc32

from retryscrape.hostile.blockpages import BLOCK_PAGES, BlockPage
from retryscrape.hostile.lookalikes import LOOKALIKES
from retryscrape.hostile.page_scenes import ok
from retryscrape.hostile.scene import Scenario, Scene
from retryscrape.hostile.text import article, page
from retryscrape.hostile.wire import Reply, answer

CLEARANCE = "clearance"
_MITIGATED = {"cf-mitigated": "challenge", "Server": "cloudflare"}


def clearance(client: str) -> str:
    """The cookie's value for this address."""
    return f"{crc32(client.encode()):08x}"


def cleared(scene: Scene) -> bool:
    """Whether the request carries this client's cookie."""
    return scene.request.cookies.get(CLEARANCE) == clearance(scene.request.client)


def challenge(scene: Scene, seconds: float = 0.1) -> Reply:
    """The challenge, or the page if it was solved; ``?seconds=`` is what the script takes."""
    if cleared(scene):
        return ok(scene)
    wait = int(scene.number("seconds", seconds) * 1000)
    cookie = f"{CLEARANCE}={clearance(scene.request.client)}; path=/"
    code = (
        "window._cf_chl_opt = {cType: 'managed'};"
        f"setTimeout(() => {{document.cookie = '{cookie}'; location.reload()}}, {wait})"
    )
    body = page("Just a moment...", f'<div id="challenge-spinner"></div><script>{code}</script>')
    return answer(body, 403, headers=_MITIGATED)


def hard(scene: Scene) -> Reply:
    """A challenge that never clears."""
    code = "window._cf_chl_opt = {cType: 'interactive'}"
    return answer(page("Just a moment...", f"<script>{code}</script>"), 403, headers=_MITIGATED)


def _hidden(scene: Scene) -> Reply:
    """The challenge as a 200 without headers, as renderers and proxies pass it on."""
    if cleared(scene):
        return ok(scene)
    cookie = f"{CLEARANCE}={clearance(scene.request.client)}; path=/"
    code = f"setTimeout(() => {{document.cookie = '{cookie}'; location.reload()}}, 100)"
    body = f"<script>window._cf_chl_opt={{}};{code}</script>" + "<!-- filler -->" * 7000
    return answer(page("Just a moment...", body))


def _renders_to_block(scene: Scene) -> Reply:
    """Plain: 403. In a browser: status 200 with the body of a block page (D11)."""
    if scene.request.cookies.get("asked") == "1":
        row = BLOCK_PAGES["cloudflare-deny"]
        return answer(row.body, 200, headers={"Server": "cloudflare"})
    code = "document.cookie = 'asked=1; path=/'; location.reload()"
    body = page("Just a moment...", f"<script>window._cf_chl_opt={{}};{code}</script>")
    return answer(body, 403, headers=_MITIGATED)


def _show(rows: dict[str, BlockPage], scene: Scene) -> Reply:
    """``/NAME/ROW``: one page of a table."""
    row = rows.get(scene.rest.partition("/")[0])
    if row is None:
        return answer(page("No such row", " ".join(rows)), 404)
    return answer(row.body, row.status, row.kind_header, row.headers)


def _never_loads(scene: Scene) -> Reply:
    """A page whose ``load`` event never comes: one picture hangs (D4)."""
    picture = '<img src="/hang/picture.png" alt="">'
    return answer(article(scene.seed).replace("</main>", f"</main>{picture}"))


def _runs_away(scene: Scene) -> Reply:
    """A page whose script leaves at once for an answer without content (D3)."""
    return answer(page("Leaving", "<script>location.href = '/nocontent/1'</script>"))


CHALLENGES = (
    Scenario("challenge", "a challenge that a script solves; ?seconds= it takes", challenge),
    Scenario("slowchallenge", "the same, takes 2 s", lambda s: challenge(s, 2.0)),
    Scenario("hiddenchallenge", "a challenge as a large 200 without headers", _hidden),
    Scenario("hardchallenge", "a challenge that never clears", hard),
    Scenario(
        "renderedblock", "a challenge that ends in a denial with status 200", _renders_to_block
    ),
    Scenario("neverloads", "a page that never finishes loading in a browser", _never_loads),
    Scenario("runsaway", "a page whose script leaves for a 204 at once", _runs_away),
    Scenario(
        "block",
        "a vendor's block page: /block/ROW",
        lambda s: _show(BLOCK_PAGES, s),
        "/block/cloudflare",
    ),
    Scenario(
        "lookalike",
        "an ordinary answer that looks like a block page: /lookalike/ROW",
        lambda s: _show(LOOKALIKES, s),
        "/lookalike/turnstile-form",
    ),
)
