"""A run's status for Prometheus: a text file by rename, or an endpoint (extra ``metrics``).

The numbers are those of ``run.json``; nothing is counted here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from retryscrape.crawl.runtime import UsageProblem

_ADDRESS = re.compile(r"(?P<host>[^/\s]*):(?P<port>\d{1,5})")

#: Metric, its help, its label, and where its numbers are in a status document.
_COUNTERS = (
    ("retryscrape_attempts", "Attempts of this run, by what came", "outcome", "attempts"),
    ("retryscrape_decisions", "What was decided after attempts", "action", "decisions"),
    ("retryscrape_urls", "URLs that ended in this run, by outcome", "outcome", "urls"),
)


class Metrics:
    """Serves or writes the numbers of one run; ``write`` gives a sentence if it cannot."""

    def __init__(self, registry: Any, path: Path | None, stop: Callable[[], None] | None) -> None:
        self._registry, self._path, self._stop = registry, path, stop

    def write(self) -> str | None:
        """Write the text file, if it is one."""
        if self._path is None:
            return None
        from prometheus_client import write_to_textfile

        try:
            write_to_textfile(str(self._path), self._registry)
        except OSError as error:
            return f"Setting RETRYSCRAPE_METRICS: {self._path} cannot be written: {error.strerror}."
        return None

    def close(self) -> None:
        """Give the port back."""
        if self._stop is not None:
            self._stop()


def open_metrics(target: str, documents: Callable[[], list[dict[str, Any]]]) -> Metrics:
    """Metrics at ``HOST:PORT`` or in a file. Raises UsageProblem with one sentence."""
    try:
        from prometheus_client import CollectorRegistry, start_http_server
    except ImportError:
        raise UsageProblem(
            "Setting RETRYSCRAPE_METRICS needs prometheus-client: "
            "pip install 'retryscrape[metrics]'."
        ) from None
    registry = CollectorRegistry()
    registry.register(_Collector(documents))
    address = _ADDRESS.fullmatch(target)
    if address is None:
        return Metrics(registry, Path(target), None)
    host, port = address["host"] or "127.0.0.1", int(address["port"])
    try:
        server, _ = start_http_server(port, addr=host, registry=registry)
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or error
        raise UsageProblem(
            f"Setting RETRYSCRAPE_METRICS: {host}:{port} cannot be served: {str(why).rstrip('.')}."
        ) from None
    return Metrics(registry, None, lambda: _shut(server))


def _shut(server: Any) -> None:
    server.shutdown()
    server.server_close()


class _Collector:
    """Turns the status into metrics when somebody asks."""

    def __init__(self, documents: Callable[[], list[dict[str, Any]]]) -> None:
        self._documents = documents

    def describe(self) -> list[Any]:
        """Nothing: without it the registry would collect once at its start."""
        return []

    def collect(self) -> Iterator[Any]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        documents = self._documents()
        if not documents:
            return
        first = documents[0]
        base = {"spider": first["spider"]}
        for name, text, label, field in _COUNTERS:
            family = CounterMetricFamily(name, text, labels=[*base, label])
            for word, count in first["run"][field].items():
                family.add_metric([*base.values(), str(word)], count)
            yield family
        yield from _gauges(documents, GaugeMetricFamily)


def _gauges(documents: list[dict[str, Any]], family: Any) -> Iterator[Any]:
    rows = family("retryscrape_rows", "Rows of the batch", labels=["batch", "status"])
    ended = family("retryscrape_ended", "1 when the run has ended", labels=["batch"])
    code = family("retryscrape_exit_code", "Exit code of a run that has ended", labels=["batch"])
    for document in documents:
        batch = document["batch_id"]
        for status in ("pending", "success", "failed"):
            if document["counts"]:
                rows.add_metric([batch, status], document["counts"][status])
        ended.add_metric([batch], int(document["state"] == "ended"))
        if document["exit_code"] is not None:
            code.add_metric([batch], document["exit_code"])
    waiting = family("retryscrape_waiting", "Requests that wait for their time")
    waiting.add_metric([], documents[0]["run"]["waiting"])
    yield from (rows, ended, code, waiting)
