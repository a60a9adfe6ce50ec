"""Scrapy's signals, told at the cost of those who listen.

Engine, downloader and scraper send some ten signals a page, most of them to nobody; what
listens is a plain function nearly always.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from typing import Any

from pydispatch import dispatcher
from pydispatch.dispatcher import getAllReceivers, liveReceivers
from pydispatch.robustapply import robustApply
from scrapy.exceptions import StopDownload
from scrapy.signalmanager import SignalManager

logger = logging.getLogger("retryscrape")


class DirectSignals(SignalManager):
    """Calls listeners that are plain functions without a task for each, and is done at once
    where nobody listens: for most signals, several times a page."""

    def send_catch_log(self, signal: Any, **kwargs: Any) -> list[tuple[Any, Any]]:
        return super().send_catch_log(signal, **kwargs) if self.heard(signal) else []

    def heard(self, signal: Any) -> bool:
        """Whether somebody listens."""
        senders = (id(self.sender), id(dispatcher.Any))
        known = (dispatcher.connections.get(sender, ()) for sender in senders)
        return any(signal in heard or dispatcher.Any in heard for heard in known)

    async def send_catch_log_async(self, signal: Any, **kwargs: Any) -> list[tuple[Any, Any]]:
        kwargs.setdefault("sender", self.sender)
        quiet = kwargs.pop("dont_log", ())
        meant = (*quiet, StopDownload) if isinstance(quiet, tuple) else (quiet, StopDownload)
        told: list[tuple[Any, Any]] = []
        for receiver in liveReceivers(getAllReceivers(kwargs["sender"], signal)):
            try:
                result = robustApply(receiver, signal=signal, **kwargs)
            except Exception as error:
                result = _caught(receiver, error, meant)
            told.append((receiver, result))
        if any(isinstance(result, Awaitable) for _, result in told):
            ends = await asyncio.gather(*(_end_of(*one, meant) for one in told))
            return [(receiver, end) for (receiver, _), end in zip(told, ends, strict=True)]
        return told


async def _end_of(receiver: Any, result: Any, meant: tuple[type[Exception], ...]) -> Any:
    if not isinstance(result, Awaitable):
        return result
    try:
        return await result
    except Exception as error:
        return _caught(receiver, error, meant)


def _caught(receiver: Any, error: Exception, meant: tuple[type[Exception], ...]) -> Exception:
    """An error is the listener's answer. ``meant`` are those that are no faults (CloseSpider)."""
    if not isinstance(error, meant):
        logger.error("Error caught on signal handler: %s", receiver, exc_info=error)
    return error
