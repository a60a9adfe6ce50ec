"""A database that cannot be reached is asked again, for RETRYSCRAPE_LEDGER_WAIT seconds.

For what a run asks of its ledger itself; results have the writer's own patience.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from retryscrape.crawl.runtime import Run
from retryscrape.ledger.dialect import LedgerError
from retryscrape.ledger.patience import Patience

T = TypeVar("T")


async def patiently(run: Run, call: Callable[..., T], *args: Any) -> T:
    """Call in a thread, again and again while that can help and the run goes on."""
    patience = Patience(run.config.ledger_wait)
    while True:
        try:
            return await asyncio.to_thread(call, *args)
        except LedgerError as error:
            wait = patience.wait_after(error)
            if run.stop_reason is not None:
                raise
        await asyncio.sleep(wait)
