"""The live line on a terminal. Imported only where somebody looks; what it says is progress.py's."""

from __future__ import annotations

import logging
import sys

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from retryscrape.report.progress import Progress, sentence


def open_screen() -> Screen | None:
    """The line, if standard error is a terminal that can go back in it."""
    return None if Console(stderr=True).is_dumb_terminal else Screen()


class Screen:
    """The live line, below the log: whatever writes to the terminal goes above it."""

    def __init__(self) -> None:
        console = Console(stderr=True, highlight=False, markup=False, emoji=False)
        self._live = Live(
            console=console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=sys.stdout.isatty(),
            redirect_stderr=True,
        )
        stream = sys.stderr
        self._handlers = [
            handler
            for handler in logging.root.handlers
            if isinstance(handler, logging.StreamHandler) and handler.stream is stream
        ]
        self._live.start()
        # Live hides the cursor; a killed process would leave the terminal without one.
        console.show_cursor(True)
        self._stream = stream
        for handler in self._handlers:
            handler.setStream(Above(console))

    def show(self, progress: Progress) -> None:
        """Draw it anew."""
        lines = [Text(sentence(progress), style="bold", no_wrap=True, overflow="ellipsis")]
        if progress.exits:
            lines.append(Text(progress.exits, style="dim", no_wrap=True, overflow="ellipsis"))
        self._live.update(Group(*lines), refresh=True)

    def close(self) -> None:
        """Take it away; the log goes on as it was."""
        for handler in self._handlers:
            handler.setStream(self._stream)
        self._live.stop()


class Above:
    """A stream for log handlers whose lines stand above the live line, not broken by us."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def write(self, text: str) -> int:
        if text:
            self._console.print(Text(text.removesuffix("\n")), soft_wrap=True)
        return len(text)

    def flush(self) -> None:
        self._console.file.flush()
