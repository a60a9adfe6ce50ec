"""Projects of somebody else's, for tests of the add-on."""

from scrapy.downloadermiddlewares.retry import RetryMiddleware


class OwnRetry(RetryMiddleware):
    """What many projects have."""
