"""A downloader middleware of the project's own."""


class ProxyMiddleware:
    """Sends some requests through a proxy of the project's own."""

    def __init__(self, proxy):
        self.proxy = proxy

    @classmethod
    def from_crawler(cls, crawler):
        return cls(crawler.settings["SHOP_PROXY"])

    def process_request(self, request):
        if "own-proxy" in request.url:
            request.meta["proxy"] = self.proxy
        if "no-proxy" in request.url:
            request.meta["proxy"] = None


class StampMiddleware:
    """Sets a header that the sites want to see."""

    def process_request(self, request):
        request.headers.setdefault("X-Shop", "1")
