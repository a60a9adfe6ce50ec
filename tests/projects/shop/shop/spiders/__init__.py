"""Spiders of several kinds."""
