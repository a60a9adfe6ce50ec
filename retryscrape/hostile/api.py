"""A scraping API that misbehaves: both kinds of protocol, every fault, and a bill per URL.

What goes wrong is said by the URL that is ordered: ``?api=reset,twice&times=1`` are faults
of its first order (``FAULTS``), ``&page=gone`` is what its site answers (``PAGES``),
``&ms=50`` how long it takes. Keys: any, but ``wrong`` is a 401 and ``poor`` a 402.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from retryscrape.hostile.api_hooks import Hooks
from retryscrape.hostile.text import article, page
from retryscrape.hostile.wire import End, Reply, Request, Send, answer, head

#: Faults of an order, of its reads, of its events and of its result in a batch.
FAULTS: Mapping[str, str] = {
    "refuse": "429, no task is made",
    "busy": "503, no task is made",
    "reject": "422, no task is made",
    "reset": "the task is made, then the connection is reset",
    "silent": "the task is made, the answer is a 500",
    "noid": "the task is made, the answer holds no id",
    "lost": "reads are 404",
    "never": "it never finishes",
    "stumble": "the first read is a 500, the second one is cut off",
    "fail": "success: false",
    "fail500": "success: false, with status 500 and the header that ends it",
    "garbage": "it ends with a result that is no JSON",
    "early": "its event comes before the answer that names its id",
    "twice": "its event comes twice",
    "forged": "its event comes with a wrong signature first",
    "mute": "its event never comes",
    "absent": "not in the batch's results",
    "doubled": "twice in the batch's results, the worse one last",
    "stranger": "the batch's results have a URL that nobody asked for",
    "broken": "its result in the batch is a failure",
}

#: What the site behind the URL answers: status, body, headers.
_HTML = {"Content-Type": "text/html; charset=iso-8859-1", "Content-Encoding": "br"}
PAGES: Mapping[str, tuple[int, str, Mapping[str, str]]] = {
    "blocked": (403, page("Just a moment...", "<p>wait</p>"), {"cf-mitigated": "challenge"}),
    "gone": (404, page("Not found", "<h1>404</h1>"), _HTML),
    "empty": (200, " ", _HTML),
    "thin": (200, page("Thin", "<p>thin</p>"), _HTML),
}


@dataclass(slots=True)
class Work:
    """One URL that was paid for."""

    url: str
    mode: str
    faults: frozenset[str]
    ready: float
    params: Mapping[str, str]
    reads: int = 0

    @property
    def credits(self) -> int:
        """What it costs."""
        return 5 if self.mode == "browser" else 1

    def result(self) -> tuple[int, str, Mapping[str, str]]:
        """What its site answered."""
        own = PAGES.get(self.params.get("page", ""))
        return own or (200, article(self.url), _HTML)


@dataclass(slots=True)
class Stand:
    """The stand-in. ``bill`` counts how often each URL was paid for, ``seen`` what was asked."""

    bill: Counter[str] = field(default_factory=Counter)
    seen: Counter[str] = field(default_factory=Counter)
    orders: Counter[str] = field(default_factory=Counter)
    tasks: dict[str, Work] = field(default_factory=dict)
    batches: dict[str, list[Work]] = field(default_factory=dict)
    sizes: list[int] = field(default_factory=list)
    bodies: list[Any] = field(default_factory=list)
    hooks: Hooks = field(default_factory=Hooks)
    _ids: Any = field(default_factory=lambda: itertools.count(1))

    def clear(self) -> None:
        """As at the start (ids go on: an old one must not come to mean another task)."""
        for part in (self.bill, self.seen, self.orders, self.tasks, self.batches):
            part.clear()
        self.sizes.clear()
        self.bodies.clear()
        self.hooks.clear()

    def describe(self) -> dict[str, Any]:
        """The bill and what happened, as JSON can say it."""
        return {
            "bill": dict(self.bill),
            "seen": dict(self.seen),
            "sizes": self.sizes,
            "bodies": self.bodies,
            "events": self.hooks.answers,
        }

    async def respond(self, request: Request) -> Reply:
        """One request to the API."""
        try:
            return await self._respond(request)
        except (KeyError, TypeError, ValueError) as error:
            return _say({"error": f"{type(error).__name__}: {error}"}, 400)

    async def _respond(self, request: Request) -> Reply:
        key = request.header("x-api-key") or request.header("authorization").removeprefix("Bearer ")
        if key in {"", "wrong", "poor"}:
            return _say({"error": f"the key {key!r} is no good"}, 402 if key == "poor" else 401)
        path = request.path.rstrip("/")
        if request.method == "POST" and path == "/realtime":
            return await self._one(json.loads(request.body))
        if request.method == "POST" and path == "/async/batch":
            return await self._many(json.loads(request.body))
        if request.method == "GET" and path.startswith("/tasks/"):
            return self._read(path.removeprefix("/tasks/"))
        if request.method == "GET" and path.startswith("/async/batch/"):
            return self._read_batch(path.removeprefix("/async/batch/"))
        return _say({"error": "no such endpoint"}, 404)

    # --- orders ----------------------------------------------------------------

    async def _one(self, order: dict[str, Any]) -> Reply:
        self.seen["orders"] += 1
        self.bodies.append(order)
        work = self._work(order["url"], order.get("mode", "request"))
        if no := _not_made(work.faults):
            return no
        task_id = f"t{next(self._ids)}"
        self._make(task_id, [work])
        self.tasks[task_id] = work
        told = self.hooks.order(order.get("webhook"), work.faults)
        return await self._answered(
            work.faults, told, {"task_id": task_id}, {"event": "completed"}, work
        )

    async def _many(self, order: dict[str, Any]) -> Reply:
        self.seen["batches"] += 1
        self.bodies.append(order)
        works = [self._work(one["url"], "request") for one in order["requests"]]
        faults = frozenset().union(*(work.faults for work in works))
        if no := _not_made(faults):
            # those that are not to blame have seen nothing of it
            self.orders.subtract(work.url for work in works if not _not_made(work.faults))
            return no
        batch_id = f"b{next(self._ids)}"
        self._make(batch_id, works)
        self.sizes.append(len(works))
        self.batches[batch_id] = works
        told = self.hooks.batch(order.get("callback_url"), faults)
        last = max(works, key=lambda work: work.ready)
        return await self._answered(
            faults, told, {"batch_id": batch_id}, {"status": "completed"}, last
        )

    def _work(self, url: str, mode: str) -> Work:
        params = dict(parse_qsl(urlsplit(url).query))
        self.orders[url] += 1
        late = self.orders[url] > int(params.get("times", 1))
        faults = frozenset() if late else frozenset(params.get("api", "").split(",")) - {""}
        if unknown := faults - FAULTS.keys():
            raise ValueError(f"no fault of an API is called {', '.join(sorted(unknown))}")
        ready = asyncio.get_running_loop().time() + float(params.get("ms", 30)) / 1000
        return Work(url, mode, faults, ready, params)

    def _make(self, task_id: str, works: list[Work]) -> None:
        self.seen["made"] += 1
        now = asyncio.get_running_loop().time()
        under_way = 1 + sum(work.ready > now for work in self.tasks.values())
        self.seen["at_once"] = max(self.seen["at_once"], under_way)
        for url in {work.url for work in works}:
            self.bill[url] += 1

    async def _answered(
        self,
        faults: frozenset[str],
        told: Any,
        name: dict[str, Any],
        event: dict[str, Any],
        work: Work,
    ) -> Reply:
        """The answer to an order whose task exists, with the events that belong to it."""
        await self.hooks.plan(told, {**name, **event}, faults, work.ready)
        if "reset" in faults:
            return (End.RESET,)
        if "silent" in faults:
            return _say({"error": "internal"}, 500)
        return _say({} if "noid" in faults else name, 202)

    # --- reads -----------------------------------------------------------------

    def _read(self, task_id: str) -> Reply:
        self.seen["reads"] += 1
        work = self.tasks.get(task_id)
        if work is None or "lost" in work.faults:
            return _say({"error": "no such task"}, 404)
        work.reads += 1
        if "stumble" in work.faults and work.reads < 3:
            return _say({"error": "oops"}, 500) if work.reads == 1 else _cut()
        if "never" in work.faults or asyncio.get_running_loop().time() < work.ready:
            return _say({"success": None, "state": "running"}, 202)
        ended = {"x-task-finished-at": "2026-01-01T00:00:00Z"}
        if "garbage" in work.faults:
            return answer("<html>oops", 200, headers=ended)
        if work.faults & {"fail", "fail500"}:
            failed = {"success": False, "error": "the exit timed out", "credits_used": 1}
            return _say(failed, 500 if "fail500" in work.faults else 200, ended)
        status, body, headers = work.result()
        done = {
            "success": True,
            "status_code": status,
            "content": body,
            "headers": {"response_headers": dict(headers)},
            "credits_used": work.credits,
            "mode_used": work.mode,
        }
        return _say(done, 200, ended)

    def _read_batch(self, batch_id: str) -> Reply:
        self.seen["reads"] += 1
        works = self.batches.get(batch_id)
        if works is None or any("lost" in work.faults for work in works):
            return _say({"error": "no such batch"}, 404)
        now = asyncio.get_running_loop().time()
        never = any("never" in work.faults for work in works)
        running = never or any(now < work.ready for work in works)
        results = [one for work in reversed(works) if work.ready <= now for one in _results(work)]
        state = "processing" if running else "completed"
        return _say({"batch_id": batch_id, "status": state, "results": results})


def _results(work: Work) -> list[dict[str, Any]]:
    """One URL's results in a batch."""
    if "absent" in work.faults:
        return []
    status, body, _ = work.result()
    good = {
        "url": work.url,
        "status": "completed",
        "content": body,
        "http_code": status,
        "error": None,
        "job_id": f"j-{work.url[-8:]}",
        "finished_at": "2026-01-01T00:00:00Z",
    }
    bad = good | {"status": "failed", "content": None, "http_code": None, "error": "render failed"}
    if "broken" in work.faults:
        return [bad]
    found = [good, bad] if "doubled" in work.faults else [good]
    return [*found, good | {"url": "http://stranger.test/"}] if "stranger" in work.faults else found


def _not_made(faults: frozenset[str]) -> Reply | None:
    for name, status in (("refuse", 429), ("busy", 503), ("reject", 422)):
        if name in faults:
            return _say({"error": f"{name}ed"}, status)
    return None


def _say(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Reply:
    return answer(json.dumps(value), status, "application/json", headers or {})


def _cut() -> Reply:
    """Half an answer."""
    return (Send(head(200, [("Content-Length", "9999")]) + b'{"succ'), End.RESET)
