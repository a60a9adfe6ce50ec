"""Headers, and statuses, that only a block has. ``row``: docs/design/block-pages.md. Data."""

from __future__ import annotations

from collections.abc import Mapping

from retryscrape.policy.outcomes import Kind
from retryscrape.policy.signatures.shape import (
    AUTH,
    BUSY,
    CAPTCHA,
    CHALLENGE,
    CLIENT,
    DENIAL,
    DENIED,
    FORBIDDEN,
    Header,
)

#: Decisive headers, on any status unless one is given. The first that matches counts.
HEADERS: tuple[Header, ...] = (
    Header("cf-mitigated", r"challenge", "cloudflare", CHALLENGE, "1"),
    Header("cf-mitigated", r".+", "cloudflare", DENIAL, "1"),
    Header("x-dd-b", r".+", "datadome", None, "9"),
    Header("x-datadome-cid", r".+", "datadome", None, "9", AUTH),
    Header("x-px-authorization", r".+", "perimeterx", None, "10", BUSY),
    Header("x-amzn-waf-action", r"challenge", "aws-waf", CHALLENGE, "14"),
    Header("x-amzn-waf-action", r"captcha", "aws-waf", CAPTCHA, "15"),
    Header("x-amzn-waf-action", r".+", "aws-waf", DENIAL, "14"),
    Header("x-vercel-mitigated", r"challenge", "vercel", CHALLENGE, "17"),
    Header("x-vercel-mitigated", r".+", "vercel", DENIAL, "18"),
    Header("x-vercel-challenge-token", r".+", "vercel", CHALLENGE, "17"),
    Header("x-kpsdk-*", r".*", "kasada", CHALLENGE, "19", CLIENT),
    Header("x-kasada*", r".*", "kasada", CHALLENGE, "19", CLIENT),
    Header("x-sucuri-block", r".+", "sucuri", DENIAL, "20"),
    Header("x-reference-error", r"\d+\.[0-9a-f]+\..*", "akamai", DENIAL, "6", FORBIDDEN),
    Header("akamai-cache-status", r"error from child", "akamai", DENIAL, "6", FORBIDDEN),
    Header("bxpunish", r"(?!0$).+", "alibaba", CAPTCHA, "34"),
    Header("server", r"qrator.*", "qrator", CHALLENGE, "27", AUTH),
    Header("server", r"wfwaf.*", "wordfence", DENIAL, "30", BUSY),
    Header("server", r".*mod_security.*", "modsecurity", DENIAL, "31", DENIED),
    Header("server", r"microsoft-azure-application-gateway.*", "azure", DENIAL, "28", FORBIDDEN),
    Header("server", r"yundun.*", "yundun", DENIAL, "36", FORBIDDEN),
    Header("server", r"arvancloud.*", "arvancloud", DENIAL, "36", FORBIDDEN),
    Header("server", r"imunify360-webshield.*", "imunify360", DENIAL, "36", DENIED),
    Header("cneonction", r".*", "netscaler", DENIAL, "37", FORBIDDEN),
    Header("nncoection", r".*", "netscaler", DENIAL, "37", FORBIDDEN),
)

#: Statuses that only one vendor sends.
STATUSES: Mapping[int, tuple[str, Kind, str]] = {999: ("linkedin", DENIAL, "42")}
