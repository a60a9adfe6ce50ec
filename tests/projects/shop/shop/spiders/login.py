"""A spider with a session: logs in, and needs its cookie ever after."""

from scrapy import FormRequest, Request, Spider


class LoginSpider(Spider):
    """``-a start=URL``: a page that sets a cookie, then ``then=URL`` that must get it."""

    name = "login"

    async def start(self):
        yield Request(self.first, callback=self.logged_in)

    def logged_in(self, response):
        yield FormRequest(self.then, formdata={"q": "1"}, callback=self.parse)

    def parse(self, response):
        yield {"url": response.url, "text": response.text}
