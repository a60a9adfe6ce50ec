"""Addresses of walls: a redirect to one, or a page that stands there, is a block. Data."""

from __future__ import annotations

import re

from retryscrape.policy.outcomes import Kind
from retryscrape.policy.signatures.shape import (
    CAPTCHA,
    CHALLENGE,
    CONSENT,
    DENIAL,
    Wall,
)


def _wall(pattern: str, vendor: str, kind: Kind, row: str, evidence: str) -> Wall:
    return Wall(re.compile(pattern, re.IGNORECASE), vendor, kind, row, evidence)


WALLS: tuple[Wall, ...] = (
    _wall(
        r"^(?:https?:)?//(?:[^/?#]*\.)?perfdrive\.com(?:[:/?#]|$)",
        "radware",
        CAPTCHA,
        "33",
        "perfdrive.com",
    ),
    _wall(
        r"/\.within\.website/(?:x/cmd/anubis/)?[^#]*[?&]?redir=",
        "anubis",
        CHALLENGE,
        "25",
        "/.within.website/",
    ),
    _wall(
        r"^(?:(?:https?:)?//[^/?#]*)?/sorry/(?:index|image)?(?:[?#]|$)",
        "google",
        CAPTCHA,
        "38",
        "/sorry/",
    ),
    _wall(
        r"^(?:https?:)?//(?:[^/?#@]*\.)?google\.[a-z.]+(?::\d+)?/sorry(?:[/?#]|$)",
        "google",
        CAPTCHA,
        "38",
        "/sorry/",
    ),
    _wall(
        r"^(?:https?:)?//consent\.(?:google|youtube)\.[a-z.]+(?:[:/?#]|$)",
        "google",
        CONSENT,
        "39",
        "consent.google.com",
    ),
    _wall(r"x5secdata=|/_____tmd_____/punish", "alibaba", CAPTCHA, "34", "x5secdata"),
    _wall(
        r"^(?:https?:)?//(?:[^/?#]*\.)?captcha-delivery\.com(?:[:/?#]|$)",
        "datadome",
        CAPTCHA,
        "9",
        "captcha-delivery.com",
    ),
    _wall(r"/errors/validatecaptcha(?:[?#]|$)", "amazon", CAPTCHA, "40", "/errors/validateCaptcha"),
    _wall(
        r"^(?:https?:)?//passport\.weibo\.c[a-z.]+/visitor/",
        "weibo",
        CHALLENGE,
        "43",
        "passport.weibo.com/visitor",
    ),
    _wall(
        r"^(?:(?:https?:)?//(?:[^/?#]*\.)?linkedin\.com)/authwall(?:[/?#]|$)",
        "linkedin",
        DENIAL,
        "42",
        "/authwall",
    ),
    _wall(r"/blocked\?url=[^#]*[?&](?:uuid|vid)=", "perimeterx", CAPTCHA, "10", "/blocked?url="),
)
