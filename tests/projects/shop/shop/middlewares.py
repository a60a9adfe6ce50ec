"""A downloader middleware of the project's own."""


class StampMiddleware:
    """Sets a header that the sites want to see."""

    def process_request(self, request):
        request.headers.setdefault("X-Shop", "1")
