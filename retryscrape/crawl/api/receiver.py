"""The receiver of events: an HTTP server on 127.0.0.1, behind the user's reverse proxy.

It verifies, answers at once, and does everything else in the background. Nothing that is
sent here can do harm: a forged event is a 401, all others only lead to a look at the API.
"""

from __future__ import annotations

import asyncio
import logging
import re

from aiohttp import web

from retryscrape.crawl.api.orders import Orders
from retryscrape.crawl.api.reading import Reading
from retryscrape.crawl.faults import FetchError
from retryscrape.crawl.runtime import Run, UsageProblem
from retryscrape.crawl.tasks import kept
from retryscrape.policy.api_hook import MOST, Event, event_of, genuine, secret_of
from retryscrape.policy.api_provider import Hook, Provider

logger = logging.getLogger("retryscrape")

#: Seconds for a sender to send all of its event.
PATIENCE = 10.0
#: The last part of the path, where it is the name of an order of ours.
_REF = re.compile(r"(?:^|/)([0-9a-f]{32})/?$")


class Receiver:
    """Takes in the events of one run."""

    def __init__(
        self,
        run: Run,
        provider: Provider,
        hook: Hook,
        orders: Orders,
        reading: Reading,
        secret: str,
    ) -> None:
        self.run, self.provider, self.hook = run, provider, hook
        self._orders, self._reading, self._secret = orders, reading, secret
        self._runner: web.AppRunner | None = None
        self._works: set[asyncio.Task[None]] = set()

    @classmethod
    def of(
        cls, run: Run, provider: Provider, orders: Orders, reading: Reading, key: str
    ) -> Receiver | None:
        """The receiver, if the declaration names one."""
        hook = provider.webhook
        if hook is None:
            return None
        return cls(run, provider, hook, orders, reading, hook.secret or secret_of(key))

    async def start(self) -> None:
        """Begin to listen. Raises UsageProblem if the port cannot be had."""
        app = web.Application(client_max_size=MOST)
        app.router.add_route("*", "/{tail:.*}", self._take)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, "127.0.0.1", self.hook.port).start()
        except OSError as error:
            await self._runner.cleanup()
            raise UsageProblem(
                f"Setting RETRYSCRAPE_API: nothing can listen on port {self.hook.port} of "
                f"127.0.0.1 for its webhook: {error.strerror}."
            ) from None

    async def close(self) -> None:
        """Stop listening; what was taken in is remembered."""
        if self._runner is not None:
            await self._runner.cleanup()
        if self._works:
            await asyncio.wait(self._works, timeout=5.0)

    async def _take(self, request: web.Request) -> web.Response:
        """One delivery."""
        if request.method != "POST":
            return web.Response(status=405, headers={"Allow": "POST"})
        signature = request.headers.get(self.hook.header)
        try:
            async with asyncio.timeout(PATIENCE):
                body = await request.read()
        except TimeoutError:
            return web.Response(status=408)
        if not genuine(self._secret, body, signature):
            self._count("forged")
            return web.Response(status=401)
        event = event_of(body, self.provider)
        if event is None:
            self._count("unreadable")
            return web.Response(status=400)
        found = _REF.search(request.path)
        kept(self._remember(event, found[1] if found else ""), self._works)
        return web.Response(status=202)

    async def _remember(self, event: Event, ref: str) -> None:
        """Once each, in the ledger; then whoever waits for it looks."""
        try:
            new = await self._orders.event(ref, event.task_id, event.name)
        except FetchError:
            return  # the ledger failed, and the run stops with a sentence
        if not new:
            self._count("repeated")
        elif self._reading.wake(event.task_id):
            self._count("taken")
        else:
            self._count("early_or_late")

    def _count(self, what: str) -> None:
        self.run.crawler.stats.inc_value(f"retryscrape/api/events/{what}")
