"""``scrapy report BATCH``: what came of a batch."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

from msgspec.structs import asdict

from retryscrape.command import LedgerCommand
from retryscrape.ledger.pages import replacing_file
from retryscrape.ledger.reportdata import report_data
from retryscrape.report.text import render


class Command(LedgerCommand):
    """Text for a terminal, JSON, or an HTML page."""

    def syntax(self) -> str:
        return "[options] BATCH"

    def short_desc(self) -> str:
        return "Report on a batch: outcomes, hosts, exits, and each unresolved URL"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument("--json", action="store_true", help="print JSON")
        parser.add_argument("--html", metavar="FILE", help="write one HTML page with charts")

    def only_reads(self, opts: argparse.Namespace) -> bool:
        return True

    def work(self, args: list[str], opts: argparse.Namespace) -> int:
        data = report_data(self.ledger, self.batch(args), now=time.time())
        assert data is not None
        if opts.html:
            from retryscrape.report.html import render_html  # charts take a while to import

            try:
                _write(Path(opts.html), render_html(data))
            except OSError as error:
                return self.complain(f"--html: {opts.html} cannot be written: {error.strerror}.")
        if opts.json:
            print(json.dumps(asdict(data), ensure_ascii=False, indent=1))
        elif opts.html:
            print(f"The report is in {opts.html}")
        else:
            print(render(data), end="")
        return 0


def _write(path: Path, page: str) -> None:
    if path.is_dir():
        raise IsADirectoryError(21, "it is a folder")
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing_file(path) as file:
        file.write(page.encode("utf-8", "backslashreplace"))
