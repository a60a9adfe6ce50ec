"""Manifests: an open binary file in, rows and rejected lines out.

Pure over an open file: no network of its own (``source`` leaves that to
smart_open), no Scrapy, no ledger.
"""
