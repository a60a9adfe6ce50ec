"""From a line of a manifest to the ledger's new row. Pure."""

from __future__ import annotations

from retryscrape.ledger.records import NewRow
from retryscrape.manifest.rows import Rejected, Row


def new_row(line: Row | Rejected) -> NewRow:
    """The row that the ledger is to have for ``line``."""
    if isinstance(line, Rejected):
        return NewRow(url=line.key, line=line.line, rejected=line.reason, prior=line.prior)
    host = line.target.host if line.target else ""
    return NewRow(url=line.url, line=line.line, host=host, fields=line.fields, prior=line.prior)
