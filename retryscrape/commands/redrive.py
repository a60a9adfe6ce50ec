"""``scrapy redrive BATCH``: passes over what is missing, until a stop rule holds."""

from __future__ import annotations

import argparse
import sys
from functools import partial

from msgspec.structs import replace
from scrapy.exceptions import UsageError
from scrapy.utils.conf import arglist_to_dict

from retryscrape.command import LedgerCommand, unusable
from retryscrape.config import parse_value
from retryscrape.crawl.api import door
from retryscrape.crawl.arguments import ArgumentError
from retryscrape.crawl.check import Check, PagesElsewhereError
from retryscrape.crawl.passes import Runner
from retryscrape.crawl.redriver import Redriver
from retryscrape.ledger.dialect import LedgerError
from retryscrape.ledger.lock import BatchBusyError, BatchLock
from retryscrape.report.findings import Findings


class Command(LedgerCommand):
    """Each pass is a ``scrapy crawl`` in a process of its own, with the batch's own
    spider and arguments; settings given with -s reach it."""

    def syntax(self) -> str:
        return "[options] BATCH"

    def short_desc(self) -> str:
        return "Crawl what is missing of a batch, in passes, until a stop rule holds"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument(
            "--no-reconcile",
            action="store_true",
            help="do not look at the pages first (they lie on other machines)",
        )
        parser.add_argument(
            "--through",
            metavar="RUNG",
            help="fetch what is missing by this rung alone (api: a scraping API)",
        )
        parser.add_argument("--spider", help="another spider than the batch's")
        parser.add_argument(
            "-a", dest="spargs", action="append", default=[], metavar="NAME=VALUE",
            help="set or replace a spider argument of the batch",
        )  # fmt: skip

    def work(self, args: list[str], opts: argparse.Namespace) -> int:
        batch = self.batch(args)
        try:
            arguments = arglist_to_dict(opts.spargs)
        except ValueError:
            raise UsageError("Invalid -a value, use -a NAME=VALUE", print_help=False) from None
        try:
            through = self._through(opts.through)
            check = self._check(batch, opts.spider, arguments)
            redriver = self._redriver(batch, check, opts, through)
            with BatchLock.take_loop(self.out / batch, batch, job_id="redrive"):
                return self._run(redriver)
        except (ArgumentError, BatchBusyError, PagesElsewhereError) as error:
            return self.complain(str(error))

    def _run(self, redriver: Redriver) -> int:
        """2 as for every command while nothing was requested, afterwards 1: it ended early."""
        try:
            return redriver.run()
        except (LedgerError, OSError) as error:
            if not redriver.asked:
                raise
            self.complain(unusable(error, self.out) if isinstance(error, OSError) else str(error))
            return 1

    def _check(self, batch: str, spider: str | None, arguments: dict[str, str]) -> Check:
        assert self.settings is not None
        check = Check(
            self.ledger, batch, self.out, self.settings, spider=spider, arguments=arguments
        )
        if check.typed.spider is None:
            raise ArgumentError(
                f"The ledger does not know the spider of batch {batch}: --spider NAME says it."
            )
        return check

    def _through(self, rung: str | None) -> list[str]:
        """The settings of passes that take one rung. Raises ArgumentError."""
        if rung is None:
            return []
        try:
            ladder = parse_value("LADDER", rung)
        except ValueError as error:
            raise ArgumentError(f"Option --through {error}.") from None
        config = replace(self.config, ladder=ladder)
        missing = door.complaint(config) if door.wanted(config) else None
        if missing:
            raise ArgumentError(missing.replace("Setting RETRYSCRAPE_LADDER", "Option --through"))
        return [f"RETRYSCRAPE_LADDER={','.join(ladder)}"]

    def _redriver(
        self, batch: str, check: Check, opts: argparse.Namespace, through: list[str]
    ) -> Redriver:
        assert self.settings is not None
        assert check.typed.spider is not None
        return Redriver(
            ledger=self.ledger,
            batch_id=batch,
            config=self.config,
            spider=check.typed.spider,
            arguments=check.typed.arguments,
            settings=[*self._remembered(check), *opts.set, *through, *_log_settings(opts)],
            concurrency=self.settings.getint("CONCURRENT_REQUESTS_PER_DOMAIN"),
            reconcile=_nothing if opts.no_reconcile else partial(_reconcile, check),
            say=_say,
            runner=Runner(),
        )

    def _remembered(self, check: Check) -> list[str]:
        """Settings of the batch's crawl that this project or command line does not have."""
        assert self.settings is not None
        kept = [
            f"{name}={value}"
            for name, value in check.typed.settings.items()
            if self.settings.get(name) is None
        ]
        for setting in kept:
            _say(f"as the batch was crawled: -s {setting}")
        return kept


def _nothing() -> None:
    """For machines that share a ledger and no pages."""


def _reconcile(check: Check) -> None:
    with Findings() as findings:
        tally = check.run(findings)
    found = [f"{flaw} {tally.flaws[flaw]}" for flaw in tally.flaws if tally.flaws[flaw]]
    if tally.restored:
        found.append(f"restored from the page store {tally.restored}")
    if found:
        _say(f"reconciled: {', '.join(found)}")
    for sentence in check.unchecked:
        _say(sentence)


def _log_settings(opts: argparse.Namespace) -> list[str]:
    """Scrapy's global log options, as settings for the passes."""
    settings = []
    if opts.logfile:
        settings.append(f"LOG_FILE={opts.logfile}")
    if opts.loglevel:
        settings.append(f"LOG_LEVEL={opts.loglevel}")
    if opts.nolog:
        settings.append("LOG_ENABLED=0")
    return settings


def _say(line: str) -> None:
    print(f"redrive: {line}", file=sys.stderr, flush=True)
