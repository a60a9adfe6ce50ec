"""A cookie as the browser gives it, for Scrapy's jar."""

from __future__ import annotations

from collections.abc import Mapping
from http.cookiejar import Cookie
from typing import Any


def plain_cookie(cookie: Mapping[str, Any]) -> Cookie:
    """``cookie`` has name, value, domain and path, maybe expires (epoch) and secure."""
    domain = str(cookie.get("domain", ""))
    expires = cookie.get("expires")
    return Cookie(
        version=0,
        name=str(cookie["name"]),
        value=str(cookie["value"]),
        port=None,
        port_specified=False,
        domain=domain,
        domain_specified=domain.startswith("."),
        domain_initial_dot=domain.startswith("."),
        path=str(cookie.get("path") or "/"),
        path_specified=True,
        secure=bool(cookie.get("secure")),
        expires=int(expires) if isinstance(expires, int | float) and expires > 0 else None,
        discard=False,
        comment=None,
        comment_url=None,
        rest={},
    )
