"""What a run says at its beginning and at its end, and which exit code it means."""

from __future__ import annotations

import signal
from collections.abc import Iterator

from retryscrape.crawl.runtime import Run
from retryscrape.ledger.records import BatchInfo
from retryscrape.policy.exitcode import Ending, exit_code
from retryscrape.policy.outcomes import Status


def opening(run: Run) -> Iterator[str]:
    """The first lines: the batch, and what is known of it."""
    if run.books is None:
        return
    for batch_id, info in run.books.batches.items():
        yield f"Batch {batch_id}: {_known(info)}"
        if info.manifest_changed:
            yield (
                f"Batch {batch_id}: the manifest's content is not what the batch was made of; "
                "new lines are added (-a batch=NAME starts a fresh crawl)"
            )


def _known(info: BatchInfo) -> str:
    if info.new:
        return "new"
    done = info.counts.get(Status.SUCCESS, 0)
    total = sum(info.counts.values())
    text = f"{total} rows known: {done} done, {info.due} open, {info.parked} parked"
    settled = total - done - info.due - info.parked
    return text + (f", {settled} failed for good" if settled else "")


def ending(run: Run, reason: str) -> int:
    """The exit code of the run (DESIGN.md section 3)."""
    assert run.books is not None
    rows = run.books.totals.values()
    return exit_code(
        Ending(
            groups=[group for counts in rows for group in counts.groups.items()],
            early=reason != "finished" or run.stop_reason is not None or run.incomplete is not None,
            unread=bool(run.books.unread),
            interrupted=run.signalled == signal.SIGINT,
            fail_on=run.config.fail_on,
        )
    )


def summary(run: Run) -> Iterator[str]:
    """The last lines: totals, what blocked, exits, where the feed lies, what to type next."""
    books = run.books
    assert books is not None
    for batch_id in books.batches:
        counts = books.totals.get(batch_id)
        if counts is None:
            yield f"Batch {batch_id}: the ledger could not be read at the end"
            continue
        most_first = sorted(counts.by_outcome.items(), key=lambda total: -total[1])
        totals = ", ".join(f"{n} {name or 'pending'}" for name, n in most_first if n)
        yield f"Batch {batch_id}: {totals or '0 URLs'}"
    if books.blockers:
        worst = ", ".join(f"{vendor} {n}" for vendor, n in books.blockers.most_common(5))
        yield f"Blocked by: {worst}"
    if run.pool is not None:
        yield run.pool.describe(run.clock())
    yield from run.suspicion.lines()
    skipped = books.skipped
    if skipped["duplicate"]:
        lines = "line" if skipped["duplicate"] == 1 else "lines"
        yield f"{skipped['duplicate']} duplicate {lines} skipped: a URL has one row"
    if skipped["permanent"]:
        yield (
            f"{skipped['permanent']} permanent failures not asked again "
            "(-a include_permanent=1 asks them)"
        )
    for sentence in filter(None, (run.stop_reason, run.incomplete)):
        yield f"Stopped early: {sentence}"
    yield from _next(run, run.exit_code or 0)


def _next(run: Run, code: int) -> Iterator[str]:
    assert run.books is not None
    spider = run.crawler.spidercls.name
    for path in run.books.feeds():
        counts = run.books.totals.get(path.parent.name)
        if counts is None:
            continue
        open_rows = counts.open
        if not run.books.feed_written:
            yield (
                f"The failures feed could not be written (exit code {code}): the same command"
                f" goes on, scrapy failures {path.parent.name} writes it when that is possible"
            )
            continue
        yield f"Failures feed: {path}"
        if run.record:
            yield f"{open_rows} of them could still be had (exit code {code})"
        elif open_rows or path.parent.name in run.books.unread:
            more = ", and lines not read yet" if path.parent.name in run.books.unread else ""
            yield (
                f"{open_rows} left to re-drive{more} (exit code {code}): "
                f"scrapy crawl {spider} -a manifest={path}"
            )
        elif not run.asked:
            yield (
                f"Nothing to do for batch {path.parent.name} (exit code {code}); "
                "-a batch=NAME starts a fresh crawl of the same list"
            )
        else:
            yield f"Nothing is left to re-drive (exit code {code})"
