"""``scrapy report BATCH``: what came of a batch."""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict

from retryscrape.command import LedgerCommand
from retryscrape.ledger.reportdata import report_data
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
        data = report_data(self.ledger, self.batch(args), now=time.time())
        assert data is not None
        print(json.dumps(asdict(data), ensure_ascii=False, indent=1) if opts.json else render(data))
        return 0
