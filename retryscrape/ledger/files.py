"""The files of a batch that are made of its ledger: feed, index, report."""

from __future__ import annotations

from pathlib import Path

from retryscrape.ledger.feed import write_failures
from retryscrape.ledger.lock import files_lock
from retryscrape.ledger.pages import write_index
from retryscrape.ledger.reportdata import report_data, write_report
from retryscrape.ledger.store import Ledger


def write_files(ledger: Ledger, out: Path, batch_id: str, *, now: float) -> None:
    """Write ``failures.jsonl``, ``index.tsv`` and ``report.json``, each by a new file and rename.

    ``now`` is an epoch second. Raises OSError and LedgerError.
    """
    folder = out / batch_id
    folder.mkdir(parents=True, exist_ok=True)
    with files_lock(folder):
        write_failures(ledger, batch_id, folder / "failures.jsonl")
        pages = ((row.page_path, row.url) for row in ledger.page_rows(batch_id) if row.page_path)
        write_index(folder / "index.tsv", pages)
        report = report_data(ledger, batch_id, now=now)
        if report is not None:
            write_report(report, folder / "report.json")
