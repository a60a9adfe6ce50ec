"""What the browser's process tells besides its answers: stats and log lines, for the crawl to
keep as its own."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from logging.handlers import QueueHandler
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from retryscrape.crawl.browser.orders import Counts, Line

if TYPE_CHECKING:
    from scrapy.statscollectors import StatsCollector

#: Of a log record's attributes, those that are the record's own and can be sent.
_ATTRIBUTES = (
    *("name", "msg", "levelname", "levelno", "created", "msecs"),
    *("pathname", "filename", "module", "lineno", "funcName"),
    *("thread", "threadName", "process", "processName"),
)


class Tally:
    """Stands in for a stats collector, and notes what was asked of it. Any thread may."""

    def __init__(self) -> None:
        self._noted: deque[tuple[str, str, Any]] = deque()

    def inc_value(self, key: str, count: int = 1) -> None:
        self._noted.append(("inc_value", key, count))

    def max_value(self, key: str, value: Any) -> None:
        self._noted.append(("max_value", key, value))

    def set_value(self, key: str, value: Any) -> None:
        self._noted.append(("set_value", key, value))

    def counts(self) -> Counts:
        """What was noted since the last call."""
        return Counts([self._noted.popleft() for _ in range(len(self._noted))])


def count(stats: StatsCollector, counts: Counts) -> None:
    """Do to the crawl's stats what was noted."""
    for operation, key, value in counts.operations:
        getattr(stats, operation)(key, value)


class Lines(QueueHandler):
    """Sends log records. As text, tracebacks too: what is in them may not be sent, and the
    crawl's filter looks for secrets in the text."""

    def __init__(self, send: Callable[[Line], object]) -> None:
        super().__init__(SimpleQueue())  # which stays empty
        self._send = send

    def enqueue(self, record: logging.LogRecord) -> None:
        self._send(Line({name: getattr(record, name, None) for name in _ATTRIBUTES}))


def log(line: Line) -> None:
    """Log a record as if it had been made here."""
    record = logging.makeLogRecord(line.record)
    logger = logging.getLogger(record.name)
    if logger.isEnabledFor(record.levelno):
        logger.handle(record)
