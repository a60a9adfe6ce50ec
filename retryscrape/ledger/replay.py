"""Policy replay: today's classifier and rules over stored attempts and pages, without a request.

Which rows would now end otherwise. What cannot be known any more (headers, bodies that
were not kept) counts as it did; the commands' side of it is crawl/replay.py.
"""

from __future__ import annotations

import contextlib
import os
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby, islice
from pathlib import Path
from typing import TypeVar

from msgspec import Struct, field

from retryscrape.ledger.orphans import content_type_of
from retryscrape.ledger.pagecheck import WHOLE
from retryscrape.ledger.pages import ALL_SUFFIXES, page_path, set_aside
from retryscrape.ledger.records import AttemptRecord, Result
from retryscrape.ledger.store import Ledger
from retryscrape.policy.decide import Action, Decision, Limits, Scene, decide
from retryscrape.policy.ladder import Ladder
from retryscrape.policy.outcomes import KEPT_OUTCOMES, ErrorClass, Outcome, Page, Verdict
from retryscrape.policy.ticket import Past, Ticket

#: Rows put back in one transaction.
CHUNK = 500
#: Evidence that a stored body cannot show again: headers and redirects are not kept.
_NOT_KEPT = ("header:", "location")
#: Rows that no rule of the policy has ended.
_NOT_RULED = frozenset({None, Outcome.NO_RESULT, Outcome.REJECTED})
#: Attempts that count though they cost nothing.
_COUNT = frozenset({Outcome.BLOCKED, Outcome.API_ERROR})

_T = TypeVar("_T")


class Rules(Struct, frozen=True, kw_only=True):
    """Today's rules; ``price`` gives the price units of an attempt on a rung."""

    classify: Callable[[Page], Verdict]
    limits: Limits
    ladder: Ladder
    price: Callable[[str], float]


class Change(Struct, frozen=True, kw_only=True):
    """A row that would now end otherwise. ``was`` and ``now`` are words for people;
    ``reopen`` says that it belongs on the worklist and is not there."""

    url: str
    was: str
    now: str
    reason: str
    reopen: bool
    path: str | None = None


class Tally(Struct, kw_only=True):
    """Pages and failures that were looked at, failures whose body was there, changes in words."""

    pages: int = 0
    failures: int = 0
    bodies: int = 0
    changes: Counter[tuple[str, str]] = field(default_factory=Counter)
    reopened: int = 0


class Replayer(Struct, kw_only=True):
    """One batch. ``changed`` is called for each row that would end otherwise; with
    ``apply`` (the batch locked by the caller) those go back to the worklist."""

    ledger: Ledger
    batch_id: str
    out: Path
    rules: Rules
    changed: Callable[[Change], None]
    now: float
    apply: bool = False
    tally: Tally = field(default_factory=Tally)

    def run(self) -> Tally:
        """Go through all rows; memory does not grow with them. Raises LedgerError, OSError."""
        for chunk in _chunks(self._changes()):
            for change in chunk:
                self.tally.changes[change.was, change.now] += 1
                self.changed(change)
            if self.apply:
                self._put_back([change for change in chunk if change.reopen])
        return self.tally

    def _changes(self) -> Iterator[Change]:
        for row in self.ledger.successes(self.batch_id):
            if (change := self._success(row)) is not None:
                yield change
        for row in self.ledger.failures(self.batch_id):
            if row.outcome not in _NOT_RULED and (change := self._failure(row)) is not None:
                yield change

    def _put_back(self, changes: Sequence[Change]) -> None:
        """Pages first, for the same reason as in reconcile."""
        for change in changes:
            if change.path:
                set_aside(self.out, change.path)
        by_reason = sorted(changes, key=lambda change: change.reason)
        for reason, group in groupby(by_reason, key=lambda change: change.reason):
            urls = [change.url for change in group]
            self.tally.reopened += self.ledger.reopen(
                self.batch_id, urls, reason=f"replay: {reason}", now=self.now
            )

    # --- one row ---------------------------------------------------------------

    def _success(self, row: Result) -> Change | None:
        body = _read(self.out / row.page_path) if row.page_path else None
        if body is None or len(body) != row.page_bytes:
            return None  # reconcile's matter
        self.tally.pages += 1
        verdict = self.rules.classify(_page(row, row.http_code, row.rung, body, row.content_type))
        if verdict.outcome is Outcome.OK:
            return None
        return Change(
            url=row.url,
            was="ok",
            now=_words(verdict.outcome, verdict.vendor),
            reason=verdict.reason or verdict.evidence or "by its content",
            reopen=True,
            path=row.page_path,
        )

    def _failure(self, row: Result) -> Change | None:
        attempts = self.ledger.attempts_of(row.url, self.batch_id)
        if not attempts:
            return None
        self.tally.failures += 1
        last = attempts[-1]
        verdict = self._verdict(row, last)
        decision = self._decision(row, attempts, verdict)
        permanent = row.error_class is ErrorClass.PERMANENT
        ends = decision.action is not Action.RETRY
        stays = ends and decision.error_class is ErrorClass.PERMANENT
        # A rule that needs to know more than is stored (pauses, budgets) can only make a
        # row look more final than it is: without another verdict that is no change.
        if verdict.outcome is last.outcome and (stays or not permanent):
            return None
        now = _words(verdict.outcome, verdict.vendor)
        return Change(
            url=row.url,
            was=_words(row.outcome, row.vendor) + (", permanent" if permanent else ""),
            now=now + (", permanent" if stays else "" if ends else f", next on {decision.rung}"),
            reason=(verdict.reason if verdict.outcome is not last.outcome else None)
            or decision.rule,
            reopen=permanent and not stays,
        )

    def _verdict(self, row: Result, last: AttemptRecord) -> Verdict:
        """Today's verdict on the last attempt, from what was kept of it."""
        recorded = Verdict(
            outcome=last.outcome,
            http_code=last.http_code,
            vendor=last.vendor,
            kind=last.kind,
            evidence=last.evidence,
            reason=last.reason,
            html="not HTML" not in last.decision,
        )
        evidence = last.evidence or ""
        if last.http_code is None or not evidence or evidence.startswith(_NOT_KEPT):
            return recorded
        found = self._kept(row.url) if last.outcome in KEPT_OUTCOMES else None
        if found is not None:
            self.tally.bodies += 1
            path, body = found
            kind = content_type_of(path)
            return self.rules.classify(_page(row, last.http_code, last.rung, body, kind))
        # What Retry-After said is not kept, so that a throttled 503 cannot be told again.
        by_status = evidence == f"status:{last.http_code}" and last.http_code >= 400
        if not by_status or last.outcome in (Outcome.THROTTLED, Outcome.BLOCKED):
            return recorded
        return self.rules.classify(_page(row, last.http_code, last.rung, b"", None))

    def _kept(self, url: str) -> tuple[str, bytes] | None:
        path = page_path(self.batch_id, url, None).replace("/pages/", "/blocked/", 1)
        stem = os.path.splitext(path)[0]
        for suffix in ALL_SUFFIXES:
            body = _read(self.out / (stem + suffix))
            if body is not None:
                return stem + suffix, body
        return None

    def _decision(
        self, row: Result, attempts: Sequence[AttemptRecord], verdict: Verdict
    ) -> Decision:
        """What the policy would say after the last attempt of the last pass."""
        last, ladder = attempts[-1], self.rules.ladder
        passed = [record for record in attempts if record.job_id == last.job_id]
        before = [record for record in attempts if record.job_id != last.job_id]
        past = [*map(self._past, passed[:-1]), _judged(self._past(last), verdict)]
        ticket = Ticket(
            url=row.url,
            host=row.host,
            batch=self.batch_id,
            rung=last.rung,
            start_rung=passed[0].rung,
            escalate=bool(before),
            prior_outcome=before[-1].outcome if before else None,
            prior_passes=max(0, row.passes - 1),
            avoid=frozenset(record.exit for record in before if record.exit),
            history=tuple(past),
        )
        bought = None if verdict.html else ladder.next_of(last.rung, "api")
        rungs = (last.rung, ladder.next(last.rung), bought)
        scene = Scene(
            ticket=ticket,
            verdict=verdict,
            limits=self.rules.limits,
            now=self.now,
            rng=random.Random(0),  # only delays come of it
            next_rung=rungs[1],
            bought_rung=bought,
            exits=0 if last.exit else None,
            price={rung: self.rules.price(rung) for rung in rungs if rung},
        )
        return decide(scene)

    def _past(self, record: AttemptRecord) -> Past:
        lost = record.outcome is Outcome.PROXY_ERROR
        free = not record.cost and self.rules.price(record.rung) > 0
        return Past(
            rung=record.rung,
            exit=record.exit,
            outcome=record.outcome,
            http_code=record.http_code,
            kind=record.kind,
            vendor=record.vendor,
            reason=record.reason,
            cost=record.cost,
            waited=record.waited,
            own_wait=record.outcome is Outcome.THROTTLED,
            counts=not lost and (not free or record.outcome in _COUNT),
        )


def _judged(past: Past, verdict: Verdict) -> Past:
    return past._replace(outcome=verdict.outcome, kind=verdict.kind, vendor=verdict.vendor)


def _page(
    row: Result, code: int | None, rung: str | None, body: bytes, content_type: str | None
) -> Page:
    return Page(
        status=code or 200,
        url=row.final_url or row.url,
        headers={"content-type": (content_type,)} if content_type else {},
        body=body,
        rendered=(rung or "").startswith("browser"),
    )


def _words(outcome: Outcome | None, vendor: str | None) -> str:
    return (outcome or "pending") + (f" ({vendor})" if vendor else "")


def _read(path: Path) -> bytes | None:
    # a pipe that lies in the place of a page would be waited for, for ever
    if not path.is_file():
        return None
    with contextlib.suppress(OSError), path.open("rb") as file:
        body = file.read(WHOLE + 1)
        return body if len(body) <= WHOLE else None
    return None


def _chunks(items: Iterable[_T]) -> Iterator[list[_T]]:
    iterator = iter(items)
    while chunk := list(islice(iterator, CHUNK)):
        yield chunk
