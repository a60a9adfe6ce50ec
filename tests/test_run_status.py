"""``run.json`` and the metrics: what schedulers see of a run while it goes on and after it."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from scrapy.utils.test import get_crawler

from retryscrape.crawl.metrics import open_metrics
from retryscrape.crawl.runtime import Run, UsageProblem
from retryscrape.crawl.status import RunStatus, file_name, meant_batch, rows
from retryscrape.hostile.process import WebHandle
from retryscrape.ledger.records import Counts
from retryscrape.policy.outcomes import ErrorClass, Outcome, Status
from retryscrape.spiders.pages import PagesSpider
from tests.hostile_fixture import hostile_session, web
from tests.scrapyd_fixture import free_port, until
from tests.test_webhook import crawl

__all__ = ["hostile_session", "web"]

COUNTS = Counts(
    groups={
        (Status.SUCCESS, Outcome.OK, None): 5,
        (Status.FAILED, Outcome.GONE, ErrorClass.PERMANENT): 2,
        (Status.FAILED, Outcome.BLOCKED, ErrorClass.RETRYABLE): 1,
        (Status.PENDING, None, None): 3,
    }
)


def status(tmp_path: Path, **settings: Any) -> RunStatus:
    crawler = get_crawler(PagesSpider, {"RETRYSCRAPE_OUT": str(tmp_path), **settings})
    return RunStatus(Run.of(crawler))


def document(out: Path, batch: str = "b") -> dict[str, Any]:
    found: dict[str, Any] = json.loads((out / batch / "run.json").read_text())
    return found


def test_counts_are_the_rows_by_status_and_outcome() -> None:
    assert rows(COUNTS) == {
        "rows": 11,
        "pending": 3,
        "success": 5,
        "failed": 3,
        "open": 4,
        "by_outcome": {"ok": 5, "gone": 2, "blocked": 1, "pending": 3},
    }
    assert rows(None) is None


@pytest.mark.parametrize(
    ("given", "batch"),
    [
        ({"manifest": "lists/shop.txt.gz"}, "shop"),
        ({"manifest": "lists/shop.txt", "batch": "night"}, "night"),
        ({"batch": "../up"}, ""),
        ({"manifest": "-"}, ""),
        ({}, ""),
    ],
)
def test_a_refused_run_is_said_where_its_batch_would_be(given: dict[str, str], batch: str) -> None:
    assert meant_batch(given) == batch


def test_the_file_says_why_a_run_was_refused(tmp_path: Path) -> None:
    refused = status(tmp_path)
    refused.run.exit_code = 2
    refused.refuse("Argument shard must be K/N.", {"manifest": "b.txt", "_job": "j7"})
    said = document(tmp_path)
    assert (said["job_id"], said["state"], said["finish_reason"]) == ("j7", "ended", "usage")
    assert said["stopped_early"] == "Argument shard must be K/N."
    assert said["meaning"].startswith("usage: ")
    assert said["counts"] is None


def test_it_is_written_again_and_again(tmp_path: Path) -> None:
    kept = status(tmp_path)
    kept.meant = "b"
    stamps: set[int] = set()

    async def watch() -> None:
        task = asyncio.ensure_future(kept.keep(every=0.01))
        while len(stamps) < 3:
            await asyncio.sleep(0.005)
            path = tmp_path / "b" / "run.json"
            if path.exists():
                json.loads(path.read_text())
                stamps.add(path.stat().st_ino)
        task.cancel()

    asyncio.run(asyncio.wait_for(watch(), 20))
    assert len(stamps) == 3
    assert [p.name for p in (tmp_path / "b").iterdir()] == ["run.json"]


def test_a_folder_that_cannot_be_written_is_a_warning_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "b").write_text("a file where the folder should be")
    kept = status(tmp_path)
    kept.meant = "b"
    kept.write()
    kept.write()
    said = [r.getMessage() for r in caplog.records if "run.json" in r.getMessage()]
    assert said == ["run.json could not be written: File exists"]


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"manifest": "m"}, "run.json"),
        ({"manifest": "m", "shard": "2/4"}, "run-2-of-4.json"),
        ({"batch": "b", "work": "ledger"}, "run-a_b.json"),
    ],
)
def test_runs_that_share_a_batch_have_a_file_each(
    tmp_path: Path, arguments: dict[str, str], name: str
) -> None:
    from retryscrape.crawl.arguments import Arguments

    run = status(tmp_path).run
    run.arguments, run.job_id = Arguments.from_kwargs(arguments), "a/b"
    assert file_name(run) == name


def test_secrets_are_masked_in_every_field(tmp_path: Path) -> None:
    kept = status(tmp_path, RETRYSCRAPE_LEDGER="postgresql://user:p4ssword@db/x")
    kept.run.secrets.add("t0psecret")
    kept.run.stop_reason = "exit http://u:t0psecret@127.0.0.1:1 is out"
    text = json.dumps(kept.document("b", COUNTS))
    assert "p4ssword" not in text
    assert "t0psecret" not in text


# --- in a run ---------------------------------------------------------------------


@contextmanager
def running(out: Path, *settings: str, urls: str) -> Iterator[subprocess.Popen[bytes]]:
    """A crawl that goes on until the block ends."""
    command = [sys.executable, "-m", "scrapy", "crawl", "pages", "-a", f"urls={urls}"]
    for setting in (f"RETRYSCRAPE_OUT={out}", "LOG_ENABLED=0", *settings):
        command += ["-s", setting]
    with subprocess.Popen([*command, "-a", "batch=b"], cwd=Path(__file__).parent.parent) as process:
        try:
            yield process
        finally:
            process.terminate()
            process.wait(30)


def test_a_run_is_seen_while_it_goes_on_and_served_to_prometheus(
    web: WebHandle, tmp_path: Path
) -> None:
    port = free_port()
    metrics = f"RETRYSCRAPE_METRICS=127.0.0.1:{port}"
    urls = f"{web.url('/ok/1')} {web.url('/hang/1', '127.0.0.2')}"
    with running(tmp_path, metrics, urls=urls):
        until((tmp_path / "b" / "run.json").exists, "run.json")
        said = document(tmp_path)
        assert (said["state"], said["exit_code"], said["ended_at"]) == ("running", None, None)

        def scraped() -> str:
            with urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
                return str(answer.read().decode())

        line = 'retryscrape_urls_total{outcome="ok",spider="pages"} 1.0'
        until(lambda: line in scraped(), "a page")
        assert 'retryscrape_ended{batch="b"} 0.0' in scraped()
    said = document(tmp_path)
    assert (said["state"], said["finish_reason"], said["exit_code"]) == ("ended", "shutdown", 1)
    assert (said["counts"]["success"], said["counts"]["open"]) == (1, 1)


def test_a_text_file_for_node_exporter_is_written_with_the_last_numbers(
    web: WebHandle, tmp_path: Path
) -> None:
    path = tmp_path / "shop.prom"
    urls = f"{web.url('/ok/1')} {web.url('/gone/1')}"
    code, said = crawl(tmp_path, f"RETRYSCRAPE_METRICS={path}", urls=urls, batch="b")
    assert code == 0, said
    text = path.read_text()
    for line in (
        'retryscrape_rows{batch="b",status="success"} 1.0',
        'retryscrape_rows{batch="b",status="failed"} 1.0',
        'retryscrape_attempts_total{outcome="gone",spider="pages"} 1.0',
        'retryscrape_exit_code{batch="b"} 0.0',
        'retryscrape_ended{batch="b"} 1.0',
    ):
        assert line in text.splitlines()


def test_a_run_that_is_refused_late_says_so_in_its_file(tmp_path: Path) -> None:
    code, said = crawl(
        tmp_path, "RETRYSCRAPE_METRICS=127.0.0.1:99999", urls="http://127.0.0.1:9/", batch="b"
    )
    assert code == 2, said
    found = document(tmp_path)
    assert (found["finish_reason"], found["exit_code"]) == ("usage", 2)
    assert found["stopped_early"].startswith("Setting RETRYSCRAPE_METRICS: 127.0.0.1:99999 ")


def test_metrics_that_cannot_be_served_are_a_usage_error() -> None:
    with pytest.raises(UsageProblem, match=r"^Setting RETRYSCRAPE_METRICS: 127\.0\.0\.1:99999 "):
        open_metrics("127.0.0.1:99999", list)


def test_without_prometheus_client_the_sentence_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(UsageProblem, match=r"pip install 'retryscrape\[metrics\]'"):
        open_metrics("shop.prom", list)
