"""Report data in, text, JSON and HTML out. No SQL and no Scrapy here."""
