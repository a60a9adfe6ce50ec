"""One exit: an address, its credentials, its price; and every form its secrets can take.

No parsing here (proxy_shapes.py, proxies.py) and no health (health.py).
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from dataclasses import dataclass, field, replace
from urllib.parse import quote, quote_plus

#: Filled with a fresh token per attempt or per URL, as gateways document it.
SESSION = "{session}"
# Shorter secrets are only masked together with what surrounds them: masking every "x" of
# a log would leave no log.
_SHORTEST_ALONE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """A proxy as the file gives it. ``repr`` and ``str`` show no secret.

    ``id`` is the name for logs, ledger and stats; ``username`` is None without
    credentials, ``password`` may be empty. ``cost`` is in price units per request,
    ``cost_gb`` per 10**9 bytes. ``sticky`` is ``"url"`` if a session token is kept
    for all attempts of a URL. ``written`` is the userinfo as it stood in the file.
    """

    id: str
    host: str
    port: int
    scheme: str = "http"
    username: str | None = field(default=None, repr=False)
    password: str = field(default="", repr=False)
    written: str = field(default="", repr=False, compare=False)
    tier: str | None = None
    country: str | None = None
    cost: float = 0.0
    cost_gb: float = 0.0
    sticky: str | None = None
    line: int = 0

    def __str__(self) -> str:
        return self.id

    @property
    def address(self) -> str:
        """``host:port``, IPv6 in brackets."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def proxy_url(self) -> str:
        """``http://host:port`` without credentials, for ``meta["proxy"]``."""
        return f"{self.scheme}://{self.address}"

    @property
    def session(self) -> bool:
        """Whether the credentials want a session token."""
        return SESSION in (self.username or "") or SESSION in self.password

    def with_session(self, token: str) -> Exit:
        """The same exit, same id, with the token in its credentials."""
        if not self.session:
            return self
        return replace(
            self,
            username=(self.username or "").replace(SESSION, token),
            password=self.password.replace(SESSION, token),
        )

    def authorization(self) -> bytes | None:
        """The value of Proxy-Authorization (Basic, UTF-8), or None without credentials."""
        if self.username is None:
            return None
        return b"Basic " + b64encode(f"{self.username}:{self.password}".encode())

    def secrets(self) -> frozenset[str]:
        """Every text that must never be printed: as written, decoded, percent-encoded, base64.

        A user name without a password is a token and counts as one.
        """
        if self.username is None:
            return frozenset()
        user, password = self.username, self.password
        secret = password or user
        pairs = {f"{user}:{password}", self.written}
        pairs |= {f"{u}:{p}" for u in _encoded(user) for p in _encoded(password)}
        alone = _encoded(secret) | {self.written.partition(":")[2] if password else self.written}
        base64 = {b64encode(text.encode()).decode() for text in (f"{user}:{password}", secret)}
        found = {text for text in alone | base64 if len(text) >= _SHORTEST_ALONE}
        found |= {text for text in pairs if len(text) >= _SHORTEST_ALONE}
        found |= {f":{text}@" for text in alone if password and text}
        return frozenset(found)


def _encoded(text: str) -> set[str]:
    """A text in the spellings that URL libraries give it."""
    forms = {
        text,
        quote(text),
        quote(text, safe=""),
        quote_plus(text),
        text.encode().decode("latin-1"),
    }
    return forms | {form.lower() for form in forms if "%" in form}


def redacted_name(
    host: str, port: int, username: str | None, password: str, digits: int = 6
) -> str:
    """``http://u***@host:port#3fa2c1``: the digest of the whole entry keeps two users of
    one gateway apart. Attributes do not belong to it: a new price is no new exit.
    """
    shown = f"[{host}]" if ":" in host else host
    whole = "\0".join((host, str(port), "" if username is None else f"{username}\0{password}"))
    digest = hashlib.sha256(whole.encode()).hexdigest()[:digits]
    if username is None:
        return f"http://{shown}:{port}#{digest}"
    # A user name without a password is a token: not even its first letter is shown.
    first = username[:1] if password and username[:1].isascii() and username[:1].isalnum() else ""
    return f"http://{first}***@{shown}:{port}#{digest}"
