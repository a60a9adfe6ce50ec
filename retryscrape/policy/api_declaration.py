"""A user's declaration of a scraping API: defaults of the two kinds, and one check at the door.

Every complaint is a part of a sentence about the setting, and shows no value: it may be a secret.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any
from urllib.parse import urlsplit

from retryscrape.policy.api_provider import ApiKind, Hook, Provider
from retryscrape.policy.ladder import MODES

#: Seconds after which what was sent without an answer counts as not there.
STALE, STALE_HOOKED = 10.0, 120.0
#: Seconds until a task that has not finished is left to the next pass.
DEADLINE, DEADLINE_HOOKED = 300.0, 900.0

_ENDPOINTS: Mapping[ApiKind, Mapping[str, str]] = {
    ApiKind.TASKS: {"submit": "/realtime", "read": "/tasks/{id}"},
    ApiKind.BATCHES: {
        "submit": "/async/batch",
        "read": "/async/batch/{id}?include_results=true",
    },
}
_HEADERS: Mapping[ApiKind, Mapping[str, str]] = {
    ApiKind.TASKS: {"key": "x-api-key", "key_prefix": "", "finished": "x-task-finished-at"},
    ApiKind.BATCHES: {"key": "authorization", "key_prefix": "Bearer "},
}
_FIELDS: Mapping[ApiKind, Mapping[str, str]] = {
    ApiKind.TASKS: {
        "id": "task_id",
        "url": "url",
        "mode": "mode",
        "country": "proxy_country",
        "webhook": "webhook",
        "success": "success",
        "status": "status_code",
        "content": "content",
        "headers": "headers.response_headers",
        "cost": "credits_used",
        "mode_used": "mode_used",
        "error": "error",
        "event": "event",
    },
    ApiKind.BATCHES: {
        "id": "batch_id",
        "url": "url",
        "requests": "requests",
        "webhook": "callback_url",
        "state": "status",
        "results": "results",
        "item_state": "status",
        "status": "http_code",
        "content": "content",
        "headers": "headers",
        "cost": "credits_used",
        "mode_used": "mode_used",
        "error": "error",
        "finished_at": "finished_at",
        "event": "status",
    },
}
#: What goes with every URL besides the members that have a meaning of their own.
_SUBMIT: Mapping[ApiKind, Mapping[str, Any]] = {
    ApiKind.TASKS: {
        "async": True,
        "delivery": "json",
        "include_content": True,
        "capture_headers": True,
    },
    ApiKind.BATCHES: {"formats": ["html"]},
}
#: And with those that must be asked for in another way than the last time.
_ESCALATED: Mapping[ApiKind, Mapping[str, Any]] = {
    ApiKind.TASKS: {},
    ApiKind.BATCHES: {"js_scroll": True, "js_wait_for": "networkidle", "max_retries": 8},
}


def provider_of(given: Mapping[str, Any]) -> Provider:
    """The declaration as a value. Raises ValueError with a part of a sentence for a person."""
    _known(given, {f.name for f in fields(Provider)}, "key")
    kind = _kind(given.get("kind"))
    hook = _hook(given.get("webhook"), kind)
    return Provider(
        kind=kind,
        base=web_address(given.get("base"), "base").rstrip("/"),
        poll=_number(given, "poll", 2.0, least=0.01),
        deadline=_number(given, "deadline", DEADLINE_HOOKED if hook else DEADLINE),
        stale=_number(given, "stale", STALE_HOOKED if hook else STALE),
        slots=int(_number(given, "slots", 5, least=1, whole=True)),
        chunk=int(_number(given, "chunk", 100, least=1, whole=True)),
        jitter=_jitter(given.get("jitter", (1.0, 20.0))),
        mode=_mode(given.get("mode", MODES[0])),
        country=_text(given, "country"),
        prices=_prices(given.get("prices", {})),
        endpoints=_endpoints(given, kind),
        headers=_names(given, "headers", _HEADERS[kind]),
        fields=_names(given, "fields", _FIELDS[kind]),
        submit=dict(_SUBMIT[kind]) | _mapping(given, "submit"),
        escalated=dict(_ESCALATED[kind]) | _mapping(given, "escalated"),
        finished=_words(given, "finished", ("completed",)),
        failed=_words(given, "failed", ("failed", "cancelled")),
        webhook=hook,
    )


def web_address(value: Any, name: str) -> str:
    """An address that a key or a signed event may travel to: https, or this machine."""
    if not isinstance(value, str) or not value:
        raise ValueError(f"must name {name!r}, the URL it begins with")
    try:
        parts = urlsplit(value)
        host = parts.hostname or ""
    except ValueError:
        raise ValueError(f"has a {name!r} that is no URL") from None
    local = host in {"localhost", "::1"} or host.startswith("127.")
    if parts.scheme not in {"https", "http"} or not host:
        raise ValueError(f"has a {name!r} that is no http(s) URL")
    if parts.scheme == "http" and not local:
        raise ValueError(f"has a {name!r} without TLS, which would show the key to everybody")
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise ValueError(f"has a {name!r} with more in it than scheme, host and path")
    return value


def _kind(value: Any) -> ApiKind:
    try:
        return ApiKind(value)
    except ValueError:
        raise ValueError(f"must have a 'kind': {' or '.join(ApiKind)}") from None


def _known(given: Mapping[str, Any], names: set[str], what: str) -> None:
    for name in given:
        if name not in names:
            near = difflib.get_close_matches(str(name), sorted(names), n=1, cutoff=0.0)
            raise ValueError(f"has the unknown {what} {name!r}, did you mean {near[0]!r}?")


def _number(
    given: Mapping[str, Any], name: str, default: float, *, least: float = 0.0, whole: bool = False
) -> float:
    value = given.get(name, default)
    right = isinstance(value, int | float) and not isinstance(value, bool)
    if not right or not math.isfinite(value) or value < least or (whole and value != int(value)):
        kind = "a whole number" if whole else "a number"
        raise ValueError(f"has {name!r}, which must be {kind} of at least {least:g}")
    return float(value)


def _jitter(value: Any) -> tuple[float, float]:
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise ValueError("has 'jitter', which must be two numbers: base and cap, seconds")
    first, second = (_number({"jitter": part}, "jitter", 0.0) for part in value)
    return first, second


def _text(given: Mapping[str, Any], name: str) -> str | None:
    value = given.get(name)
    if value is not None and (not isinstance(value, str) or not value):
        raise ValueError(f"has {name!r}, which must be a text")
    return value


def _mode(value: Any) -> str:
    if value not in MODES:
        raise ValueError(f"has 'mode', which must be {' or '.join(MODES)}")
    return str(value)


def _mapping(given: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = given.get(name, {})
    if not isinstance(value, Mapping):
        raise ValueError(f"has {name!r}, which must be a dict")
    return {str(key): item for key, item in value.items()}


def _prices(value: Any) -> Mapping[str, float]:
    prices = {"request": 1.0, "browser": 5.0}
    given = _mapping({"prices": value}, "prices")
    _known(given, set(MODES), "mode in 'prices'")
    return prices | {name: _number(given, name, 0.0) for name in given}


def _names(given: Mapping[str, Any], group: str, defaults: Mapping[str, str]) -> Mapping[str, str]:
    own = _mapping(given, group)
    _known(own, set(defaults), f"name in {group!r}")
    for name, value in own.items():
        if not isinstance(value, str) or not (value or name == "key_prefix"):
            raise ValueError(f"has {name!r} in {group!r}, which must be a text")
    lower = group == "headers"
    named = dict(defaults) | own
    return {k: v.lower() if lower and k != "key_prefix" else v for k, v in named.items()}


def _endpoints(given: Mapping[str, Any], kind: ApiKind) -> Mapping[str, str]:
    found = _names(given, "endpoints", _ENDPOINTS[kind])
    if not all(path.startswith("/") for path in found.values()):
        raise ValueError("has 'endpoints', which must begin with '/'")
    if "{id}" not in found["read"]:
        raise ValueError("has a 'read' in 'endpoints' without '{id}' in it")
    return found


def _words(given: Mapping[str, Any], name: str, default: tuple[str, ...]) -> frozenset[str]:
    value = given.get(name, default)
    if isinstance(value, str) or not all(isinstance(word, str) for word in value):
        raise ValueError(f"has {name!r}, which must be a list of words")
    return frozenset(word.lower() for word in value)


def _hook(value: Any, kind: ApiKind) -> Hook | None:
    if value is None:
        return None
    given = _mapping({"webhook": value}, "webhook")
    _known(given, {f.name for f in fields(Hook)}, "key in 'webhook'")
    port = int(_number(given, "port", 0, least=1, whole=True))
    if port > 65535:
        raise ValueError("has a 'port' in 'webhook' over 65535")
    secret = _text(given, "secret")
    if kind is ApiKind.BATCHES and secret is None:
        raise ValueError("has a 'webhook' without 'secret': batches are signed with the account's")
    return Hook(
        port=port,
        url=web_address(given.get("url"), "url' in 'webhook").rstrip("/"),
        secret=secret,
        header=(_text(given, "header") or "x-webhook-signature").lower(),
    )
