"""The webhook: one signed POST when a run has ended, tried again, never waited for too long.

No Scrapy here, and nothing that knows what is in the body.
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import os
import threading
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable
from urllib.parse import urlsplit

from msgspec import Struct

from retryscrape.config import Config

#: Seconds that the close of a run waits for a receiver: 10 at most are promised, and a loaded
#: machine needs some of them.
PATIENCE = 9.0

#: First wait between tries, doubled each time: 5 tries fit into ``PATIENCE``.
_FIRST_WAIT = 0.5
#: Longest time of one try, so that a receiver that hangs is asked a second time.
_TRY = 4.0
#: Client errors that may pass: the receiver is starting or busy. Others stand.
_PASSING = frozenset({408, 425, 429})


class Delivery(Struct, frozen=True, kw_only=True):
    """How it ended: ``problem`` is a part of a sentence, or None when it arrived."""

    tries: int
    problem: str | None = None


def key_of(config: Config) -> str | None:
    """The key of the signature: the setting, else the environment variable of the same name."""
    return config.webhook_secret or os.environ.get("RETRYSCRAPE_WEBHOOK_SECRET") or None


def signature(secret: str, body: bytes) -> str:
    """The value of ``X-Retryscrape-Signature``: HMAC-SHA256 over the exact bytes."""
    return f"sha256={hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()}"


def headers(body: bytes, secret: str | None) -> dict[str, str]:
    """The headers of a delivery; all tries of it carry the same id."""
    made = {
        "Content-Type": "application/json",
        "User-Agent": "retryscrape",
        "X-Retryscrape-Delivery": uuid.uuid4().hex,
    }
    if secret:
        made["X-Retryscrape-Signature"] = signature(secret, body)
    return made


def deliver(url: str, body: bytes, secret: str | None, patience: float = PATIENCE) -> Delivery:
    """Post ``body`` (JSON), with retries; comes back after ``patience`` seconds at the latest.

    Never raises. The thread is a daemon: a name server that hangs holds up nobody.
    """
    said: list[Delivery] = []
    given = headers(body, secret)

    def work() -> None:
        said.append(repeat(lambda left: post(url, body, given, left), patience))

    thread = threading.Thread(target=work, name="webhook", daemon=True)
    try:
        thread.start()
    except RuntimeError:  # Python 3.12 on: no new threads while the interpreter shuts down
        work()
    else:
        thread.join(patience)
    return said[0] if said else Delivery(tries=1, problem=f"no answer within {patience:g} s")


def repeat(
    send: Callable[[float], str | None],
    patience: float,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Delivery:
    """Call ``send`` until it gives None, a lasting refusal, or no time is left.

    ``send`` takes the seconds it has and gives what went wrong; a refusal that
    another try would not change is raised as :class:`Refused`.
    """
    end = clock() + patience
    wait, tries, problem = _FIRST_WAIT, 0, None
    while True:
        tries += 1
        try:
            problem = send(min(_TRY, end - clock()))
        except Refused as refused:
            return Delivery(tries=tries, problem=str(refused))
        if problem is None or end - clock() <= wait:
            return Delivery(tries=tries, problem=problem)
        sleep(wait)
        wait *= 2


class Refused(Exception):
    """The receiver does not want it, and will not want it a second later."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirected POST would become a GET without its body."""

    def redirect_request(self, *args: object, **kwargs: object) -> None:
        return None


def post(url: str, body: bytes, given: dict[str, str], timeout: float) -> str | None:
    """One try; None when it was taken. The URL is in no message: it may carry a token."""
    try:
        request = urllib.request.Request(url, body, given, method="POST")  # noqa: S310 - checked
        with urllib.request.build_opener(_NoRedirect).open(request, timeout=max(0.1, timeout)):
            return None
    except urllib.error.HTTPError as error:
        with error:
            problem = f"HTTP {error.code}"
        if error.code >= 500 or error.code in _PASSING:
            return problem
        raise Refused(problem) from None
    except urllib.error.URLError as error:
        return getattr(error.reason, "strerror", None) or type(error.reason).__name__
    except OSError as error:
        return error.strerror or type(error).__name__
    except (http.client.HTTPException, ValueError) as error:
        return type(error).__name__


def shown(url: str) -> str:
    """The receiver for messages: its host alone, for path and query may be the secret."""
    try:
        host = urlsplit(url).hostname
    except ValueError:
        host = None
    return host or "the receiver"
