"""retryscrape: every page of a URL list that can be had, once, for the least money.

The public face is the command line (``scrapy crawl pages``), the add-on, and the
names below; each is documented in docs/reference/api.md. Everything else may change.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from retryscrape.addon import Retryscrape
    from retryscrape.crawl.settle import GaveUp
    from retryscrape.hostile.process import hostile_process
    from retryscrape.items import FailureItem, PageItem
    from retryscrape.spiders import ManifestSpider

__version__ = "0.1.0"

__all__ = [
    "FailureItem",
    "GaveUp",
    "ManifestSpider",
    "PageItem",
    "Retryscrape",
    "__version__",
    "hostile_process",
]

#: Where the names live. They are loaded when asked for: the policy is used without Scrapy.
_HOMES = {
    "FailureItem": "retryscrape.items",
    "GaveUp": "retryscrape.crawl.settle",
    "ManifestSpider": "retryscrape.spiders",
    "PageItem": "retryscrape.items",
    "Retryscrape": "retryscrape.addon",
    "hostile_process": "retryscrape.hostile.process",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
