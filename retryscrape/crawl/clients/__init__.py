"""The HTTP clients of the plain rung, by name. What a client is stands in :mod:`.base`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from scrapy.crawler import Crawler
from scrapy.utils.asyncio import is_asyncio_available

from retryscrape.config import ConfigError
from retryscrape.crawl.clients.base import Client, Proxy

__all__ = ["CLIENTS", "Client", "Proxy", "make_client"]


def _http11(crawler: Crawler) -> Client:
    from retryscrape.crawl.clients.http11 import Http11Client

    return Http11Client(crawler)


def _asyncio(crawler: Crawler) -> Client:
    from retryscrape.crawl.clients.asyncio_client import AsyncioClient

    return AsyncioClient(crawler)


def _auto(crawler: Crawler) -> Client:
    """The fastest that can run here (``benchmarks/clients.py``)."""
    return _asyncio(crawler) if is_asyncio_available() else _http11(crawler)


#: What ``RETRYSCRAPE_HTTP_CLIENT`` may say.
CLIENTS: Mapping[str, Callable[[Crawler], Client]] = {
    "auto": _auto,
    "asyncio": _asyncio,
    "http11": _http11,
}


def make_client(name: str, crawler: Crawler) -> Client:
    """The client that ``RETRYSCRAPE_HTTP_CLIENT`` names.

    Needs a running loop or installed reactor. Raises
    :class:`~retryscrape.config.ConfigError` for a name that does not exist.
    """
    try:
        make = CLIENTS[name]
    except KeyError:
        known = ", ".join(sorted(CLIENTS))
        raise ConfigError(
            f"Setting RETRYSCRAPE_HTTP_CLIENT must be one of {known} (it is {name!r})."
        ) from None
    return make(crawler)
