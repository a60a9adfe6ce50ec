"""Thin Scrapy parts: they translate, ask the policy, and carry out. No rule lives here."""
