"""A spider whose files Scrapy's FilesPipeline fetches."""

from scrapy import Spider


class PicturesSpider(Spider):
    """``-a start=URL -a file=URL``."""

    name = "pictures"

    def __init__(self, start, file, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.start_urls = [start]
        self.file = file

    def parse(self, response):
        yield {"url": response.url, "file_urls": [self.file]}
