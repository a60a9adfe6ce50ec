"""How block pages are recognised: data, and nothing but data.

A new vendor is a new row in one of these tables; ``match.py`` knows what the fields mean.
``row`` is the source, a row of the public facts in docs/design/block-pages.md. What is on
ordinary pages too (``server: cloudflare``, ``x-iinfo``, ``_abck``, a captcha widget in a
form) is never enough by itself.
"""

from retryscrape.policy.signatures.bodies import BODIES, JSON_BODIES, KINDS
from retryscrape.policy.signatures.headers import HEADERS, STATUSES
from retryscrape.policy.signatures.shape import (
    ANY,
    CAPTCHA,
    CHALLENGE,
    CONSENT,
    DENIAL,
    ERROR,
    FEW,
    FINE,
    NONE,
    Body,
    Header,
    Statuses,
    Title,
    Wall,
)
from retryscrape.policy.signatures.titles import NOT_ON_5XX, TITLE_PARTS, TITLE_SIGNS, TITLES
from retryscrape.policy.signatures.walls import WALLS

__all__ = [
    "ANY",
    "BODIES",
    "CAPTCHA",
    "CHALLENGE",
    "CONSENT",
    "DENIAL",
    "ERROR",
    "FEW",
    "FINE",
    "HEADERS",
    "JSON_BODIES",
    "KINDS",
    "NONE",
    "NOT_ON_5XX",
    "STATUSES",
    "TITLES",
    "TITLE_PARTS",
    "TITLE_SIGNS",
    "WALLS",
    "Body",
    "Header",
    "Statuses",
    "Title",
    "Wall",
]
