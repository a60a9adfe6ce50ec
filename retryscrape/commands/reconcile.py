"""``scrapy reconcile BATCH``: the manifest against the ledger against the page store."""

from __future__ import annotations

import argparse

from scrapy.exceptions import UsageError
from scrapy.utils.conf import arglist_to_dict

from retryscrape.command import LedgerCommand
from retryscrape.crawl.arguments import ArgumentError
from retryscrape.crawl.check import Check, PagesElsewhereError
from retryscrape.ledger.lock import BatchBusyError
from retryscrape.report.findings import Findings


class Command(LedgerCommand):
    """Finds what is lost or broken, and puts it back on the worklist; asks nothing."""

    def syntax(self) -> str:
        return "[options] BATCH"

    def short_desc(self) -> str:
        return "Check a batch's ledger against its manifest and its pages, and repair it"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument("--json", action="store_true", help="print JSON, every row listed")
        parser.add_argument("--dry-run", action="store_true", help="only look, change nothing")
        parser.add_argument(
            "--recheck",
            action="store_true",
            help="check the content of every page, not only of those that other checks let in",
        )
        parser.add_argument(
            "--force", action="store_true", help="go on although not one page is on this disk"
        )
        parser.add_argument("--spider", help="the spider whose validate() counts")
        parser.add_argument(
            "-a", dest="spargs", action="append", default=[], metavar="NAME=VALUE",
            help="check by this spider argument (require=..., min_text=...)",
        )  # fmt: skip

    def work(self, args: list[str], opts: argparse.Namespace) -> int:
        assert self.settings is not None
        batch = self.batch(args)
        try:
            arguments = arglist_to_dict(opts.spargs)
        except ValueError:
            raise UsageError("Invalid -a value, use -a NAME=VALUE", print_help=False) from None
        check = Check(
            self.ledger, batch, self.out, self.settings,
            spider=opts.spider, arguments=arguments, recheck=opts.recheck,
            repair=not opts.dry_run, force=opts.force,
        )  # fmt: skip
        with Findings() as findings:
            try:
                tally = check.run(findings)
            except (ArgumentError, BatchBusyError, PagesElsewhereError) as error:
                return self.complain(str(error))
            print_ = findings.as_json if opts.json else findings.as_text
            for piece in print_(batch, tally, check.unchecked, repair=not opts.dry_run):
                print(piece)
        return 0 if tally.clean else 1
