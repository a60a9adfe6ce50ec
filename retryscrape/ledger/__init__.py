"""The ledger: what is known of every URL, and how it is written, merged and read.

No Scrapy here. Everything is synchronous; the crawl hands work to a writer thread.
"""
