"""A manifest as the arguments name it: where its lines come from, and whose batch they are.

For all that read one, crawling or not. What becomes of the lines is theirs.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from retryscrape.crawl.arguments import Arguments
from retryscrape.manifest.read import Item, batch_name, open_manifest, read_rows, read_urls

#: What the ledger calls the manifest of ``urls=``.
URLS = "urls="


class Source(Struct, frozen=True):
    """A manifest (or part of one) that is being read."""

    name: str
    from_line: int = 1
    batch: str | None = None


def items_of(arguments: Arguments, source: Source) -> Iterator[Item]:
    """Its lines. Raises ManifestError."""
    if arguments.urls is not None and source.name == URLS:
        yield from read_urls(arguments.urls, default_scheme=arguments.default_scheme)
        return
    with open_manifest(source.name) as stream:
        yield from read_rows(
            stream,
            name=source.name,
            url_field=arguments.url_field,
            default_scheme=arguments.default_scheme,
            from_line=source.from_line,
            include_permanent=arguments.include_permanent,
        )


def batch_of(chunk: list[Item], name: str) -> str:
    """The batch that the lines carry (a failures feed's), else the manifest's name."""
    carried = next((item.batch for item in chunk if item.batch), None)
    return carried or batch_name(name)
