"""Tries every line of a proxies file once, side by side: ``scrapy proxies check``.

What a proxy is tried with is the plain rung's own client, so that what works here
works in a crawl. Nothing is printed here, and no text made here holds a secret.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import secrets
import socket
import time
from collections.abc import Callable, Mapping
from ipaddress import ip_address
from typing import Any

from msgspec import Struct
from scrapy import Request
from scrapy.http import Response

from retryscrape.crawl.adapt import page_of
from retryscrape.crawl.clients.base import Client, Proxy
from retryscrape.crawl.faults import FetchError
from retryscrape.policy.classify import classify
from retryscrape.policy.outcomes import At, Checks, Outcome
from retryscrape.policy.proxies import Exit, ProxyList

#: Pages that say who asked are short; more than this is another page.
_MOST_BYTES = 200_000


class Checked(Struct, frozen=True, kw_only=True):
    """What became of one line. ``exit`` is the redacted name, None for a line that is no
    proxy; ``seconds`` until the whole answer; ``seen`` the address that the target saw;
    ``wrong`` what is wrong, in words."""

    line: int
    exit: str | None
    usable: bool
    seconds: float | None = None
    seen: str | None = None
    tier: str | None = None
    country: str | None = None
    wrong: str | None = None


async def check_proxies(
    proxies: ProxyList,
    client: Client,
    url: str | None,
    *,
    timeout: float,  # noqa: ASYNC109 -- handed on to the client, which keeps it
    at_once: int,
    told: Callable[[Checked], None] = lambda _: None,
) -> list[Checked]:
    """Every line by its number. Without a ``url`` proxies are only connected to: no site hears
    of them that nobody named. ``timeout`` is in seconds for each proxy; ``told`` is
    called with each as it is done. Raises nothing for what a proxy may do."""
    places = asyncio.Semaphore(at_once)

    async def one(exit_: Exit) -> Checked:
        async with places:
            if url is None:
                found = await _reach(exit_, timeout)
            else:
                found = await _check(exit_, client, url, timeout)
        told(found)
        return found

    broken = [
        Checked(line=problem.line, exit=None, usable=False, wrong=problem.why)
        for problem in proxies.problems
    ]
    tried = await asyncio.gather(*(one(exit_) for exit_ in proxies.exits))
    return sorted((*broken, *tried), key=lambda row: row.line)


async def _check(exit_: Exit, client: Client, url: str, seconds: float) -> Checked:
    filled = exit_.with_session(secrets.token_hex(6))
    proxy = Proxy(id=exit_.id, url=exit_.proxy_url, authorization=filled.authorization())
    started = time.monotonic()
    seen, country, wrong = None, exit_.country, None
    try:
        answer = await client.fetch(
            Request(url, headers={"Accept": "application/json, text/plain, */*;q=0.5"}),
            proxy=proxy,
            timeout=seconds,
            fresh=True,
            max_size=_MOST_BYTES,
            warn_size=0,
        )
    except FetchError as fault:
        wrong = _fault(fault, seconds)
    else:
        wrong = _refusal(answer)
        seen, found = seen_by(answer.body) if wrong is None else (None, None)
        if found and country and found != country:
            wrong = f"the file says {country}, the target says {found}"
        country = found or country
    elapsed = time.monotonic() - started
    return Checked(
        line=exit_.line,
        exit=exit_.id,
        usable=wrong is None,
        seconds=round(elapsed, 3) if wrong is None else None,
        seen=seen,
        tier=exit_.tier,
        country=country,
        wrong=wrong,
    )


async def _reach(exit_: Exit, seconds: float) -> Checked:
    """Whether its port takes a connection."""
    started = time.monotonic()
    wrong = None
    try:
        async with asyncio.timeout(seconds):
            _, writer = await asyncio.open_connection(exit_.host.strip("[]"), exit_.port)
        writer.close()
    except TimeoutError:
        wrong = _AT_PROXY["timeout"].format(seconds=seconds)
    except OSError as error:
        known = not isinstance(error, socket.gaierror)
        detail = os.strerror(error.errno) if known and error.errno else "unknown name"
        wrong = _AT_PROXY["connect" if known else "dns"].format(detail=detail)
    return Checked(
        line=exit_.line,
        exit=exit_.id,
        usable=wrong is None,
        seconds=round(time.monotonic() - started, 3) if wrong is None else None,
        tier=exit_.tier,
        country=exit_.country,
        wrong=wrong,
    )


def _refusal(answer: Response) -> str | None:
    """What is wrong with an answer, or None. Who gave it is the classifier's to say."""
    verdict = classify(page_of(answer), Checks(min_text=0))
    if answer.status == 407:
        return _CREDENTIALS
    if verdict.at is At.PROXY:
        return f"the proxy answered {answer.status} itself"
    if answer.status >= 400:
        return f"the answer through it was {answer.status} (the target's, or the proxy's own)"
    if verdict.outcome is Outcome.BLOCKED:
        return f"the target blocks it ({verdict.vendor or verdict.evidence or 'a block page'})"
    return None


_CREDENTIALS = "it rejects its user name and password (407)"

#: What a fault at the proxy means; other places and reasons are said as they are.
_AT_PROXY: Mapping[str, str] = {
    "dns": "its host name is not known ({detail})",
    "connect": "it cannot be reached ({detail})",
    "reset": "it closed the connection without an answer",
    "timeout": "no answer within {seconds:g} s",
    "tls": "TLS failed with the proxy ({detail})",
    "decode": "it does not answer as an HTTP proxy does ({detail})",
    "unavailable": "{detail}",
}
_BEHIND: Mapping[str, str] = {
    "reset": "the connection was closed without an answer",
    "timeout": "no answer within {seconds:g} s",
    "truncated": "the answer was cut off",
    "decode": "what came through it is no HTTP answer",
    "tls": "TLS with the target failed ({detail})",
    "too_large": "the answer is larger than 200 kB: --url should name a page that says who asked",
}


def _fault(fault: FetchError, seconds: float) -> str:
    if fault.status == 407:
        return _CREDENTIALS
    if fault.status:
        return f"it refuses a tunnel to the target ({fault.status})"
    words = _AT_PROXY if fault.at is At.PROXY else _BEHIND
    return words.get(fault.reason, "{reason}: {detail}").format(
        reason=fault.reason, detail=fault.detail or fault.reason, seconds=seconds
    )


#: Under these names do pages that echo give the address, and the country.
_ADDRESS_KEYS = ("origin", "ip", "client", "ip_addr", "ip_address", "query", "address")
_COUNTRY_KEYS = ("country", "country_code", "countryCode", "country_iso", "loc_country")
_WORDS = re.compile(r"[0-9A-Fa-f.:]{3,45}")


def seen_by(body: bytes) -> tuple[str | None, str | None]:
    """The address, and the two letters of the country, that a page says it was asked from.

    JSON with one of the usual names, ``ip=...`` lines, or plain text.
    """
    text = body.decode("utf-8", "replace")
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        # httpbin and the like give one value; Cloudflare's trace gives NAME=VALUE lines
        pairs = dict(re.findall(r"(?m)^(ip|loc)=(\S+)\r?$", text))
        if pairs:
            return _address(pairs.get("ip", "")), _country(pairs.get("loc"))
        return (_address(text) if len(text) < 2000 else None), None
    address = next((found[key] for key in _ADDRESS_KEYS if key in found), "")
    codes = (_country(found.get(key)) for key in _COUNTRY_KEYS)
    return _address(str(address)), next((code for code in codes if code), None)


def _address(text: str) -> str | None:
    """The addresses in a text: more than one if a proxy told on its client."""
    found = []
    for word in _WORDS.findall(text):
        try:
            found.append(str(ip_address(word.strip("."))))
        except ValueError:
            continue
    return ", ".join(dict.fromkeys(found[:3])) or None


def _country(value: Any) -> str | None:
    return value.upper() if isinstance(value, str) and re.fullmatch("[A-Za-z]{2}", value) else None
