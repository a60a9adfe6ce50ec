"""The browser rung's way of fetching: real Chromium through scrapy-playwright's provider.

``handler.Browser`` is all that the rest of the crawl knows. Nothing here imports
playwright when it is imported: a crawl that renders nothing pays nothing, and one
without playwright installed works.
"""
