"""One tab's DevTools session: what went over the wire, and what is let through.

It keeps the main frame's documents, counts bytes, holds back images, fonts and media, and
takes answers that are no HTML before a viewer or a download gets them. Playwright's routes
would send every request to Python and back; here only those named are stopped.
"""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from retryscrape.crawl.browser.documents import Document, looks_html

if TYPE_CHECKING:
    from playwright.async_api import CDPSession

#: Requests that bring content by script; others need not be waited for.
SCRIPTED = frozenset({"XHR", "Fetch", "Script"})
_CHUNK = 1 << 20
#: Bytes of a request's first line but for its URL, and of CONNECT and the TLS handshake
#: (measured at a proxy: 2,400 resumed, 3,200 new; Chromium tells only that there was one).
_LINE, _HANDSHAKE = 17, 3000


@dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """What the first request of a navigation is to carry besides the browser's own."""

    url: str
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    def __bool__(self) -> bool:
        return bool(self.headers or self.body) or self.method != "GET"


@dataclass(slots=True)
class _Flight:
    kind: str
    since: float
    main: bool
    line: int
    decoded: int = 0
    received: int = 0
    counted: int = 0


class Wire:
    """``max_size`` bounds a document's bytes (0: no bound)."""

    def __init__(
        self, session: CDPSession, *, abort_types: tuple[str, ...], max_size: int = 0
    ) -> None:
        self.session = session
        self.documents: list[Document] = []
        self.redirects: list[Document] = []
        self.committed = ""
        self.failures: dict[str, str] = {}
        self.too_large = False
        self.aborted = 0
        self._abort_types = abort_types
        self._max_size = max_size
        self._frame = ""
        self._bytes = 0
        self._flights: dict[str, _Flight] = {}
        self._override: Override | None = None
        self._changed = asyncio.Event()
        self._watched: asyncio.Future[Any] | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Start listening."""
        handlers: dict[str, Callable[[dict[str, Any]], None]] = {
            "Fetch.requestPaused": self._paused,
            "Network.requestWillBeSent": self._sent,
            "Network.requestWillBeSentExtraInfo": self._sent_headers,
            "Network.responseReceived": self._received,
            "Network.dataReceived": self._data,
            "Network.loadingFinished": self._finished,
            "Network.loadingFailed": self._failed,
            "Page.frameNavigated": self._navigated,
        }
        for event, handler in handlers.items():
            self.session.on(event, handler)
        tree, *_ = await asyncio.gather(
            self.session.send("Page.getFrameTree"),
            self.session.send("Page.enable"),
            self.session.send("Network.enable"),
            self._filter(),
        )
        self._frame = tree["frameTree"]["frame"]["id"]

    async def navigate(
        self, url: str, *, referrer: str = "", override: Override | None = None, cached: bool = True
    ) -> str:
        """Go to a URL; returns the error's text, or ``""`` when a document was committed."""
        self.documents.clear()
        self.redirects.clear()
        self.failures.clear()
        self.too_large = False
        self.aborted = 0
        self._override = override or None
        if self._override:
            await self._filter()
        await self.session.send("Network.setCacheDisabled", {"cacheDisabled": not cached})
        wanted = {"url": url, **({"referrer": referrer} if referrer else {})}
        answer = await self.session.send("Page.navigate", wanted)
        loader = answer.get("loaderId", "")
        # what the tab's last page still asked for is not of this page
        ids = [document.id for document in self.documents]
        if loader in ids:
            del self.documents[: ids.index(loader)]
        self.redirects = [hop for hop in self.redirects if hop.id == loader]
        error = str(answer.get("errorText") or "")
        return self.failures.get(loader, error) if error else ""

    @property
    def final(self) -> Document | None:
        """The document that the tab shows, or the last that was no page."""
        last = self.documents[-1] if self.documents else None
        if last is not None and last.body is not None:
            return last
        return next((d for d in reversed(self.documents) if d.id == self.committed), None)

    @property
    def navigating(self) -> bool:
        """Whether the main frame is on its way to another document."""
        return any(f.main for key, f in self._flights.items() if key != self.committed) or bool(
            self.documents
            and self.documents[-1] is not self.final
            and self.documents[-1].id not in self.failures
        )

    def pending(self, younger_than: float, kinds: frozenset[str] | None = SCRIPTED) -> bool:
        """Whether requests of these kinds (None: of any) are under way, and for less than so
        many seconds: long polls and hanging trackers are not waited for."""
        since = time.monotonic() - younger_than
        flights = self._flights.values()
        return any((kinds is None or f.kind in kinds) and f.since > since for f in flights)

    async def change(self, seconds: float) -> bool:
        """Wait for the next event that matters (a document, an end, a failure)."""
        self._changed.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            return False
        return True

    async def unspoilt(self, work: Awaitable[Any]) -> Any:
        """Await work in a page; None as soon as the page's own document fails: a page that
        is cut off never finishes loading, and no script in it would be told."""
        self._watched = asyncio.ensure_future(work)
        try:
            return await self._watched
        except asyncio.CancelledError:
            if self.committed in self.failures or self.too_large:
                return None
            raise
        finally:
            self._watched.cancel()
            self._watched = None

    def take_bytes(self) -> int:
        """Bytes received and sent since the last call."""
        for flight in self._flights.values():
            self._bytes += flight.received - flight.counted
            flight.counted = flight.received
        total, self._bytes = self._bytes, 0
        return total

    async def _filter(self) -> None:
        patterns: list[dict[str, str]] = [{"resourceType": "Document", "requestStage": "Response"}]
        patterns += [{"resourceType": kind} for kind in self._abort_types]
        if "Image" in self._abort_types:
            patterns.append({"resourceType": "Other", "urlPattern": "*/favicon.ico"})
        if self._override:
            patterns.append({"resourceType": "Document", "requestStage": "Request"})
        await self.session.send("Fetch.enable", {"patterns": patterns})

    # Fetch: what is stopped on its way

    def _paused(self, event: dict[str, Any]) -> None:
        answered = "responseStatusCode" in event or "responseErrorReason" in event
        if answered:
            work = self._document(event)
        elif event.get("resourceType") == "Document":
            work = self._overridden(event)
        else:
            self.aborted += 1
            work = self._send("Fetch.failRequest", event, errorReason="BlockedByClient")
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send(self, command: str, event: dict[str, Any], **params: Any) -> None:
        with suppress(Exception):  # the tab may be gone by now, and the request with it
            await self.session.send(command, {"requestId": event["requestId"], **params})

    async def _document(self, event: dict[str, Any]) -> None:
        if event["frameId"] != self._frame or "responseErrorReason" in event:
            return await self._send("Fetch.continueRequest", event)
        headers = tuple((h["name"], h["value"]) for h in event.get("responseHeaders") or ())
        document = Document(
            id=event.get("networkId", ""),
            url=event["request"]["url"],
            status=event["responseStatusCode"],
            headers=headers,
        )
        if not headers and document.status == 200:
            # Chromium takes anything for HTTP/0.9: an SSH banner would be a page with status 200
            self.failures[document.id] = "net::ERR_INVALID_HTTP_RESPONSE"
            return await self._send("Fetch.failRequest", event, errorReason="Failed")
        length = document.header("content-length")
        if self._max_size and length.isdigit() and int(length) > self._max_size:
            self.too_large = True
            return await self._send("Fetch.failRequest", event, errorReason="Aborted")
        if document.redirect:
            self.redirects.append(document)
            return await self._send("Fetch.continueRequest", event)
        if document.status in (204, 205):
            # the page that was there stays
            document.body = b""
            if not self.documents:
                self._keep(document)
            return await self._send("Fetch.continueRequest", event)
        if document.rendered is True:
            self._keep(document)
            return await self._send("Fetch.continueRequest", event)
        return await self._take(document, event)

    async def _take(self, document: Document, event: dict[str, Any]) -> None:
        """Read an answer's bytes; only one of no told type that looks like a page goes on."""
        body = b""
        with suppress(Exception):
            body = await self._body(event)
        if document.rendered is None and looks_html(body):
            headers = [{"name": n, "value": v} for n, v in document.headers]
            headers.append({"name": "Content-Type", "value": "text/html"})
            self._keep(document)
            return await self._send(
                "Fetch.fulfillRequest",
                event,
                responseCode=document.status,
                responseHeaders=headers,
                body=base64.b64encode(body).decode(),
            )
        length = document.header("content-length")
        self._bytes += int(length) if length.isdigit() else len(body)
        self._bytes += sum(len(n) + len(v) + 4 for n, v in document.headers)
        document.body = body
        self._keep(document)
        return await self._send("Fetch.failRequest", event, errorReason="Aborted")

    async def _body(self, event: dict[str, Any]) -> bytes:
        taken = await self.session.send(
            "Fetch.takeResponseBodyAsStream", {"requestId": event["requestId"]}
        )
        parts, size = [], 0
        while True:
            chunk = await self.session.send("IO.read", {"handle": taken["stream"], "size": _CHUNK})
            data = chunk["data"]
            parts.append(base64.b64decode(data) if chunk.get("base64Encoded") else data.encode())
            size += len(parts[-1])
            if self._max_size and size > self._max_size:
                self.too_large = True
                return b""
            if chunk["eof"]:
                return b"".join(parts)

    async def _overridden(self, event: dict[str, Any]) -> None:
        override, request = self._override, event["request"]
        if override is None or event["frameId"] != self._frame:
            return await self._send("Fetch.continueRequest", event)
        self._override = None  # the first request only: a redirect must not carry it elsewhere
        headers = {**request["headers"], **override.headers}
        params: dict[str, Any] = {"method": override.method}
        params["headers"] = [{"name": n, "value": v} for n, v in headers.items()]
        if override.body:
            params["postData"] = base64.b64encode(override.body).decode()
        return await self._send("Fetch.continueRequest", event, **params)

    def _keep(self, document: Document) -> None:
        self.documents.append(document)
        self._changed.set()

    # Network and Page: what is seen

    def _sent(self, event: dict[str, Any]) -> None:
        if redirected := event.get("redirectResponse"):
            self._bytes += int(redirected.get("encodedDataLength") or 0)
        request, kind = event["request"], event.get("type", "")
        if not request["url"].startswith(("http:", "https:")):
            return
        key = event["requestId"]
        main = kind == "Document" and event.get("frameId") == self._frame
        line = len(request["url"]) + _LINE + len(request.get("postData") or "")
        self._bytes += line
        self._flights[key] = _Flight(kind, time.monotonic(), main, line)

    def _sent_headers(self, event: dict[str, Any]) -> None:
        headers = event.get("headers") or {}
        self._bytes += sum(len(name) + len(value) + 4 for name, value in headers.items())

    def _received(self, event: dict[str, Any]) -> None:
        response = event["response"]
        if flight := self._flights.get(event["requestId"]):
            flight.received += int(response.get("encodedDataLength") or 0)
        if not response.get("connectionReused", True) and response["url"].startswith("https:"):
            self._bytes += _HANDSHAKE

    def _data(self, event: dict[str, Any]) -> None:
        if flight := self._flights.get(event["requestId"]):
            flight.received += int(event.get("encodedDataLength") or 0)
            flight.decoded += int(event.get("dataLength") or 0)
            if flight.main and 0 < self._max_size < flight.decoded:
                self.too_large = True
                self._spoil()

    def _finished(self, event: dict[str, Any]) -> None:
        if flight := self._flights.pop(event["requestId"], None):
            length = int(event.get("encodedDataLength") or 0)
            self._bytes += max(flight.received, length) - flight.counted
            self._changed.set()

    def _failed(self, event: dict[str, Any]) -> None:
        if flight := self._flights.pop(event["requestId"], None):
            self._bytes += flight.received - flight.counted
            if "BLOCKED" in event.get("errorText", ""):
                self._bytes -= flight.line
            # cancelled: the page itself went elsewhere while it still loaded
            if flight.main and not event.get("canceled"):
                self.failures.setdefault(event["requestId"], str(event.get("errorText") or ""))
                self._spoil()
            self._changed.set()

    def _spoil(self) -> None:
        self._changed.set()
        if self._watched:
            self._watched.cancel()

    def _navigated(self, event: dict[str, Any]) -> None:
        if event["frame"]["id"] == self._frame:
            self.committed = event["frame"].get("loaderId", "")
            self._changed.set()
