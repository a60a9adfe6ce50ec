"""Spiders: ManifestSpider, the base that users write on, and the two that come with the project."""
