"""Titles of block pages, as ``policy/titles.py`` normalises them. Data."""

from __future__ import annotations

from collections.abc import Mapping

from retryscrape.policy.signatures.shape import (
    CAPTCHA,
    CHALLENGE,
    CONSENT,
    DENIAL,
    Title,
)

#: Exact titles, normalised (``titles.py``).
TITLES: Mapping[str, Title] = {
    "just a moment...": Title("cloudflare", CHALLENGE, "1", strong=True),
    "please wait... | cloudflare": Title("cloudflare", CHALLENGE, "1", strong=True),
    "attention required! | cloudflare": Title("cloudflare", DENIAL, "3", strong=True),
    "pardon our interruption": Title("imperva", CHALLENGE, "13", strong=True),
    "pardon our interruption...": Title("imperva", CHALLENGE, "13", strong=True),
    "vercel security checkpoint": Title("vercel", CHALLENGE, "17", strong=True),
    "ddos-guard": Title("ddos-guard", CHALLENGE, "26", strong=True),
    "robot check": Title("amazon", CAPTCHA, "40", strong=True),
    "sina visitor system": Title("weibo", CHALLENGE, "43", strong=True),
    "radware bot manager captcha": Title("radware", CAPTCHA, "33", strong=True),
    "shieldsquare captcha": Title("radware", CAPTCHA, "33", strong=True),
    "unauthorized request blocked": Title("radware", DENIAL, "33", strong=True),
    "application firewall block page": Title("netscaler", DENIAL, "37", strong=True),
    "making sure you're not a bot!": Title("anubis", CHALLENGE, "25", strong=True),
    "before you continue to google": Title("google", CONSENT, "39", strong=True),
    "before you continue to google search": Title("google", CONSENT, "39", strong=True),
    "even geduld...": Title("cloudflare", CHALLENGE, "1"),
    "access denied": Title(None, DENIAL, "6"),
    "access to this page has been denied": Title("perimeterx", CAPTCHA, "10"),
    "access to this page has been denied.": Title("perimeterx", CAPTCHA, "10"),
    "robot or human?": Title("perimeterx", CAPTCHA, "10"),
    "request rejected": Title("f5", DENIAL, "23"),
    "client challenge": Title("fastly", CHALLENGE, "22"),
    "human verification": Title("aws-waf", CAPTCHA, "15"),
    "you are being redirected...": Title("sucuri", CHALLENGE, "21"),
    "blocked": Title(None, DENIAL, "41"),
    "forbidden": Title(None, DENIAL, "45"),
    "403 forbidden": Title(None, DENIAL, "28"),
    "challenge page": Title("akamai", CHALLENGE, "7"),
    "security check": Title(None, CAPTCHA, "47"),
    "your access to this site has been limited": Title("wordfence", DENIAL, "30"),
    "not acceptable!": Title("modsecurity", DENIAL, "31"),
    "stackpath": Title("stackpath", DENIAL, "32"),
}

#: Parts of a title, on an error only.
TITLE_PARTS: tuple[tuple[str, Title], ...] = (
    ("used cloudflare to restrict access", Title("cloudflare", DENIAL, "3")),
    ("sucuri website firewall", Title("sucuri", DENIAL, "20")),
    ("godaddy security - access denied", Title("sucuri", DENIAL, "20")),
    ("godaddy website firewall", Title("sucuri", DENIAL, "20")),
    ("cloudbric", Title("cloudbric", DENIAL, "36")),
    ("access has been denied", Title("perimeterx", CAPTCHA, "10")),
    ("- access denied", Title(None, DENIAL, "20")),
)

#: Titles that a CDN serves for its origin's faults as well: not on a 5xx.
NOT_ON_5XX: Mapping[str, Title] = {
    "error: the request could not be satisfied": Title("cloudfront", DENIAL, "16"),
}

#: A weak title without a vendor gets the one whose header stands beside it.
TITLE_SIGNS: tuple[tuple[str, str, str], ...] = (
    ("server", r"akamaighost.*", "akamai"),
    ("server", r"cloudfront.*", "cloudfront"),
    ("server", r"microsoft-azure.*", "azure"),
    ("server", r"snooserv.*", "reddit"),
    ("server", r"sucuri.*", "sucuri"),
)
