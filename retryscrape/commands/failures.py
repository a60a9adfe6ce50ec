"""``scrapy failures BATCH``: writes the failures feed again from the ledger."""

from __future__ import annotations

import argparse

from retryscrape.command import LedgerCommand
from retryscrape.ledger.feed import write_failures


class Command(LedgerCommand):
    """At any time, also while a crawl is running."""

    def syntax(self) -> str:
        return "[options] BATCH"

    def short_desc(self) -> str:
        return "Write the failures feed of a batch again from the ledger"

    def only_reads(self, opts: argparse.Namespace) -> bool:
        return True

    def work(self, args: list[str], opts: argparse.Namespace) -> int:
        batch = self.batch(args)
        folder = self.out / batch
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "failures.jsonl"
        rows = write_failures(self.ledger, batch, path)
        print(f"{rows} rows written to {path}")
        return 0
