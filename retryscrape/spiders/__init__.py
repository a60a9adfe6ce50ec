"""Spiders: ManifestSpider, the base that users write on, and the two that come with the project."""

from retryscrape.spiders.manifest import ManifestSpider

__all__ = ["ManifestSpider"]
