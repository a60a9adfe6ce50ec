"""The items that a run yields besides the user's own: one for each finished URL.

They come out after the ledger has committed the row, for users' pipelines and
FEEDS. Ours never depend on FEEDS (Scrapyd replaces that setting).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar


@dataclass(slots=False, kw_only=True)
class PageItem:
    """A page that is on disk: ``page_path`` is relative to ``RETRYSCRAPE_OUT``."""

    url: str
    batch_id: str
    final_url: str | None = None
    http_code: int | None = None
    rung: str | None = None
    attempts: int = 0
    cost: float = 0.0
    page_path: str | None = None
    page_sha256: str | None = None
    page_bytes: int | None = None
    content_type: str | None = None
    fields: Mapping[str, Any] | None = None

    #: Not fields of the item: what the ledger pipeline needs to write the page and the row.
    _result: ClassVar[Any] = None
    _body: ClassVar[Any] = b""


@dataclass(slots=False, kw_only=True)
class FailureItem:
    """A URL that ended without a page in this pass; the fields of the failures feed."""

    url: str
    batch_id: str
    status: str = "failed"
    outcome: str | None = None
    error_class: str | None = None
    http_code: int | None = None
    vendor: str | None = None
    reason: str | None = None
    attempts: int = 0
    passes: int = 0
    cost: float = 0.0
    rung: str | None = None
    escalate: bool = False
    not_before: float | None = None
    last_error_at: str | None = None
    job_id: str | None = None
    final_url: str | None = None
    action: str | None = None
    fields: Mapping[str, Any] | None = None

    _result: ClassVar[Any] = None
