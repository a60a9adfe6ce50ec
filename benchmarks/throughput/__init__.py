"""``make bench``: this project, bare Scrapy and Crawlee at the same pages, in one run."""
