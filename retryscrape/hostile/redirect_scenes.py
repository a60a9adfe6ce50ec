"""Scenarios of redirects, by status, by meta refresh, into walls, and of cookies."""

from __future__ import annotations

from html import escape

from retryscrape.hostile.page_scenes import ok
from retryscrape.hostile.scene import Scenario, Scene
from retryscrape.hostile.status_scenes import refusal
from retryscrape.hostile.text import page, prose
from retryscrape.hostile.wire import Reply, answer

#: Where vendors send those whom they suspect (block_pages.md rows 25, 33, 34, 38, 39). The
#: names are the vendors' own, because they are the evidence; our proxies map them to us.
WALLS = {
    "sorry": "/sorry/index?continue=http://{host}/ok/1",
    "perfdrive": "https://validate.perfdrive.com/?ssa=1",
    "anubis": "/.within.website/?redir=%2Fok%2F1",
    "punish": "/_____tmd_____/punish?x5secdata=abc",
    "consent": "https://consent.google.com/m?continue=1",
}


def go(location: str, status: int = 302, *headers: tuple[str, str]) -> Reply:
    """A redirect."""
    return answer("", status, headers=[("Location", location), *headers])


def _to(scene: Scene) -> Reply:
    """``/to/N?url=``: to any URL; without one to the page that all of them share."""
    return go(scene.text("url", "/ok/target"), int(scene.number("code", 302)))


def _self_cookie(scene: Scene) -> Reply:
    """To itself until its cookie comes back, as many sites do at the first visit."""
    if scene.request.cookies.get("seen") == "1":
        return ok(scene)
    return go(scene.request.target, 302, ("Set-Cookie", "seen=1; Path=/"))


def _chain(scene: Scene) -> Reply:
    """``/chain/N``: N redirects, then the page."""
    left = scene.rest.partition("/")[0]
    steps = int(left) if left.isdigit() else 1
    return go(f"/chain/{steps - 1}") if steps > 0 else ok(scene)


def _loop(scene: Scene) -> Reply:
    """From URL to URL for ever, never to the same one."""
    step = scene.rest.rpartition("/")[2]
    return go(f"/loop/{int(step) + 1 if step.isdigit() else 1}")


def _scheme(scene: Scene) -> Reply:
    """``/scheme/NAME``: to a scheme that no crawler must follow."""
    targets = {
        "file": "file:///etc/hostname",
        "data": "data:text/html,<h1>hello</h1>",
        "ftp": "ftp://127.0.0.1:1/x",
        "javascript": "javascript:void(0)",
        "bad": "http://[::1",
        "empty": "",
    }
    return go(targets.get(scene.rest.partition("/")[0], "file:///etc/hostname"))


def _host(scene: Scene) -> Reply:
    return go(scene.elsewhere("news.test", f"/ok/from-{scene.rest}"))


def _secure(scene: Scene) -> Reply:
    """From http to https of the same host, with the port of ours that speaks it."""
    if scene.request.secure:
        return ok(scene)
    port = scene.memory.values.get(("https_port",), "")
    name = scene.request.host
    suffix = "" if name.endswith(".test") else f":{port}"
    return go(f"https://{name}{suffix}{scene.request.target}")


def _meta(scene: Scene) -> Reply:
    """``/meta/N?url=``: a page that refreshes to another after no time."""
    url = escape(scene.text("url", f"/ok/after-{scene.rest}"))
    refresh = f'<meta http-equiv="refresh" content="0; url={url}">'
    return answer(page("Moved", "<p>Please wait.</p>", refresh))


def _meta_challenge(scene: Scene) -> Reply:
    """A challenge that refreshes: who follows it loses the evidence (field case E12b)."""
    refresh = '<meta http-equiv="refresh" content="1; url=/ok/behind-the-challenge">'
    body = page("Just a moment...", "<p>Checking</p>", refresh)
    return answer(body, 200, headers={"cf-mitigated": "challenge"})


def _wall(scene: Scene) -> Reply:
    """``/wall/NAME``: a redirect to a vendor's wall."""
    where = WALLS.get(scene.rest.partition("/")[0], WALLS["sorry"])
    return go(where.format(host=scene.request.header("host")))


def _sorry(scene: Scene) -> Reply:
    text = "<p>Our systems have detected unusual traffic from your computer network.</p>"
    form = '<form id="captcha-form" action="index" method="post"></form>'
    return answer(page(scene.request.target, text + form), 429)


def _login(scene: Scene) -> Reply:
    return go(scene.elsewhere("login.test", f"/signin/1?next={scene.request.path}"))


def _signin(scene: Scene) -> Reply:
    form = '<form action="/signin" method="post"><input name="user"></form>'
    return answer(page("Sign in", f"<h1>Sign in</h1>{form}{prose(scene.request.host)}"))


def _tied(scene: Scene) -> Reply:
    """Cookies tied to the client: one that another client got is an offence (C17)."""
    mine = f"c-{scene.request.client}"
    given = scene.request.cookies.get("sid")
    if given not in (None, mine):
        return answer(refusal(403, "Session belongs to another address"), 403)
    good = ok(scene)
    if given == mine:
        return good
    return answer(refusal(503), 503, headers={"Set-Cookie": f"sid={mine}; Path=/"})


REDIRECTS = (
    Scenario("to", "redirect: ?url= where to, ?code= the status", _to, "/to/1"),
    Scenario("selfcookie", "redirects to itself once, to set a cookie", _self_cookie),
    Scenario("self", "redirects to itself for ever", lambda s: go(s.request.target)),
    Scenario("chain", "/chain/N: N redirects, then the page", _chain, "/chain/3"),
    Scenario("loop", "redirects for ever", _loop),
    Scenario(
        "scheme", "redirects to file, data, ftp, javascript, bad, empty", _scheme, "/scheme/file"
    ),
    Scenario("host", "redirects to another host", _host),
    Scenario("secure", "redirects from http to https", _secure),
    Scenario("nolocation", "302 without a Location", lambda _: answer("", 302)),
    Scenario("meta", "meta refresh to ?url=", _meta),
    Scenario("metachallenge", "a challenge that refreshes by itself", _meta_challenge),
    Scenario("wall", "redirects to walls: " + " ".join(WALLS), _wall, "/wall/sorry"),
    Scenario("sorry", "Google's page at the end of a wall", _sorry, "/sorry/index"),
    Scenario("loginwall", "redirects to the sign-in page of another host", _login),
    Scenario("signin", "a sign-in page", _signin),
    Scenario("tied", "503 and a cookie first; refuses another client's cookie", _tied),
)
