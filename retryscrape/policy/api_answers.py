"""What a scraping API's answers mean: one table for orders, one for reads, and the result.

Pure: answers in, values out. ``api_provider`` says what things are called. The rule behind
it all: whatever may have made a task is never sent again at once.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct, field

from retryscrape.policy.api_provider import ApiKind, Provider
from retryscrape.policy.outcomes import Page
from retryscrape.policy.redact import plain

#: Times that an order is repeated which made no task for certain.
REFUSALS = 10
#: Characters of an API's own words that go into a reason.
SAID = 160
#: Headers of the target that are not true of the text that is handed on (and cookies that
#: belong to the provider's exit).
_DROPPED = frozenset(
    {"content-encoding", "content-length", "transfer-encoding", "connection", "set-cookie"}
)


class Answer(Struct, frozen=True, kw_only=True):
    """An HTTP answer of the API; header names in lower case."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


class Trouble(Struct, frozen=True, kw_only=True):
    """No answer: ``sent`` says whether the request may have arrived."""

    sent: bool
    text: str


class Sent(StrEnum):
    """What became of an order."""

    ACCEPTED = "accepted"
    REFUSED = "refused"
    UNKNOWN = "unknown"
    STOP = "stop"
    REJECTED = "rejected"


class Order(Struct, frozen=True, kw_only=True):
    """One order's end: ``task_id`` if it was accepted, else ``why`` in words."""

    sent: Sent
    task_id: str = ""
    why: str = ""


_ORDERS: Mapping[int, Sent] = {
    **dict.fromkeys((429, 503), Sent.REFUSED),
    **dict.fromkeys((400, 422), Sent.REJECTED),
    # the server gave up waiting for us, or says nothing of what it did
    408: Sent.UNKNOWN,
}


def ordered(answer: Answer | Trouble, provider: Provider) -> Order:
    """What an order came to.

    Refused: no task exists, send it again. Unknown: a task may exist and cost money.
    Stop: the key, the money or the declaration is wrong, which the next order would meet too.
    """
    if isinstance(answer, Trouble):
        return Order(sent=Sent.UNKNOWN if answer.sent else Sent.REFUSED, why=answer.text)
    if 200 <= answer.status < 300:
        task_id = _task_id(answer.body, provider)
        if task_id:
            return Order(sent=Sent.ACCEPTED, task_id=task_id)
        return Order(sent=Sent.UNKNOWN, why=f"status {answer.status} without an id")
    default = Sent.UNKNOWN if answer.status >= 500 else Sent.STOP
    return Order(sent=_ORDERS.get(answer.status, default), why=_words(answer, provider))


class Look(StrEnum):
    """What a read says."""

    FINISHED = "finished"
    LOST = "lost"
    AGAIN = "again"


def looked(answer: Answer | Trouble, provider: Provider) -> Look:
    """Whether a task (or batch) has ended. A status alone never says so: a task that
    failed is a 500 with the header that ends it."""
    if isinstance(answer, Trouble):
        return Look.AGAIN
    if provider.kind is ApiKind.TASKS and provider.headers["finished"] in answer.headers:
        return Look.FINISHED
    if answer.status == 404:
        return Look.LOST
    if provider.kind is ApiKind.BATCHES and answer.status == 200:
        state = str(dig(parsed(answer.body), provider.fields["state"]) or "").lower()
        if state in provider.finished | provider.failed:
            return Look.FINISHED
    return Look.AGAIN


class Bought(Struct, frozen=True, kw_only=True):
    """What one URL's task brought: a page for the classifier, or the API's own ``problem``.

    ``cost`` in price units as the API says it (None: it does not), ``mode`` as used.
    """

    page: Page | None = None
    problem: str = ""
    cost: float | None = None
    mode: str | None = None


def bought(body: bytes, provider: Provider, url: str) -> Bought:
    """The result of a finished task. Never raises for what an API may send."""
    data = parsed(body)
    if not isinstance(data, Mapping):
        return Bought(problem="a result that cannot be read")
    if dig(data, provider.fields["success"]) is not True:
        return without_page(data, provider)
    return with_page(data, provider, url)


def without_page(data: Mapping[str, Any], provider: Provider) -> Bought:
    """The API could not do it."""
    said = dig(data, provider.fields["error"])
    if isinstance(said, Mapping):
        said = said.get("message") or said.get("code")
    return Bought(
        problem=plain(str(said), SAID) if said else "no reason is given",
        cost=_amount(dig(data, provider.fields["cost"])),
        mode=_mode(dig(data, provider.fields["mode_used"])),
    )


def with_page(data: Mapping[str, Any], provider: Provider, url: str) -> Bought:
    """The target's answer, as every other one goes to the classifier."""
    names = provider.fields
    status = dig(data, names["status"])
    if not isinstance(status, int) or isinstance(status, bool) or not 100 <= status <= 999:
        return Bought(problem="a result without a status", cost=_amount(dig(data, names["cost"])))
    content = dig(data, names["content"])
    text = content if isinstance(content, str) else "" if content is None else json.dumps(content)
    return Bought(
        page=Page(
            status=status,
            url=url,
            headers=_headers(dig(data, names["headers"])),
            body=text.encode("utf-8", "replace"),
            encoding="utf-8",
        ),
        cost=_amount(dig(data, names["cost"])),
        mode=_mode(dig(data, names["mode_used"])),
    )


def parsed(body: bytes) -> Any:
    """JSON, or None."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def dig(data: Any, path: str) -> Any:
    """``headers.response_headers``: a member of a member; None where there is none."""
    for name in path.split("."):
        if not isinstance(data, Mapping):
            return None
        data = data.get(name)
    return data


def _task_id(body: bytes, provider: Provider) -> str:
    found = dig(parsed(body), provider.fields["id"])
    if isinstance(found, bool) or not isinstance(found, str | int):
        return ""
    return str(found)[:200]


def _words(answer: Answer, provider: Provider) -> str:
    """The status, and what the API says to it."""
    data = parsed(answer.body)
    said = dig(data, provider.fields["error"]) or dig(data, "message") or dig(data, "detail")
    return f"{answer.status}: {plain(str(said), SAID)}" if said else str(answer.status)


def _headers(found: Any) -> Mapping[str, tuple[str, ...]]:
    """The target's headers; a list of pairs is taken, too."""
    pairs: list[Any] = list(found.items()) if isinstance(found, Mapping) else []
    if isinstance(found, list):
        pairs = [pair for pair in found if isinstance(pair, list | tuple) and len(pair) == 2]
    headers: dict[str, tuple[str, ...]] = {}
    for name, value in pairs:
        low = str(name).strip().lower()
        if low and low not in _DROPPED:
            values = value if isinstance(value, list) else [value]
            headers[low] = (*headers.get(low, ()), *(_line(one) for one in values))
    kind = headers.get("content-type", ("",))[0]
    if "charset" in kind.lower() or kind.lower().startswith("text/"):
        # the text was decoded for us, whatever it was on the wire
        headers["content-type"] = (f"{kind.partition(';')[0].strip()}; charset=utf-8",)
    return headers


def _line(value: Any) -> str:
    """A header's value on one line: it must not become two headers."""
    return " ".join(str(value).split())


def _amount(value: Any) -> float | None:
    right = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if right and math.isfinite(value) and value >= 0 else None


def _mode(value: Any) -> str | None:
    return plain(value, 40) if isinstance(value, str) and value else None
