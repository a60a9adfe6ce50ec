"""A client of the plain rung in a test: built, run on Scrapy's asyncio reactor, closed."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any
from urllib.parse import unquote, urlsplit

from scrapy import Request
from scrapy.http import Response
from scrapy.utils.reactor import install_reactor
from scrapy.utils.test import get_crawler

from retryscrape.crawl.clients import Client, Proxy, make_client

#: Seconds that a whole test may take.
LONG = 30.0


def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run on the loop of Scrapy's reactor, which a process can start only once."""
    install_reactor("twisted.internet.asyncioreactor.AsyncioSelectorReactor")
    from twisted.internet import reactor

    if not reactor.running:
        reactor.startRunning(installSignalHandlers=False)
    return reactor._asyncioEventloop.run_until_complete(asyncio.wait_for(coroutine, LONG))


def with_client(
    name: str, use: Callable[[Fetcher], Awaitable[Any]], settings: dict[str, Any] | None = None
) -> Any:
    """Build a client, use it, close it; what ``use`` gives."""

    async def body() -> Any:
        given = {"DOWNLOAD_VERIFY_CERTIFICATES": True, **(settings or {})}
        crawler = get_crawler(settings_dict=given)
        fetcher = Fetcher(make_client(name, crawler))
        try:
            return await use(fetcher)
        finally:
            await fetcher.client.close()

    return run(body())


def fetch(name: str, request: Request | str, *, settings: Any = None, **how: Any) -> Response:
    """One request with a client of its own."""
    return with_client(name, lambda fetcher: fetcher(request, **how), settings)


class Fetcher:
    """``fetch`` with the arguments that a test does not care about filled in."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def __call__(
        self,
        request: Request | str,
        *,
        proxy: Proxy | str | None = None,
        timeout: float = 10.0,  # noqa: ASYNC109
        fresh: bool = False,
        max_size: int = 0,
        warn_size: int = 0,
    ) -> Response:
        return await self.client.fetch(
            Request(request) if isinstance(request, str) else request,
            proxy=proxy_of(proxy) if isinstance(proxy, str) else proxy,
            timeout=timeout,
            fresh=fresh,
            max_size=max_size,
            warn_size=warn_size,
        )


def proxy_of(url: str) -> Proxy:
    """A proxy's URL with credentials, as the crawl hands it to a client."""
    parts = urlsplit(url)
    authorization = None
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        authorization = b"Basic " + base64.b64encode(pair.encode())
    where = parts.netloc.rpartition("@")[2]
    return Proxy(id=where, url=f"{parts.scheme}://{where}", authorization=authorization)
