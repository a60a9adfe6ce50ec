"""A CrawlSpider: follows links, with rules."""

from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule


class CatalogueSpider(CrawlSpider):
    """``-a start=URL``."""

    name = "catalogue"
    rules = (Rule(LinkExtractor(allow="/item/"), callback="parse_item", follow=True),)

    def __init__(self, start, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.start_urls = [start]

    def parse_item(self, response):
        yield {"url": response.url, "title": response.css("h1::text").get()}
