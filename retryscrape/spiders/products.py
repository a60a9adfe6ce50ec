"""The example of a user's own spider: product pages, with a check and an item."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from scrapy.http import Response

from retryscrape.spiders.manifest import ManifestSpider


class ProductsSpider(ManifestSpider):
    """A page without a price is ``invalid``; name and price go into the item."""

    name = "products"

    def validate(self, response: Response) -> str | None:
        """A shop shows a page without a price to those it does not trust."""
        return None if self._price(response) else "no price on the page"

    def parse(self, response: Response, **kwargs: Any) -> Iterator[dict[str, str | None]]:
        """One item a page."""
        yield {
            "url": response.url,
            "name": self._first(response, "[itemprop=name], h1"),
            "price": self._price(response),
        }

    def _price(self, response: Response) -> str | None:
        return self._first(response, "[itemprop=price], .price")

    @staticmethod
    def _first(response: Response, selector: str) -> str | None:
        for found in response.css(selector):
            text = found.attrib.get("content") or " ".join(found.css("::text").getall())
            if text.strip():
                return " ".join(text.split())
        return None
