"""What one tab's DevTools session tells: documents, failures, bytes, requests under way.

It sees; what is stopped on its way is ``gate``'s.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from retryscrape.crawl.browser.documents import Document
from retryscrape.crawl.browser.gate import Gate, Override
from retryscrape.crawl.browser.neterrors import fault_of
from retryscrape.crawl.faults import At, FetchError

if TYPE_CHECKING:
    from playwright.async_api import CDPSession

#: Requests that bring content by script; others need not be waited for.
SCRIPTED = frozenset({"XHR", "Fetch", "Script"})
#: Bytes of a request's first line but for its URL; of CONNECT and the TLS handshake of a new
#: connection (measured at a proxy; Chromium tells only which connection was used); of the TLS
#: records around a request and its answer. How many times smaller a packed page is.
_LINE, _HANDSHAKE, _RECORDS, _PACKED = 17, 3320, 44, 4


class _Flight(Struct):
    kind: str
    since: float
    main: bool
    line: int
    decoded: int = 0
    received: int = 0
    counted: int = 0
    packed: bool = False

    @property
    def size(self) -> int:
        """Bytes that came so far. Of a document Chromium tells only at its end how many."""
        return max(self.received, self.decoded // _PACKED if self.packed else self.decoded)


class Wire:
    """``max_size`` bounds a document's bytes (0: no bound); ``connections`` are those that the
    tabs of the same context have used."""

    def __init__(
        self,
        session: CDPSession,
        *,
        abort_types: tuple[str, ...],
        max_size: int = 0,
        connections: set[int] | None = None,
        login: tuple[str, str] | None = None,
    ) -> None:
        self.session = session
        self._connections = set() if connections is None else connections
        self.documents: list[Document] = []
        self.redirects: list[Document] = []
        self.committed = ""
        self.failures: dict[str, str] = {}
        self.too_large = False
        #: the target's wish for a login: Chromium makes an error of it, and drops the body
        self.unauthorized: Document | None = None
        self._asked = ""
        self.frame = ""
        self._gate = Gate(session, self, abort_types=abort_types, max_size=max_size, login=login)
        self._max_size = max_size
        self._cached = True
        self._bytes = 0
        self._flights: dict[str, _Flight] = {}
        self._changed = asyncio.Event()
        self._watched: asyncio.Future[Any] | None = None

    async def open(self) -> None:
        """Start listening."""
        handlers: dict[str, Callable[[dict[str, Any]], None]] = {
            "Fetch.requestPaused": self._gate.paused,
            "Fetch.authRequired": self._gate.login_asked,
            "Network.requestWillBeSent": self._sent,
            "Network.requestWillBeSentExtraInfo": self._sent_headers,
            "Network.responseReceivedExtraInfo": self._received_headers,
            "Network.responseReceived": self._received,
            "Network.dataReceived": self._data,
            "Network.loadingFinished": self._finished,
            "Network.loadingFailed": self._failed,
            "Page.frameNavigated": self._navigated,
        }
        for event, handler in handlers.items():
            self.session.on(event, heard(handler))
        tree, *_ = await asyncio.gather(
            self.session.send("Page.getFrameTree"),
            self.session.send("Page.enable"),
            self.session.send("Network.enable"),
            self._gate.open(),
        )
        self.frame = tree["frameTree"]["frame"]["id"]

    async def navigate(
        self, url: str, *, referrer: str = "", override: Override | None = None, cached: bool = True
    ) -> str:
        """Go to a URL; returns the error's text, or ``""`` when a document was committed."""
        self.documents.clear()
        self.redirects.clear()
        self.failures.clear()
        self.too_large = False
        self.unauthorized = None
        self._gate.aborted = 0
        if override:
            await self._gate.open(override)
        if cached != self._cached:
            await self.session.send("Network.setCacheDisabled", {"cacheDisabled": not cached})
            self._cached = cached
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
    def aborted(self) -> int:
        """Requests of this page that were not let through."""
        return self._gate.aborted

    @property
    def final(self) -> Document | None:
        """The document that the tab shows, or the last that was no page."""
        last = self.documents[-1] if self.documents else None
        return last if last is not None and last.body is not None else self.shown

    @property
    def shown(self) -> Document | None:
        """The document that the tab shows."""
        return next((d for d in reversed(self.documents) if d.id == self.committed), None)

    def check(self, document: Document | None = None) -> None:
        """Raises FetchError if something came that was too large, or the document broke off."""
        if self.too_large:
            raise FetchError("too_large", At.TARGET, detail="the document is over DOWNLOAD_MAXSIZE")
        if document is not None and document.body is None and document.id in self.failures:
            raise fault_of(self.failures[document.id])

    def whole(self, document: Document) -> bool:
        """Whether all of a document has come."""
        return document.id not in self._flights and document.id not in self.failures

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
            task = asyncio.current_task()
            spoilt = self.committed in self.failures or self.too_large
            if spoilt and not (task and task.cancelling()):
                return None
            raise
        finally:
            self._watched.cancel()
            self._watched = None

    def take_bytes(self) -> int:
        """Bytes received and sent since the last call."""
        for flight in self._flights.values():
            self._bytes += flight.size - flight.counted
            flight.counted = flight.size
        total, self._bytes = self._bytes, 0
        return total

    def keep(self, document: Document) -> None:
        """Note a document of the main frame."""
        self.documents.append(document)
        self._changed.set()

    def add_bytes(self, count: int) -> None:
        """Bytes that the session's own events do not tell of."""
        self._bytes += count

    def _sent(self, event: dict[str, Any]) -> None:
        if redirected := event.get("redirectResponse"):
            self._bytes += int(redirected.get("encodedDataLength") or 0)
        request, kind = event["request"], event.get("type", "")
        if not request["url"].startswith(("http:", "https:")):
            return
        key = event["requestId"]
        main = kind == "Document" and event.get("frameId") == self.frame
        line = len(request["url"]) + _LINE + len(request.get("postData") or "")
        self._bytes += line
        if main:
            self._asked = request["url"]
        self._flights[key] = _Flight(kind, time.monotonic(), main, line)

    def _sent_headers(self, event: dict[str, Any]) -> None:
        headers = event.get("headers") or {}
        self._bytes += sum(len(name) + len(value) + 4 for name, value in headers.items())

    def _received_headers(self, event: dict[str, Any]) -> None:
        flight = self._flights.get(event["requestId"])
        if flight and flight.main and event.get("statusCode") == 401:
            headers = tuple((event.get("headers") or {}).items())
            self.unauthorized = Document(event["requestId"], self._asked, 401, headers, b"")

    def _received(self, event: dict[str, Any]) -> None:
        response = event["response"]
        if flight := self._flights.get(event["requestId"]):
            flight.received += int(response.get("encodedDataLength") or 0)
            flight.packed = any(n.lower() == "content-encoding" for n in response["headers"])
        if response["url"].startswith("https:"):
            self._bytes += self._sealing(int(response.get("connectionId") or 0))

    def _sealing(self, connection: int) -> int:
        """Bytes of TLS. Not by ``connectionReused``: one that was opened ahead counts there as
        used before. One that never carries a request is told of nowhere."""
        if not connection:
            return 0
        new = connection not in self._connections
        self._connections.add(connection)
        return _RECORDS + (_HANDSHAKE if new else 0)

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
            self._bytes += flight.size - flight.counted
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
        if event["frame"]["id"] == self.frame:
            self.committed = event["frame"].get("loaderId", "")
            self._changed.set()


def heard(handler: Callable[[dict[str, Any]], None]) -> Callable[[dict[str, Any]], None]:
    """A listener with its signature at hand: Playwright asks for it at each event, which
    cost more than what we do about the event (a seventh of a page's CPU time)."""

    def listener(event: dict[str, Any]) -> None:
        handler(event)

    listener.__signature__ = _SIGNATURE  # type: ignore[attr-defined]
    return listener


_SIGNATURE = inspect.Signature(
    [inspect.Parameter("event", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
)
