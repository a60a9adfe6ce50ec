"""Small makers of the ledger's values, for its tests."""

from __future__ import annotations

from typing import Any

from retryscrape.ledger.records import AttemptRecord, NewRow, Result
from retryscrape.ledger.store import Ledger
from retryscrape.policy.outcomes import ErrorClass, Outcome, Status

NOW = 1_780_000_000.0


def success(url: str = "http://h.test/1", **values: Any) -> Result:
    return _result(url, status=Status.SUCCESS, outcome=Outcome.OK, http_code=200, **values)


def failure(
    url: str = "http://h.test/1", at: str | None = "2026-01-01T00:00:00.000Z", **values: Any
) -> Result:
    defaults = {
        "status": Status.FAILED,
        "outcome": Outcome.BLOCKED,
        "error_class": ErrorClass.RETRYABLE,
        "http_code": 403,
        "reason": "a challenge",
        "last_error_at": at,
    }
    return _result(url, **(defaults | values))


def parked(url: str = "http://h.test/1", until: float = NOW + 60, **values: Any) -> Result:
    return _result(url, status=Status.PENDING, outcome=None, not_before=until, **values)


def _result(url: str, **values: Any) -> Result:
    defaults = {"batch_id": "b", "line": 1, "host": "h.test", "job_id": "j1"}
    return Result(url=url, **(defaults | values))


def attempt(url: str = "http://h.test/1", n: int = 1, **values: Any) -> AttemptRecord:
    defaults = {
        "batch_id": "b",
        "started_at": f"2026-01-01T00:00:{n:02d}.000Z",
        "elapsed": 0.5,
        "rung": "http",
        "exit": "http://u***@127.0.0.1:1#3fa2c1",
        "http_code": 403,
        "outcome": Outcome.BLOCKED,
        "vendor": "cloudflare",
        "kind": None,
        "evidence": "header:cf-mitigated",
        "reason": "a challenge",
        "decision": "next rung: a challenge",
        "waited": 0.0,
        "bytes": 100,
        "cost": 2.0,
        "job_id": "j1",
    }
    return AttemptRecord(url=url, n=n, **(defaults | values))


def fill(ledger: Ledger, urls: list[str], *, batch_id: str = "b", manifest: str = "m.txt") -> None:
    """A batch with one pending row per URL, read to its end."""
    ledger.open_batch(batch_id, manifest, "digest", now=NOW)
    rows = [NewRow(url=url, line=line, host="h.test") for line, url in enumerate(urls, start=1)]
    ledger.add_rows(batch_id, rows, manifest=manifest, read_to=len(urls), job_id="j1", now=NOW)
    ledger.finish_read(batch_id, manifest)
