"""Everything that can be wrong before the first request, checked before it.

``prepare`` is called by the ``crawl`` command (which exits with 2) and again, at
no cost, when the spider opens (for Scrapyd, which uses Scrapy's own command).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from retryscrape.config import unknown_names
from retryscrape.crawl.api import door
from retryscrape.crawl.arguments import ArgumentError, Arguments
from retryscrape.crawl.proxyfile import ProxiesError, read_proxies
from retryscrape.crawl.rungs import reserved_tiers
from retryscrape.crawl.runtime import Run, UsageProblem
from retryscrape.crawl.webhook import key_of
from retryscrape.ledger.dialect import passwords
from retryscrape.manifest.read import ManifestError, open_manifest, read_rows
from retryscrape.policy.exits import Pool, PoolRules

logger = logging.getLogger("retryscrape")


def prepare(run: Run, kwargs: Mapping[str, Any], *, needs_manifest: bool) -> None:
    """Check settings, proxies and (for a ``ManifestSpider``) arguments and manifest.

    Raises :class:`UsageProblem` with one sentence. Fills ``run.pool`` and
    ``run.arguments``.
    """
    if run.problem:
        raise UsageProblem(run.problem)
    run.secrets.update(word for word in (key_of(run.config), run.config.webhook) if word)
    run.secrets.update(passwords(run.config.ledger) if run.config.ledger else ())
    run.secrets.update(door.secrets_of(run.config))
    missing = door.complaint(run.config) if door.wanted(run.config) else None
    if missing:
        raise UsageProblem(missing)
    if run.arguments is None:  # the command has looked already, then
        for sentence in unknown_names(run.crawler.settings):
            logger.warning("%s", sentence)
    if run.pool is None and run.config.proxies is not None:
        run.pool = _pool(run, run.config.proxies)
        complaint = run.their_browser.complaint(len(run.pool))
        if complaint:
            raise UsageProblem(complaint)
        for sentence in run.spending.never_spent(
            {one.exit.tier for one in run.pool.members(None, None)}
        ):
            logger.warning("%s", sentence)
        run.hosts.rules = replace(run.hosts.rules, exits_needed=min(2, len(run.pool)))
    run.rungs.look(run.pool, run.clock())
    if not run.rungs.ladder.available:
        why = "; ".join(dict.fromkeys(run.rungs.lost.values()))
        raise UsageProblem(f"Setting RETRYSCRAPE_LADDER: no rung can be used: {why}.")
    if not needs_manifest or run.arguments is not None:
        return
    try:
        arguments = Arguments.from_kwargs(kwargs)
        _check_manifest(arguments)
    except (ArgumentError, ManifestError) as error:
        raise UsageProblem(str(error)) from None
    for name in arguments.unknown:
        if not hasattr(run.crawler.spidercls, name):
            logger.warning("Argument %s is not known; it is set on the spider.", name)
    run.arguments = arguments
    if arguments.job:
        run.job_id = arguments.job


def _check_manifest(arguments: Arguments) -> None:
    # a pipe can be read but once; a remote manifest is looked at when it is read
    if arguments.manifest and _is_plain_file(arguments.manifest):
        with open_manifest(arguments.manifest) as stream:
            read_rows(stream, name=arguments.manifest, url_field=arguments.url_field)


def _pool(run: Run, given: str | tuple[str, ...]) -> Pool:
    try:
        proxies = read_proxies(given)
    except ProxiesError as error:
        raise UsageProblem(f"Setting RETRYSCRAPE_PROXIES: {error}") from None
    for complaint in proxies.complaints():
        logger.warning("%s", complaint)
    if not proxies.exits:
        raise UsageProblem(f"Setting RETRYSCRAPE_PROXIES: {proxies.summary()}; nothing is usable.")
    logger.info("%s", proxies.summary())
    run.secrets.update(word for exit_ in proxies.exits for word in exit_.secrets())
    config = run.config
    rules = PoolRules(
        concurrency=config.exit_concurrency,
        interval=config.exit_interval,
        reserved=reserved_tiers(config.ladder),
    )
    return Pool(proxies.exits, rng=run.rng, rules=rules)


def _is_plain_file(manifest: str) -> bool:
    """Whether opening it takes nothing away. What does not exist counts: opening says so."""
    path = Path(manifest).expanduser()
    return "://" not in manifest and manifest != "-" and not path.is_fifo()
