"""``scrapy crawl`` with the exit codes of this project.

Extends Scrapy's own and is named in this project's COMMANDS_MODULE only.
"""

from __future__ import annotations

import argparse
import logging
import sys

from scrapy.commands.crawl import Command as ScrapyCrawl
from scrapy.crawler import Crawler
from scrapy.exceptions import UsageError

from retryscrape.crawl.lifeline import watch
from retryscrape.crawl.prepare import prepare
from retryscrape.crawl.runtime import Run, UsageProblem
from retryscrape.crawl.status import RunStatus
from retryscrape.spiders.manifest import ManifestSpider

logger = logging.getLogger("retryscrape")


class Command(ScrapyCrawl):
    """Checks everything before the first request, and ends with 0, 1, 2 or 130."""

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        try:
            self._crawl(args, opts)
        except KeyboardInterrupt:
            # before Scrapy listens to signals: a long list of proxies is read
            print("scrapy crawl: interrupted, nothing was requested", file=sys.stderr)
            self.exitcode = 130

    def _crawl(self, args: list[str], opts: argparse.Namespace) -> None:
        if len(args) != 1:
            raise UsageError(f"scrapy crawl takes one spider, not {len(args)}", print_help=False)
        assert self.crawler_process is not None
        watch()
        try:
            crawler = self._create_crawler(args[0])
        except KeyError:
            raise UsageError(f"Spider not found: {args[0]}", print_help=False) from None
        run = Run.of(crawler)
        try:
            prepare(run, opts.spargs, needs_manifest=_has_ledger(crawler))
        except UsageProblem as problem:
            print(f"scrapy crawl: {problem}", file=sys.stderr)
            self.exitcode = run.exit_code = 2
            RunStatus(run).refuse(str(problem), opts.spargs)
            return
        self.crawler_process.crawl(crawler, **opts.spargs)
        self.crawler_process.start()
        # A run with rows that cannot say how it ended (a fault of ours) is no success.
        failed = self.crawler_process.bootstrap_failed or _has_ledger(crawler)
        self.exitcode = _exit_code(run, failed=failed)


def _has_ledger(crawler: Crawler) -> bool:
    return issubclass(crawler.spidercls, ManifestSpider)


def _exit_code(run: Run, *, failed: bool) -> int:
    """The run's own word; without one (killed twice, or never opened) what is left to say."""
    if run.exit_code is not None:
        return run.exit_code
    run.flush()
    if run.signalled is not None:
        return 130 if run.signalled == 2 else 1
    return 1 if failed else 0
