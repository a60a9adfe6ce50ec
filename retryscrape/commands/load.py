"""``scrapy load MANIFEST``: fills a batch without crawling; workers drain it."""

from __future__ import annotations

import argparse
from shlex import quote
from typing import Any, ClassVar

from scrapy.exceptions import UsageError
from scrapy.utils.conf import arglist_to_dict

from retryscrape.command import LedgerCommand
from retryscrape.crawl.arguments import ArgumentError, Arguments
from retryscrape.crawl.loading import Load
from retryscrape.crawl.runtime import new_job_id
from retryscrape.ledger.lock import BatchBusyError
from retryscrape.ledger.times import iso
from retryscrape.manifest.read import ManifestError


class Command(LedgerCommand):
    """Lines become rows, nothing is asked for. Twice does no harm."""

    create: ClassVar[bool] = True

    def syntax(self) -> str:
        return "[options] MANIFEST"

    def short_desc(self) -> str:
        return "Fill a batch from a manifest without crawling, for workers (-a work=ledger)"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument(
            "-a", dest="spargs", action="append", default=[], metavar="NAME=VALUE",
            help="batch=NAME, url_field=..., default_scheme=..., include_permanent=1",
        )  # fmt: skip

    def work(self, args: list[str], opts: argparse.Namespace) -> int:
        try:
            given = arglist_to_dict(opts.spargs)
        except ValueError:
            raise UsageError("Invalid -a value, use -a NAME=VALUE", print_help=False) from None
        if len(args) > 1 or (not args and not {"urls", "manifest"} & given.keys()):
            raise UsageError("give one manifest", print_help=False)
        if args:
            given["manifest"] = args[0]
        try:
            load = self._load(given)
        except (ArgumentError, ManifestError, BatchBusyError) as error:
            return self.complain(str(error))
        for batch, tally in load.tallies.items():
            print(
                f"Batch {batch}: {tally['new']} rows new, {tally['duplicates']} duplicate lines,"
                f" {tally['rejected']} rejected. Any number of workers:"
                f" scrapy crawl pages -a {quote(f'batch={batch}')} -a work=ledger"
            )
        return 0

    def _load(self, given: dict[str, Any]) -> Load:
        arguments = Arguments.from_kwargs(given)
        job_id = f"load-{new_job_id()}"
        load = Load(self.ledger, self.out, arguments, job_id)
        load.run()
        for batch in load.tallies:
            # what was typed, for the workers; no spider: it says nothing of good pages
            at = iso(load.clock())
            name = job_id if len(load.tallies) == 1 else f"{job_id}-{batch}"
            self.ledger.start_job(name, batch, at, arguments=given)
            self.ledger.finish_job(name, at, "loaded", {})
        return load
