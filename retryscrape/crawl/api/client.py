"""HTTP to the scraping API. Answers and troubles come back as values; no key in any of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import aiohttp

from retryscrape.policy.api_answers import Answer, Trouble
from retryscrape.policy.api_provider import Provider
from retryscrape.policy.redact import plain

#: Seconds: to connect, and for one whole exchange.
CONNECT, TOTAL = 10.0, 120.0
_CHUNK = 1 << 16


class Client:
    """Talks to one API. ``most`` bounds the bytes of an answer."""

    def __init__(self, provider: Provider, key: str, *, most: int) -> None:
        self._provider = provider
        self._headers = {provider.headers["key"]: provider.headers["key_prefix"] + key}
        self._most = most
        self._sessions: list[aiohttp.ClientSession] = []

    async def submit(self, order: Mapping[str, Any]) -> Answer | Trouble:
        """Place an order."""
        url = self._provider.submit_url()
        return await self._exchange(self._session(0).post(url, json=order, allow_redirects=False))

    async def read(self, task_id: str) -> Answer | Trouble:
        """Read the state of a task or batch."""
        url = self._provider.read_url(quote(task_id, safe=""))
        return await self._exchange(self._session(1).get(url, allow_redirects=False))

    async def close(self) -> None:
        """Give all connections back."""
        for session in self._sessions:
            await session.close()

    def _session(self, which: int) -> aiohttp.ClientSession:
        """Orders (0) leave on a new connection each: on a kept one that the server closes at
        that moment nobody could tell whether the order has arrived."""
        if not self._sessions:
            timeout = aiohttp.ClientTimeout(total=TOTAL, sock_connect=CONNECT)
            self._sessions = [
                aiohttp.ClientSession(
                    headers={**self._headers, "User-Agent": "retryscrape"},
                    timeout=timeout,
                    connector=aiohttp.TCPConnector(force_close=fresh),
                )
                for fresh in (True, False)
            ]
        return self._sessions[which]

    async def _exchange(self, request: Any) -> Answer | Trouble:
        """One request. Redirects are not followed: the key is for nobody else."""
        try:
            async with request as response:
                body = await self._body(response)
                headers = {name.lower(): value for name, value in response.headers.items()}
                return Answer(status=response.status, headers=headers, body=body)
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            return Trouble(sent=False, text=_words(error))
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            return Trouble(sent=True, text=_words(error))

    async def _body(self, response: aiohttp.ClientResponse) -> bytes:
        """The body; nothing of one that is too large (it reads as no result)."""
        parts: list[bytes] = []
        size = 0
        async for chunk in response.content.iter_chunked(_CHUNK):
            size += len(chunk)
            if size > self._most:
                return b""
            parts.append(chunk)
        return b"".join(parts)


def _words(error: Exception) -> str:
    text = plain(str(error), 120)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
