"""Results of a batch: merged by input URL, then reconciled before anything is classified.

A completed batch is not a complete one. Pure; merging is idempotent and does not care
for the order, because results come twice and in any order.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from retryscrape.policy.api_answers import Bought, dig, parsed, with_page, without_page
from retryscrape.policy.api_provider import Provider
from retryscrape.policy.outcomes import Page

#: States of one URL's result that hold no page.
_FAILED = frozenset({"failed", "error", "cancelled", "timeout"})

Item = Mapping[str, Any]


def items(body: bytes, provider: Provider) -> list[Item]:
    """The results that an answer holds; what is none is left out."""
    found = dig(parsed(body), provider.fields["results"])
    if not isinstance(found, list):
        return []
    name = provider.fields["url"]
    return [
        item for item in found if isinstance(item, Mapping) and isinstance(dig(item, name), str)
    ]


def merge(known: Mapping[str, Item], more: Iterable[Item], provider: Provider) -> dict[str, Item]:
    """Results by input URL: of two for one URL the one that says more stays."""
    merged = dict(known)
    for item in more:
        url = dig(item, provider.fields["url"])
        old = merged.get(url)
        merged[url] = item if old is None else max(old, item, key=lambda one: _worth(one, provider))
    return merged


def _worth(item: Item, provider: Provider) -> tuple[bool, bool, str, str]:
    """A total order: a page before none, then the later one, then any that is always the same."""
    content = dig(item, provider.fields["content"])
    failed = _state(item, provider) in _FAILED
    finished = str(dig(item, provider.fields["finished_at"]) or "")
    return (not failed, bool(content), finished, json.dumps(item, sort_keys=True, default=str))


class Reconciled(Struct, frozen=True, kw_only=True):
    """What a batch owes: URLs without a result, without content, with a page that is none;
    ``unknown`` are URLs that nobody asked for."""

    found: Mapping[str, Bought]
    absent: Sequence[str] = ()
    empty: Sequence[str] = ()
    unfit: Sequence[str] = ()
    unknown: Sequence[str] = ()

    @property
    def words(self) -> str:
        """All of it for the log."""
        parts = [f"{len(self.found)} results"]
        counted = (
            ("absent", self.absent),
            ("empty", self.empty),
            ("unfit", self.unfit),
            ("for URLs that were not asked for", self.unknown),
        )
        return ", ".join(parts + [f"{len(urls)} {word}" for word, urls in counted if urls])


def reconcile(
    wanted: Sequence[str],
    known: Mapping[str, Item],
    provider: Provider,
    fits: Callable[[Page], bool],
) -> Reconciled:
    """Hold what was asked for against what came; ``fits`` says whether a page passes the checks.

    What is empty or unfit is still in ``found``: the classifier says what it is.
    """
    found = {url: one_bought(known[url], provider, url) for url in wanted if url in known}
    pages = {url: one.page for url, one in found.items() if one.page is not None}
    return Reconciled(
        found=found,
        absent=[url for url in wanted if url not in known],
        empty=[url for url, page in pages.items() if not page.body.strip()],
        unfit=[url for url, page in pages.items() if page.body.strip() and not fits(page)],
        unknown=sorted(known.keys() - set(wanted)),
    )


def one_bought(item: Item, provider: Provider, url: str) -> Bought:
    """One URL's result: its page, or the API's own problem with it."""
    status = dig(item, provider.fields["status"])
    failed = _state(item, provider) in _FAILED
    # a 404 is the target's answer, whatever the API calls it
    if not isinstance(status, int) or status == 0 or (failed and status < 400):
        return without_page(item, provider)
    return with_page(item, provider, url)


def _state(item: Item, provider: Provider) -> str:
    return str(dig(item, provider.fields["item_state"]) or "").lower()
