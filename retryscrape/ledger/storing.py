"""Pages are written, and their rows told where: before the rows are committed.

Where pages lie is pages.py's, when a group is written writer.py's.
"""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Callable, Iterable

from msgspec import Struct
from msgspec.structs import replace

from retryscrape.ledger.dialect import LedgerError
from retryscrape.ledger.pages import PageFile, PageStore, page_path
from retryscrape.ledger.records import AttemptRecord, Result
from retryscrape.ledger.store import Ledger
from retryscrape.ledger.times import iso
from retryscrape.policy.outcomes import ErrorClass, Outcome, Status

#: Is told how a result ended: as it was committed, or why it was not.
End = Callable[[Result | LedgerError], None]

#: Errors that the next page would meet, too.
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS})


class Item(Struct, eq=False):
    """A result, attempts, or both on their way to the ledger."""

    result: Result | None
    attempts: tuple[AttemptRecord, ...]
    page: PageFile | None
    end: End | None
    queued: float
    #: not to be written: the row has been a success before
    void: bool = False

    @property
    def batch_id(self) -> str:
        return self.result.batch_id if self.result else ""

    @property
    def size(self) -> int:
        return len(self.page.body) if self.page else 0


class Storing:
    """The pages of one OUT. A page that cannot be written makes its row ``no_result``;
    ``on_full`` is called with a sentence for each that finds no room on the disk."""

    def __init__(
        self,
        ledger: Ledger,
        out: str | os.PathLike[str],
        *,
        wall: Callable[[], float],
        on_full: Callable[[str], None] | None,
    ) -> None:
        self._ledger = ledger
        self._pages = PageStore(out, once=True)
        self._wall = wall
        self._on_full = on_full

    def store(self, group: Iterable[Item]) -> None:
        """Write the pages of a group, each once; leave out rows that have a page already."""
        waiting = [item for item in group if item.page and item.result]
        for batch_id in {item.batch_id for item in waiting}:
            ours = [item for item in waiting if item.batch_id == batch_id]
            urls = [item.result.url for item in ours if item.result]
            have = self._ledger.succeeded(batch_id, urls)
            for item in ours:
                self._write(item, have)

    def _write(self, item: Item, have: set[str]) -> None:
        page, item.page = item.page, None
        if page is None or item.result is None or item.result.status is not Status.SUCCESS:
            return
        if item.result.url in have:
            item.void = True  # its page stays the one that its row describes
            return
        path = page_path(item.result.batch_id, item.result.url, page.content_type)
        try:
            self._pages.write(path, page.body)
        except OSError as error:
            item.result = _without_page(item.result, error, iso(self._wall()))
            if error.errno in _FULL and self._on_full is not None:
                self._on_full(f"no page can be written below {self._pages.out}: {error.strerror}")
            return
        have.add(item.result.url)
        item.result = replace(
            item.result,
            page_path=path,
            page_sha256=hashlib.sha256(page.body).hexdigest(),
            page_bytes=len(page.body),
            content_type=page.content_type,
        )


def _without_page(result: Result, error: OSError, at: str) -> Result:
    return replace(
        result,
        status=Status.FAILED,
        outcome=Outcome.NO_RESULT,
        error_class=ErrorClass.RETRYABLE,
        reason=f"the page could not be written: {error.strerror or type(error).__name__}",
        last_error_at=at,
    )
