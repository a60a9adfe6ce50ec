"""The web that misbehaves: origins, proxies and scenarios, all on loopback.

For the demo, tests, benchmarks and users who try their settings. Imports nothing of Scrapy
and nothing of the rest of this package.
"""
