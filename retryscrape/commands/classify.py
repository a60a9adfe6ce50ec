"""``scrapy classify FILE|URL``: what the classifier says, and on what evidence."""

from __future__ import annotations

import argparse
import sys
from typing import ClassVar

from scrapy.commands import ScrapyCommand
from scrapy.exceptions import UsageError

from retryscrape.crawl.adapt import verdict_of
from retryscrape.crawl.arguments import ArgumentError, Arguments
from retryscrape.crawl.faults import FetchError
from retryscrape.crawl.saved import SavedPageError, fetch_page, load_page, render_page
from retryscrape.policy.classify import classify, classify_redirect
from retryscrape.policy.outcomes import Checks, Verdict


class Command(ScrapyCommand):
    """A saved page, a JSON case (status, headers, body), or a live URL."""

    requires_project = False
    requires_crawler_process = False
    default_settings: ClassVar[dict[str, object]] = {"LOG_ENABLED": False}

    def syntax(self) -> str:
        return "[options] FILE|URL|-"

    def short_desc(self) -> str:
        return "Say what the classifier makes of a saved or live page, and on what evidence"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument("--status", type=int, help="status of a saved page (default 200)")
        parser.add_argument(
            "--header",
            action="append",
            default=[],
            metavar="'NAME: VALUE'",
            help="header of a saved page (may be repeated)",
        )
        parser.add_argument("--url", help="URL that a saved page was fetched from")
        parser.add_argument("--min-text", default="500", help="visible characters (default 500)")
        parser.add_argument(
            "--render", action="store_true", help="render a live URL too: before and after"
        )
        parser.add_argument("--require", help="CSS selector that a good page must match")
        parser.add_argument("--final-host", help="host that a good page must end on")

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        if len(args) != 1:
            raise UsageError("scrapy classify takes one file or URL", print_help=False)
        assert self.settings is not None
        try:
            checks = Arguments.from_kwargs(
                {
                    "urls": "",
                    "batch": "classify",
                    "min_text": opts.min_text,
                    "require": opts.require,
                    "final_host": opts.final_host,
                }
            ).checks
            if args[0].lower().startswith(("http://", "https://")):
                page = fetch_page(args[0], self.settings)
            else:
                page = load_page(args[0], status=opts.status, headers=opts.header, url=opts.url)
        except (ArgumentError, SavedPageError) as error:
            print(f"scrapy classify: {error}", file=sys.stderr)
            self.exitcode = 2
            return
        except FetchError as fault:
            self._show(None, verdict_of(fault, proxied=False))
            return
        wall = classify_redirect(page) if 300 <= page.status < 400 else None
        self._show(page.status, wall or classify(page, checks))
        if opts.render:
            self._render(args[0], checks)

    def _render(self, url: str, checks: Checks) -> None:
        """The verdict on what a browser makes of it."""
        assert self.settings is not None
        if not url.lower().startswith(("http://", "https://")):
            raise UsageError("--render needs a URL, not a file", print_help=False)
        print("\nrendered:")
        try:
            page = render_page(url, self.settings, checks)
        except SavedPageError as error:
            print(f"scrapy classify: {error}", file=sys.stderr)
            self.exitcode = 1
            return
        self._show(page.status, classify(page, checks))

    @staticmethod
    def _show(status: int | None, verdict: Verdict) -> None:
        rows = {
            "outcome": verdict.outcome,
            "vendor": verdict.vendor,
            "kind": verdict.kind,
            "evidence": verdict.evidence,
            "reason": verdict.reason,
            "code": status,
        }
        for name, value in rows.items():
            print(f"{name:9} {'-' if value is None else value}")
