"""A spider of the project that is written on retryscrape's base."""

from retryscrape.spiders import ManifestSpider


class ListedSpider(ManifestSpider):
    """The URLs of a manifest, with a ledger."""

    name = "listed"

    def parse(self, response):
        yield {"url": response.url}
