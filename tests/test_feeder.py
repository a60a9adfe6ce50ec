"""What the feeder need not read: a manifest of which every line has its row, and none is open."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from retryscrape.crawl import books as books_module
from retryscrape.crawl.feeder import Feeder
from retryscrape.crawl.sources import Source
from retryscrape.policy.outcomes import Status


def feeder(path: Path, **changes: Any) -> Feeder:
    """A feeder at the start of a crawl of a batch that an earlier one has finished."""
    job = {"manifest": str(path)}
    state: dict[str, Any] = {
        "jobs": [job, job],
        "complete": True,
        "manifest": str(path),
        "due": 0,
        "parked": 0,
        "include_permanent": False,
        **changes,
    }
    info = SimpleNamespace(batch_id="m", counts={Status.SUCCESS: 2}, rejected=0, **state)
    jobs = [SimpleNamespace(arguments=arguments) for arguments in state["jobs"]]
    ledger = SimpleNamespace(jobs_of=lambda batch: jobs)
    made = object.__new__(Feeder)
    made.books = SimpleNamespace(batches={"m": info}, primary="m", ledger=ledger)  # type: ignore[assignment]
    made.arguments = SimpleNamespace(include_permanent=state["include_permanent"])  # type: ignore[assignment]
    return made


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "m.txt"
    path.write_text("http://h.test/1\nhttp://h.test/2\n")
    return path


def test_a_batch_that_is_done_is_not_read_again(path: Path) -> None:
    assert feeder(path)._nothing_left(Source(str(path)))
    assert feeder(path)._nothing_left(Source(str(path), batch="m"))


@pytest.mark.parametrize(
    "changes",
    [
        {"due": 1},
        {"parked": 1},
        {"complete": False},
        {"manifest": "another.txt"},
        {"include_permanent": True},
        {"jobs": [{}]},
        {"jobs": [{"url_field": "link"}, {}]},
    ],
    ids=str,
)
def test_anything_open_or_unknown_is_read(path: Path, changes: dict[str, Any]) -> None:
    assert not feeder(path, **changes)._nothing_left(Source(str(path)))


def test_a_failures_feed_is_read_it_may_lead_on(tmp_path: Path) -> None:
    feed = tmp_path / "f.jsonl"
    row = {
        "url": "http://h.test/1",
        "batch_id": "m",
        "outcome": "blocked",
        "error_class": "retryable",
    }
    feed.write_text(json.dumps(row) + "\n")
    assert not feeder(feed)._nothing_left(Source(str(feed)))


def test_a_manifest_is_hashed_when_its_batch_is_opened_and_not_for_each_chunk_of_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hashed(name: str) -> str:
        raise AssertionError(f"{name} was read once more")

    monkeypatch.setattr(books_module, "digest", hashed)
    opened: Any = SimpleNamespace(batches={"m": "its info"})
    assert books_module.Books.enter(opened, "m", str(path)) == "its info"


def test_a_stream_is_read(path: Path) -> None:
    assert not feeder(path, manifest="-")._nothing_left(Source("-"))
