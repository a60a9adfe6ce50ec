"""The books of a run: which batch a manifest belongs to."""

from __future__ import annotations

import time
from pathlib import Path

from scrapy.utils.test import get_crawler

from retryscrape.crawl.arguments import Arguments
from retryscrape.crawl.books import Books
from retryscrape.crawl.runtime import Run
from retryscrape.spiders.pages import PagesSpider


def test_an_empty_failures_feed_belongs_to_the_batch_in_whose_folder_it_lies(
    tmp_path: Path,
) -> None:
    """A nightly re-drive goes on when nothing is left, and begins no batch called failures."""
    books = Books(Run.of(get_crawler(PagesSpider, {"RETRYSCRAPE_OUT": str(tmp_path / "out")})))
    books.ledger.open_batch("shop", "m.txt", None, now=time.time())
    names = {}
    for folder in ("out/shop", "out/other", "elsewhere/shop"):
        feed = tmp_path / folder / "failures.jsonl"
        feed.parent.mkdir(parents=True)
        feed.touch()
        names[folder] = books.first_batch(Arguments.from_kwargs({"manifest": str(feed)}))
    books.close("finished")
    assert names == {"out/shop": "shop", "out/other": "failures", "elsewhere/shop": "failures"}
