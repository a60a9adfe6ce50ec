"""``scrapy proxies check FILE`` and ``scrapy proxies status``."""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import sys
import time

from msgspec.structs import asdict
from rich.console import Console
from rich.progress import Progress
from scrapy import Spider
from scrapy.crawler import Crawler
from scrapy.exceptions import UsageError

from retryscrape.command import LedgerCommand
from retryscrape.config import Config, ConfigError
from retryscrape.crawl.proxycheck import Checked, check_proxies
from retryscrape.crawl.proxyfile import ProxiesError, read_proxies
from retryscrape.policy.proxies import ProxyList
from retryscrape.report.proxies import exits_by_host, render_checked, render_exits


class Command(LedgerCommand):
    """Exit code of ``check``: 0 all lines are usable, 1 some are not, 2 usage."""

    requires_project = False

    def syntax(self) -> str:
        return "[options] check [FILE] | status"

    def short_desc(self) -> str:
        return "Try each line of a proxies file, or show what the ledger knows of the exits"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument("--json", action="store_true", help="print JSON")
        check = parser.add_argument_group("check")
        check.add_argument(
            "--url",
            help="page to fetch through each proxy, best one that says who asked "
            "(without it proxies are only connected to)",
        )
        check.add_argument("--timeout", default="15", help="seconds for each proxy (15)")
        check.add_argument("--at-once", default="32", help="proxies tried side by side (32)")
        status = parser.add_argument_group("status")
        status.add_argument("--host", help="only this host")

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        if args[:1] == ["status"] and len(args) == 1:
            super().run(args, opts)
        elif args[:1] == ["check"] and len(args) <= 2:
            try:
                self.exitcode = self._check(args[1:], opts)
            except (ConfigError, ProxiesError) as error:
                self.exitcode = self.complain(f"proxies check: {error}")
        else:
            raise UsageError(
                "scrapy proxies takes 'check FILE' or 'status'; -h lists the options",
                print_help=False,
            )

    # --- check -----------------------------------------------------------------

    def _check(self, args: list[str], opts: argparse.Namespace) -> int:
        assert self.settings is not None
        given = args[0] if args else Config.from_settings(self.settings).proxies
        if given is None:
            raise ConfigError("give a file, or set RETRYSCRAPE_PROXIES.")
        if opts.url is not None and not opts.url.lower().startswith(("http://", "https://")):
            raise ConfigError(f"Option --url must be an http or https URL (it is {opts.url!r}).")
        seconds = _positive("--timeout", opts.timeout)
        at_once = max(1, int(_positive("--at-once", opts.at_once)))
        proxies = read_proxies(given)
        if not proxies.exits and not proxies.problems:
            raise ConfigError(f"{proxies.source} names no proxy.")
        rows = asyncio.run(self._try(proxies, opts.url, seconds, at_once))
        if opts.json:
            print(json.dumps([asdict(row) for row in rows], ensure_ascii=False, indent=1))
        else:
            print(render_checked(rows, opts.url, proxies.duplicates))
        return 0 if all(row.usable for row in rows) else 1

    async def _try(
        self, proxies: ProxyList, url: str | None, seconds: float, at_once: int
    ) -> list[Checked]:
        from retryscrape.crawl.clients.asyncio_client import AsyncioClient

        client = AsyncioClient(Crawler(Spider, self.settings))
        with Progress(console=Console(stderr=True), disable=not sys.stderr.isatty()) as bar:
            task = bar.add_task("trying", total=len(proxies.exits))
            try:
                return await check_proxies(
                    proxies,
                    client,
                    url,
                    timeout=seconds,
                    at_once=at_once,
                    told=lambda _: bar.advance(task),
                )
            finally:
                await client.close()

    # --- status ----------------------------------------------------------------

    def only_reads(self, opts: argparse.Namespace) -> bool:
        return True

    def work(self, args: list[str], opts: argparse.Namespace) -> int:
        data = exits_by_host(self.ledger.load_exits(), now=time.time(), host=opts.host)
        print(json.dumps(data, ensure_ascii=False, indent=1) if opts.json else render_exits(data))
        return 0


def _positive(name: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise ConfigError(f"Option {name} must be a number above 0 (it is {text!r}).")
    return number
