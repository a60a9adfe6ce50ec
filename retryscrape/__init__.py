"""retryscrape: every page of a URL list that can be had, once, for the least money.

The public face is the command line (``scrapy crawl pages``), the add-on
(:mod:`retryscrape.addon`) and ``ManifestSpider`` (:mod:`retryscrape.spiders`).
"""

__version__ = "0.1.0"
