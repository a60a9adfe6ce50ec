"""``scrapy demo``: a hostile web on loopback, a crawl, a re-drive and the report.

No network is needed: the sites, their faults and the proxies are all here.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import ClassVar

from scrapy.commands import ScrapyCommand

from retryscrape.hostile.manifest import DEMO_PROXIES, DEMO_TIMEOUT, text
from retryscrape.hostile.process import WebHandle, hostile_process

#: What is below OUT that the demo may remove before it begins.
_MARK = ".retryscrape-demo"


class Command(ScrapyCommand):
    """Shows what the tool does, on everything that goes wrong in the field."""

    requires_project = True
    requires_crawler_process = False
    default_settings: ClassVar[dict[str, object]] = {"LOG_ENABLED": False}

    def short_desc(self) -> str:
        return "Crawl a hostile web on loopback, re-drive the failures, print the report"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument("--folder", default="out/demo", help="where to (default out/demo)")

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        folder = Path(opts.folder)
        if not _fresh(folder):
            sentence = f"scrapy demo: {folder} exists and is not the demo's; give --folder"
            print(sentence, file=sys.stderr)
            self.exitcode = 2
            return
        with hostile_process() as web:
            self.exitcode = _play(folder, web)


def _fresh(folder: Path) -> bool:
    """An empty folder with our mark in it; false if something else is there."""
    if folder.exists():
        if not (folder / _MARK).exists() and any(folder.iterdir()):
            return False
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    (folder / _MARK).touch()
    return True


def _play(folder: Path, web: WebHandle) -> int:
    proxies = folder / "proxies.txt"
    proxies.write_text(web.proxies(*DEMO_PROXIES), encoding="utf-8")
    manifest = Path("urls/demo.txt")
    if not manifest.exists():
        manifest = folder / "demo.txt"
        manifest.write_text(text(), encoding="utf-8")
    settings = {
        "RETRYSCRAPE_OUT": str(folder),
        "RETRYSCRAPE_PROXIES": str(proxies),
        "DOWNLOAD_TIMEOUT": str(DEMO_TIMEOUT),
        "LOG_LEVEL": "INFO",
    }
    feed = folder / "demo" / "failures.jsonl"
    _say(f"A hostile web is up: {len(DEMO_PROXIES)} proxies, half of them broken. First pass:")
    first = _scrapy(web, settings, "crawl", "pages", "-a", f"manifest={manifest}")
    _say("The same again, only what is missing (the failures feed is the manifest):")
    second = _scrapy(web, settings, "crawl", "pages", "-a", f"manifest={feed}")
    _say("The report:")
    reported = _scrapy(web, settings, "report", "demo")
    _say(f"Look at {folder / 'demo'}: pages/, index.tsv, failures.jsonl, report.json")
    expected = first in (0, 1) and second in (0, 1) and reported == 0
    return 0 if expected else 1


def _scrapy(web: WebHandle, settings: dict[str, str], command: str, *words: str) -> int:
    """Run a command as one would type it; only our own lines of its log are shown."""
    typed = [command, *words]
    shown = " ".join(typed)
    print(f"$ scrapy {shown} -s RETRYSCRAPE_PROXIES=... -s RETRYSCRAPE_OUT=...", flush=True)
    options = [word for name, value in settings.items() for word in ("-s", f"{name}={value}")]
    process = subprocess.Popen(  # noqa: S603 - our own command
        [sys.executable, "-m", "scrapy", *typed, *options],
        env={**os.environ, "SSL_CERT_FILE": web.ca_file},
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    )
    assert process.stderr is not None
    for line in process.stderr:
        if "[retryscrape]" in line or "Traceback" in line or "scrapy crawl:" in line:
            print(line.rstrip().replace(" [retryscrape] INFO:", ""), flush=True)
    return process.wait()


def _say(text: str) -> None:
    print(f"\n== {text}", flush=True)
