"""All pages that are evidence, in their order: the first that matches counts. Data."""

from __future__ import annotations

import re
from collections.abc import Mapping

from retryscrape.policy.outcomes import Kind
from retryscrape.policy.signatures.bodies_cdn import CDN_BODIES
from retryscrape.policy.signatures.bodies_more import MORE_BODIES
from retryscrape.policy.signatures.shape import (
    CAPTCHA,
    CHALLENGE,
    DENIAL,
    ERROR,
    Body,
    pattern,
)

#: Decisive body markers, HTML only. The widgets, which are nobody's in particular, come last.
BODIES: tuple[Body, ...] = (*CDN_BODIES, *MORE_BODIES)

#: The same for JSON: forms that the vendors send to scripts.
JSON_BODIES: tuple[Body, ...] = (
    Body(
        vendor="datadome",
        kind=CAPTCHA,
        row="9",
        has=(b"captcha-delivery.com",),
        pattern=pattern(rb"\"url\"\s*:\s*\"https?:(?:\\?/){2}geo\.captcha-delivery\.com"),
    ),
    Body(
        vendor="perimeterx",
        kind=CAPTCHA,
        row="10",
        has=(b'"appid"', b'"vid"', b'"uuid"'),
        pattern=pattern(rb"\"(?:blockscript|jsclientsrc|hosturl)\""),
    ),
    Body(vendor="akamai", kind=CHALLENGE, row="7", has=(b"sec-cp-challenge",), status=ERROR),
    Body(
        vendor="alibaba",
        kind=CAPTCHA,
        row="34",
        has=(b"x5secdata=",),
        pattern=pattern(rb"\"url\"\s*:\s*\"[^\"]{0,500}_____tmd_____(?:\\?/)punish"),
    ),
)

#: What narrows a vendor's kind down, by a pattern in the body.
KINDS: Mapping[str, tuple[tuple[re.Pattern[bytes], Kind], ...]] = {
    "datadome": (
        (pattern(rb"[\"']t[\"']\s*:\s*[\"']bv[\"']"), DENIAL),
        (pattern(rb"[\"']rt[\"']\s*:\s*[\"']c[\"']|captcha-delivery\.com/c\.js"), CAPTCHA),
        (pattern(rb"[\"']rt[\"']\s*:\s*[\"']i[\"']|captcha-delivery\.com/i\.js"), CHALLENGE),
    ),
    "perimeterx": ((pattern(rb"px-captcha|captcha\.js"), CAPTCHA),),
}
