"""A download handler of the project's own."""

from scrapy.core.downloader.handlers.http11 import HTTP11DownloadHandler


class OwnHandler(HTTP11DownloadHandler):
    """Fetches as Scrapy does, and signs what it brings."""

    async def download_request(self, request):
        response = await super().download_request(request)
        response.headers["X-Own-Handler"] = "1"
        return response
