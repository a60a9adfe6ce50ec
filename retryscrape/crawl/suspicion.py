"""Suspicious pages of a run: each good page is looked at, and at the end it is told.

With RETRYSCRAPE_SUSPECT=fail they count as ``invalid``. What is suspicious is
policy/suspect.py's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import asdict, replace

from retryscrape.ledger.pages import DAMAGED, set_aside
from retryscrape.ledger.reportdata import SUSPECTS, suspects_of
from retryscrape.ledger.store import Ledger
from retryscrape.policy.outcomes import Outcome, Page, Status, Verdict
from retryscrape.policy.redact import mask_url, plain
from retryscrape.policy.suspect import Row, Suspect, Suspects
from retryscrape.policy.ticket import Ticket

#: Suspicious pages that a run writes down.
MOST = 100


class Suspicion:
    """One run's; ``mode`` is the setting."""

    def __init__(self, mode: str) -> None:
        self.mode = mode
        self._pages = Suspects()
        #: what ``end`` found, as report and ``run.json`` have it
        self.told: list[dict[str, Any]] = []

    def know(self, ledger: Ledger, batch_id: str) -> None:
        """Take up what earlier runs over the batch noticed."""
        if self.mode != "off":
            earlier = suspects_of(asdict(job) for job in ledger.jobs_of(batch_id))
            self._pages.know((page["host"], page["digest"]) for page in earlier)

    def judge(self, ticket: Ticket, verdict: Verdict, page: Page) -> Verdict:
        """The verdict on a page, ``invalid`` if it is suspicious and such pages fail."""
        if self.mode == "off" or verdict.outcome is not Outcome.OK or not ticket.batch:
            return verdict
        urls = self._pages.look(ticket.host, Row(batch=ticket.batch, url=ticket.url), page)
        if not urls or self.mode != "fail":
            return verdict
        reason = "the same page came under several URLs of this host (RETRYSCRAPE_SUSPECT)"
        return replace(verdict, outcome=Outcome.INVALID, evidence="check:suspect", reason=reason)

    def end(self, ledger: Ledger, out: Path, *, now: float) -> Mapping[str, str]:
        """Put down what was found, as a stat; take back what got through before it was noticed.

        All results are committed by now. ``now`` is an epoch second. Raises LedgerError, OSError.
        """
        found = self._pages.found()[:MOST]
        self.told = [self._tell(ledger, page) for page in found]
        if self.mode == "fail":
            for page in found:
                self._take_back(ledger, out, page, now)
        return {SUSPECTS: json.dumps(self.told)} if self.told else {}

    def _tell(self, ledger: Ledger, page: Suspect) -> dict[str, Any]:
        sample = page.first[0] if page.first else None
        entry = ledger.entry(sample.batch, sample.url) if sample else None
        path = entry.page_path if entry is not None else None
        if path and self.mode == "fail":
            path = path.replace("/pages/", f"/{DAMAGED}/", 1)
        return {
            "host": page.host,
            "digest": page.digest,
            "urls": page.urls,
            "sample": mask_url(sample.url) if sample else None,
            "page_path": path,
            "text": page.text,
        }

    def _take_back(self, ledger: Ledger, out: Path, page: Suspect, now: float) -> None:
        """The page first, for the same reason as in reconcile."""
        for row in page.first:
            entry = ledger.entry(row.batch, row.url)
            if entry is None or entry.status is not Status.SUCCESS or not entry.page_path:
                continue
            set_aside(out, entry.page_path)
            reason = f"the same page came under {page.urls} URLs of this host (RETRYSCRAPE_SUSPECT)"
            ledger.reopen(row.batch, [row.url], reason=reason, now=now, outcome=Outcome.INVALID)

    def lines(self) -> list[str]:
        """For the end of the log."""
        failed = "; they count as invalid" if self.mode == "fail" else ""
        return [
            f"Suspicious: the same page under {page['urls']} URLs of {plain(page['host'], 100)}"
            f"{failed}. One of them: {plain(page['sample'] or 'known from before', 200)}"
            f' (it begins with "{plain(page["text"], 80)}")'
            for page in self.told[:5]
        ]
