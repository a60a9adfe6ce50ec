"""A plain spider: says of every URL what its callback or errback has seen."""

import json

from scrapy import Request, Spider


class VisitsSpider(Spider):
    """``-a visits=JSON``: a list of objects with ``url`` and what else a Request takes."""

    name = "visits"

    def __init__(self, visits="[]", statuses="", *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.visits = json.loads(visits)
        self.handle_httpstatus_list = [int(code) for code in statuses.split()]

    async def start(self):
        for visit in self.visits:
            yield Request(
                dont_filter=True, callback=self.parse, errback=self.failed, cb_kwargs={}, **visit
            )

    def parse(self, response):
        yield {
            "url": response.url,
            "status": response.status,
            "text": response.text[:200],
            "own": "X-Own-Handler" in response.headers,
            "outcome": response.meta.get("retryscrape_outcome"),
        }
        following = response.meta.get("then")
        if following:
            # what many spiders do: all of meta goes along
            yield Request(following, meta={**response.meta, "then": None}, errback=self.failed)

    def failed(self, failure):
        response = getattr(failure.value, "response", None)
        yield {
            "url": failure.request.url,
            "failed": type(failure.value).__name__,
            "status": response.status if response is not None else None,
        }
