"""A scheduler and a downloader of the project's own."""

from scrapy.core.downloader import Downloader
from scrapy.core.scheduler import Scheduler


class OwnScheduler(Scheduler):
    """As Scrapy's."""


class OwnDownloader(Downloader):
    """As Scrapy's."""
