"""``scrapy replay BATCH``: today's rules over stored attempts and pages."""

from __future__ import annotations

import argparse

from scrapy.exceptions import UsageError
from scrapy.utils.conf import arglist_to_dict

from retryscrape.command import LedgerCommand
from retryscrape.crawl.arguments import ArgumentError
from retryscrape.crawl.replay import replay
from retryscrape.ledger.lock import BatchBusyError
from retryscrape.report.changes import Changes


class Command(LedgerCommand):
    """Says what would now end otherwise; asks nothing."""

    def syntax(self) -> str:
        return "[options] BATCH"

    def short_desc(self) -> str:
        return "Say which rows of a batch would end otherwise by today's rules"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument("--apply", action="store_true", help="put them back on the worklist")
        parser.add_argument("--json", action="store_true", help="print JSON, every row listed")
        parser.add_argument("--spider", help="the spider whose validate() counts")
        parser.add_argument(
            "-a", dest="spargs", action="append", default=[], metavar="NAME=VALUE",
            help="check by this spider argument (require=..., min_text=...)",
        )  # fmt: skip

    def only_reads(self, opts: argparse.Namespace) -> bool:
        return not opts.apply

    def work(self, args: list[str], opts: argparse.Namespace) -> int:
        assert self.settings is not None
        batch = self.batch(args)
        try:
            arguments = arglist_to_dict(opts.spargs)
        except ValueError:
            raise UsageError("Invalid -a value, use -a NAME=VALUE", print_help=False) from None
        with Changes() as changes:
            try:
                tally = replay(
                    self.ledger, batch, self.settings, changed=changes.add,
                    spider=opts.spider, arguments=arguments, apply=opts.apply,
                )  # fmt: skip
            except (ArgumentError, BatchBusyError) as error:
                return self.complain(str(error))
            print_ = changes.as_json if opts.json else changes.as_text
            for piece in print_(batch, tally, apply=opts.apply):
                print(piece)
        return 1 if tally.changes else 0
