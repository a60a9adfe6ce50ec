"""Ctrl-C and SIGTERM where no crawl takes them: loops, checks and commands end in order."""

from __future__ import annotations

import os
import signal
import time
from argparse import Namespace
from pathlib import Path

import pytest
from scrapy.settings import Settings
from scrapy.utils.test import get_crawler

from retryscrape.command import LedgerCommand
from retryscrape.crawl import session
from retryscrape.crawl.passes import Interrupted, Pass, Runner
from retryscrape.ledger.split import Helper


def test_a_second_signal_does_not_break_what_the_first_one_ends() -> None:
    runner = Runner()
    with runner.handling():
        with pytest.raises(Interrupted):
            os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)  # while the feed is written
    assert runner.signalled == signal.SIGTERM


def test_a_signal_before_its_pass_has_begun_reaches_the_pass(monkeypatch) -> None:
    monkeypatch.setattr(Pass, "command", lambda _: ["sleep", "60"])
    runner, began = Runner(), time.monotonic()
    with runner.handling():
        runner.signalled = signal.SIGTERM
        code = runner.run(Pass(spider="pages", arguments={}, settings=()), seconds=60)
    assert code == -signal.SIGTERM
    assert time.monotonic() - began < 30


def test_a_signal_while_the_run_is_closed_leaves_its_last_words_for_the_end(monkeypatch) -> None:
    said = []
    monkeypatch.setattr(session, "summary", lambda run: [said.append(run)])
    closing = session.Session(get_crawler())
    closing.run.books = closing  # type: ignore[assignment]
    closing._closed = True  # on its thread it goes on
    closing.stopped()
    assert said == []
    closing._last_resort()
    assert said == [closing.run]


def test_the_second_process_of_a_check_leaves_ctrl_c_to_the_first(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    ready = tmp_path / "ready"

    def work(emit) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        emit("still there")
        ready.touch()
        time.sleep(60)

    def interrupted() -> None:
        with Helper(work):
            while not ready.exists():
                time.sleep(0.01)
            raise KeyboardInterrupt  # as if Ctrl-C had come: it is ended, too, without a word

    with Runner().handling(), pytest.raises(KeyboardInterrupt):
        interrupted()
    assert capfd.readouterr().err == ""


def test_ctrl_c_ends_a_command_with_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    class Slow(LedgerCommand):
        create = True

        def short_desc(self) -> str:
            return "wait for ever"

        def work(self, args: list[str], opts: Namespace) -> int:
            raise KeyboardInterrupt

    command = Slow()
    command.settings = Settings({"RETRYSCRAPE_OUT": str(tmp_path)})
    command.run([], Namespace())
    assert command.exitcode == 130
    assert "interrupted" in capsys.readouterr().err
