"""``scrapy explain URL``: every attempt of one URL, and why each decision was taken."""

from __future__ import annotations

import argparse

from scrapy.exceptions import UsageError

from retryscrape.command import LedgerCommand
from retryscrape.ledger.explain import explain, story_text
from retryscrape.policy.redact import mask_url


class Command(LedgerCommand):
    """Reads the ledger; asks nothing."""

    def syntax(self) -> str:
        return "[options] URL"

    def short_desc(self) -> str:
        return "Tell every attempt of one URL, and why each decision was taken"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument("--batch", help="only in this batch")

    def only_reads(self, opts: argparse.Namespace) -> bool:
        return True

    def work(self, args: list[str], opts: argparse.Namespace) -> int:
        if len(args) != 1:
            raise UsageError("scrapy explain takes one URL", print_help=False)
        batch = None if opts.batch is None else self.known(opts.batch)
        stories = explain(self.ledger, args[0], batch)
        for story in stories:
            print(story_text(story))
        if not stories:
            print(f"The ledger knows nothing of {mask_url(args[0])}.")
        return 0 if stories else 1
