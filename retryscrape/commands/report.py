"""``scrapy report BATCH``: what came of a batch."""

from __future__ import annotations

import argparse
import json

from retryscrape.command import LedgerCommand
from retryscrape.ledger.reportdata import as_json, report_data
from retryscrape.report.text import render


class Command(LedgerCommand):
    """Text for a terminal, or JSON."""

    def syntax(self) -> str:
        return "[options] BATCH"

    def short_desc(self) -> str:
        return "Report on a batch: outcomes, hosts, exits, and each unresolved URL"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument("--json", action="store_true", help="print JSON")

    def work(self, args: list[str], opts: argparse.Namespace) -> int:
        data = report_data(self.ledger, self.batch(args))
        print(json.dumps(as_json(data), ensure_ascii=False, indent=1) if opts.json else render(data))
        return 0
