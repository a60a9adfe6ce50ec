"""How far a run has come: the words, the pace, and what a terminal and a log get to see."""

from __future__ import annotations

import logging
import os
import pty
import re
import subprocess
import threading
from pathlib import Path

import pytest

from retryscrape.crawl import progress as shell
from retryscrape.crawl.screen import Above
from retryscrape.report.progress import Pace, Progress, sentence, span
from tests.commandline import *  # noqa: F403
from tests.commandline import HOME, Project, environment
from tests.hostile_fixture import *  # noqa: F403


def test_all_that_is_known_is_said() -> None:
    known = Progress(
        done=1200, succeeded=1000, parked=50, total=4000, waiting=7, next_due=4.2, rate=10.0
    )
    assert sentence(known) == (
        "1,200 of 4,000 done: 1,000 succeeded, 150 failed; 7 waiting (next in 4 s), 50 parked; "
        "10.0 pages/s, 5 min left"
    )


def test_what_nobody_knows_is_not_said() -> None:
    assert sentence(Progress(done=5, succeeded=5, rate=1.0)) == (
        "5 done: 5 succeeded, 0 failed; 0 waiting, 0 parked; 1.0 pages/s"
    )


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 s"), (99, "99 s"), (180, "3 min"), (7800, "2 h 10 min")]
)
def test_spans_are_said_as_people_say_them(seconds: float, text: str) -> None:
    assert span(seconds) == text


def test_the_pace_is_that_of_the_last_half_minute() -> None:
    pace = Pace(0.0)
    assert pace.rate(0.0, 0) == 0.0
    for second in range(1, 101):
        rate = pace.rate(float(second), second * 10)
    assert rate == pytest.approx(10.0)
    for second in range(101, 141):
        rate = pace.rate(float(second), 1000)
    assert rate == 0.0


def test_a_log_gets_one_line_with_the_exits() -> None:
    line = shell.in_one_line(Progress(done=1, succeeded=1, exits="2 exits: 2 work"))
    assert line.endswith("; 2 exits: 2 work")
    assert "\n" not in line


def on_a_terminal(words: list[str]) -> tuple[int, str]:
    """Run a command whose standard error is a terminal of 80 columns; code and what it showed."""
    master, slave = pty.openpty()
    env = {**environment(), "TERM": "xterm-256color", "COLUMNS": "80", "LINES": "24"}
    shown: list[bytes] = []

    def read() -> None:
        while True:
            try:
                data = os.read(master, 65536)
            except OSError:  # Linux: the other end was closed
                return
            if not data:
                return
            shown.append(data)

    reader = threading.Thread(target=read)
    process = subprocess.Popen(
        words, cwd=HOME, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=slave
    )
    os.close(slave)
    reader.start()
    process.communicate(timeout=200)
    reader.join(20)
    os.close(master)
    return process.returncode, b"".join(shown).decode()


def slow_list(project: Project, web) -> Path:
    """Twenty pages, slow enough for a person to look on."""
    return project.manifest("slow.txt", [web.url(f"/ok/{n}") for n in range(20)])


def words(project: Project, manifest: Path, progress: str) -> list[str]:
    settings = {
        "RETRYSCRAPE_PROGRESS": progress,
        "DOWNLOAD_DELAY": "0.1",
        "RANDOMIZE_DOWNLOAD_DELAY": "0",
    }
    return project.words("crawl", "pages", "-a", f"manifest={manifest}", settings=settings)


def test_on_a_terminal_a_live_line_stands_below_a_whole_log(project: Project, web) -> None:
    code, shown = on_a_terminal(words(project, slow_list(project, web), "auto"))
    assert code == 0
    assert "of 20 done:" in shown
    assert "\x1b[?25l" not in shown or shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l")
    # what stays on the screen: erased lines taken out, each line of the log is whole
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)
    logged = [line for line in re.split(r"[\r\n]+", plain) if "INFO: ok code=200" in line]
    assert len(logged) == 20
    assert all(re.fullmatch(r"\d{4}-.* \[retryscrape\] INFO: ok .*/ok/\d+", x) for x in logged)


def test_it_is_off_when_told_so(project: Project, web) -> None:
    code, shown = on_a_terminal(words(project, slow_list(project, web), "0"))
    assert code == 0
    assert "pages/s" not in shown
    assert "\x1b[2K" not in shown


def test_without_a_terminal_nothing_is_drawn(project: Project, web) -> None:
    done = project.crawl(slow_list(project, web), settings={"RETRYSCRAPE_PROGRESS": "on"})
    assert done.code == 0
    assert "\x1b" not in done.err


def test_lines_of_the_log_are_not_broken_by_the_terminals_width(capsys) -> None:
    from rich.console import Console

    console = Console(stderr=True, width=20, force_terminal=True)
    handler = logging.StreamHandler(Above(console))
    record = logging.makeLogRecord({"msg": "[bold]" + "x" * 100})
    handler.emit(record)
    assert "[bold]" + "x" * 100 + "\n" in capsys.readouterr().err
