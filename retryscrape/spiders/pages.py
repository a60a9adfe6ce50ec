"""The spider of this project: every page of a manifest, as it is."""

from __future__ import annotations

from retryscrape.spiders.manifest import ManifestSpider


class PagesSpider(ManifestSpider):
    """``scrapy crawl pages -a manifest=FILE``: pages into the page store, rows into the ledger."""

    name = "pages"
