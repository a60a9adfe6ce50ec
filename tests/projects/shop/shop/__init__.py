"""Somebody's existing Scrapy project, which knows nothing of retryscrape but one line."""
