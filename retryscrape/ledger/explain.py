"""The story of one URL: every attempt, what it came to, and why what came next.

Data and its text for ``scrapy explain``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from retryscrape.ledger.actions import action
from retryscrape.ledger.records import AttemptRecord, Result
from retryscrape.ledger.store import Ledger
from retryscrape.ledger.times import iso
from retryscrape.policy.outcomes import Status
from retryscrape.policy.redact import plain


class Story(Struct, frozen=True, kw_only=True):
    """What one batch knows of a URL."""

    batch_id: str
    entry: Result
    attempts: Sequence[AttemptRecord]


def explain(ledger: Ledger, url: str, batch_id: str | None = None) -> list[Story]:
    """The stories of ``url``, one per batch that has it as a row, oldest batch first."""
    names = (
        [str(batch["batch_id"]) for batch in ledger.batches()] if batch_id is None else [batch_id]
    )
    return [
        Story(batch_id=name, entry=entry, attempts=ledger.attempts_of(url, name))
        for name in names
        if (entry := ledger.entry(name, url)) is not None
    ]


def story_text(story: Story) -> str:
    """A story for a terminal, several lines, without a line break at the end."""
    return "\n".join(_lines(story))


def _lines(story: Story) -> Iterator[str]:
    entry = story.entry
    yield plain(entry.url)
    line = f", line {entry.line}" if entry.line else ""
    yield f"  batch {plain(story.batch_id)}{line}: {_state(entry)}"
    yield (
        f"  {entry.attempts} attempt{'' if entry.attempts == 1 else 's'}"
        f" in {entry.passes} pass{'' if entry.passes == 1 else 'es'}, cost {entry.cost:g},"
        f" {entry.bytes:,} bytes"
    )
    if entry.final_url and entry.final_url != entry.url:
        yield f"  answered by {plain(entry.final_url)}"
    if entry.page_path:
        yield f"  page {plain(entry.page_path)} ({entry.page_bytes or 0:,} bytes)"
    if entry.same_as:
        yield f"  fetches the same as {plain(entry.same_as)}"
    if entry.not_before:
        yield f"  not before {iso(entry.not_before)}"
    if entry.status is not Status.SUCCESS:
        yield f"  to do: {action(entry)}"
    for record in story.attempts:
        yield from _attempt_lines(record)
    if not story.attempts:
        yield "  no attempt is recorded"


def _state(entry: Result) -> str:
    parts: list[str] = [entry.outcome.value if entry.outcome else "not asked yet"]
    if entry.http_code:
        parts.append(str(entry.http_code))
    if entry.vendor:
        parts.append(entry.vendor)
    if entry.error_class:
        parts.append(entry.error_class.value)
    if entry.reason:
        parts.append(plain(entry.reason))
    return f"{entry.status.value}: {', '.join(parts)}"


def _attempt_lines(record: AttemptRecord) -> Iterator[str]:
    found = ", ".join(part.value for part in (record.outcome, record.kind) if part)
    vendor = f", {record.vendor}" if record.vendor else ""
    code = record.http_code or "no answer"
    yield ""
    via = f"a scraping API ({record.mode or 'no mode told'})" if record.task else record.exit
    yield (
        f"  #{record.n}  {plain(record.started_at)}  {plain(record.rung)}"
        f" via {plain(via or 'direct')}  (job {plain(record.job_id)})"
    )
    waited = f" after waiting {record.waited:.1f} s" if record.waited else ""
    yield (
        f"      {code} in {record.elapsed:.2f} s{waited}: {found}{vendor};"
        f" {record.bytes:,} bytes, cost {record.cost:g}"
    )
    for name, text in (("evidence", record.evidence), ("reason", record.reason)):
        if text:
            yield f"      {name}: {plain(text)}"
    if record.decision:
        yield f"      then: {plain(record.decision)}"
