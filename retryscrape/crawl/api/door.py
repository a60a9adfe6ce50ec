"""The scraping API at the door: a rung without declaration or key ends the run before any request."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from retryscrape.crawl.runtime import Run, UsageProblem
from retryscrape.policy.ladder import parse_rung

if TYPE_CHECKING:
    from retryscrape.config import Config


def key_of(config: Config) -> str | None:
    """The API's key: the setting, else the environment variable of the same name."""
    key = config.api_key or os.environ.get("RETRYSCRAPE_API_KEY", "").strip()
    return key or None


def wanted(config: Config) -> bool:
    """Whether a rung of the ladder is a scraping API."""
    return any(parse_rung(rung).base == "api" for rung in config.ladder)


def complaint(config: Config) -> str | None:
    """What is missing, in one sentence, or None."""
    if config.api is None:
        return (
            "Setting RETRYSCRAPE_LADDER has the rung api, and RETRYSCRAPE_API does not say which: "
            'the least is {"kind": "tasks" or "batches", "base": URL}.'
        )
    key = key_of(config)
    if key is None:
        return (
            "Setting RETRYSCRAPE_LADDER has the rung api, and there is no key: "
            "the environment variable RETRYSCRAPE_API_KEY holds it."
        )
    if not key.isascii() or not key.isprintable() or " " in key:
        return "Setting RETRYSCRAPE_API_KEY has characters that no header can carry."
    return None


def secrets_of(config: Config) -> set[str]:
    """What no output may show."""
    key, hook = key_of(config), config.api.webhook if config.api else None
    found: set[str] = set()
    if key:
        from retryscrape.policy.api_hook import secret_of

        found = {key, secret_of(key)}
    return found | ({hook.secret} if hook and hook.secret else set())


async def open_api(run: Run) -> None:
    """Make the rung ready, if the ladder has it. Raises UsageProblem.

    Without a ledger it is taken off the ladder: nothing would know what was paid for.
    """
    if run.config.api is None or not wanted(run.config):
        return
    if run.books is None:
        why = "only rows of a ledger are bought (ManifestSpider, retryscrape_batch)"
        run.rungs.without("api", why)
        if not run.rungs.ladder.available:
            raise UsageProblem(f"Setting RETRYSCRAPE_LADDER: no rung can be used: {why}.")
        return
    # aiohttp is imported by those who buy, and by nobody else
    from retryscrape.crawl.api.rung import Api

    run.api = Api(run, run.config.api, key_of(run.config) or "")
    await run.api.start()
