"""What one tab's requests and documents are stopped for, by the DevTools domain Fetch.

Images, fonts and media are dropped, answers that are no HTML are taken before a viewer or
a download gets them. Playwright's routes would send every request to Python and back.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct, field

from retryscrape.crawl.browser.documents import Document, looks_html
from retryscrape.crawl.tasks import kept

if TYPE_CHECKING:
    from playwright.async_api import CDPSession

_CHUNK = 1 << 20


class Override(Struct, frozen=True, kw_only=True):
    """What the first request of a navigation is to carry besides the browser's own."""

    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    def __bool__(self) -> bool:
        return bool(self.headers or self.body) or self.method != "GET"


class Record(Protocol):
    """Where the gate writes down what it saw (the tab's wire)."""

    frame: str
    documents: list[Document]
    redirects: list[Document]
    failures: dict[str, str]
    too_large: bool

    def keep(self, document: Document) -> None: ...
    def add_bytes(self, count: int) -> None: ...


class Gate:
    """``max_size`` bounds a document's bytes (0: no bound); ``login`` is what the exit is told.

    Playwright logs in at proxies itself, but some Chromiums (150) ask the session that was
    opened last, which is ours.
    """

    def __init__(
        self,
        session: CDPSession,
        record: Record,
        *,
        abort_types: tuple[str, ...],
        max_size: int,
        login: tuple[str, str] | None = None,
    ) -> None:
        self.aborted = 0
        self._login = login
        self._told: set[str] = set()
        self._session = session
        self._record = record
        self._abort_types = abort_types
        self._max_size = max_size
        self._override: Override | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self, override: Override | None = None) -> None:
        """Stop what is to be stopped from now on; ``override`` is for the next navigation."""
        self._override = override
        patterns: list[dict[str, str]] = [{"resourceType": "Document", "requestStage": "Response"}]
        patterns += [{"resourceType": kind} for kind in self._abort_types]
        if "Image" in self._abort_types:
            patterns.append({"resourceType": "Other", "urlPattern": "*/favicon.ico"})
        if override or self._login:  # who does not see the request is not asked for a login
            patterns.append({"resourceType": "Document", "requestStage": "Request"})
        asks = {"handleAuthRequests": self._login is not None}
        await self._session.send("Fetch.enable", {"patterns": patterns, **asks})

    def login_asked(self, event: dict[str, Any]) -> None:
        """Somebody wants a login: the exit is told once for each request, a target never."""
        answer: dict[str, str] = {"response": "Default"}
        key = event["requestId"]
        if self._login and event.get("authChallenge", {}).get("source") == "Proxy":
            user, password = self._login
            answer = {"response": "ProvideCredentials", "username": user, "password": password}
            if key in self._told:
                answer = {"response": "CancelAuth"}
            self._told.add(key)
        self._do(self._send("Fetch.continueWithAuth", event, authChallengeResponse=answer))

    def paused(self, event: dict[str, Any]) -> None:
        """A request, or the answer to one, waits for a decision."""
        if "responseStatusCode" in event or "responseErrorReason" in event:
            work = self._document(event)
        elif event.get("resourceType") == "Document":
            work = self._overridden(event)
        else:
            self.aborted += 1
            work = self._fail(event, "BlockedByClient")
        self._do(work)

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        kept(work, self._tasks)

    async def _document(self, event: dict[str, Any]) -> None:
        if event["frameId"] != self._record.frame or "responseErrorReason" in event:
            return await self._go_on(event)
        document = Document(
            id=event.get("networkId", ""),
            url=event["request"]["url"],
            status=event["responseStatusCode"],
            headers=tuple((h["name"], h["value"]) for h in event.get("responseHeaders") or ()),
        )
        length = document.length
        if not document.headers and document.status == 200:
            # Chromium takes anything for HTTP/0.9: an SSH banner would be a page with status 200
            self._record.failures[document.id] = "net::ERR_INVALID_HTTP_RESPONSE"
            return await self._fail(event, "Failed")
        if self._max_size and length is not None and length > self._max_size:
            self._record.too_large = True
            return await self._fail(event, "Aborted")
        if document.redirect:
            self._record.redirects.append(document)
        elif document.status in (204, 205):
            document.body = b""
            if not self._record.documents:  # else the page that was there stays
                self._record.keep(document)
        elif document.rendered:
            self._record.keep(document)
        else:
            return await self._take(document, event)
        return await self._go_on(event)

    async def _take(self, document: Document, event: dict[str, Any]) -> None:
        """Read an answer's bytes; only one of no told type that looks like a page goes on."""
        body = await self._body(document, event)
        if body is None:
            return await self._fail(event, "Failed")
        if document.rendered is None and looks_html(body):
            self._record.keep(document)
            return await self._fulfil(document, body, event)
        self._record.add_bytes(len(body) if document.length is None else document.length)
        self._record.add_bytes(sum(len(n) + len(v) + 4 for n, v in document.headers))
        document.body = body
        self._record.keep(document)
        return await self._fail(event, "Aborted")

    async def _body(self, document: Document, event: dict[str, Any]) -> bytes | None:
        """All bytes; None, and the record says why, if there are too many or too few."""
        parts, size = [], 0
        truncated = "net::ERR_CONTENT_LENGTH_MISMATCH"
        try:
            wanted = {"requestId": event["requestId"]}
            taken = await self._session.send("Fetch.takeResponseBodyAsStream", wanted)
            read = {"handle": taken["stream"], "size": _CHUNK}
            while True:
                chunk = await self._session.send("IO.read", read)
                data = chunk["data"]
                coded = chunk.get("base64Encoded")
                parts.append(base64.b64decode(data) if coded else data.encode())
                size += len(parts[-1])
                if self._max_size and size > self._max_size:
                    self._record.too_large = True
                    return None
                if chunk["eof"]:
                    break
        except Exception:  # Playwright's, which is not imported here: the stream broke off
            self._record.failures[document.id] = truncated
            return None
        if not document.header("content-encoding") and size < (document.length or 0):
            self._record.failures[document.id] = truncated
            return None
        return b"".join(parts)

    async def _overridden(self, event: dict[str, Any]) -> None:
        override, request = self._override, event["request"]
        if override is None or event["frameId"] != self._record.frame:
            return await self._go_on(event)
        self._override = None  # the first request only: a redirect must not carry it elsewhere
        headers = {**request["headers"], **override.headers}
        params: dict[str, Any] = {"method": override.method}
        params["headers"] = [{"name": n, "value": v} for n, v in headers.items()]
        if override.body:
            params["postData"] = base64.b64encode(override.body).decode()
        return await self._go_on(event, **params)

    async def _go_on(self, event: dict[str, Any], **params: Any) -> None:
        await self._send("Fetch.continueRequest", event, **params)

    async def _fail(self, event: dict[str, Any], reason: str) -> None:
        await self._send("Fetch.failRequest", event, errorReason=reason)

    async def _fulfil(self, document: Document, body: bytes, event: dict[str, Any]) -> None:
        """Hand on a page whose body was read, with the type that it did not tell."""
        headers = [{"name": name, "value": value} for name, value in document.headers]
        await self._send(
            "Fetch.fulfillRequest",
            event,
            responseCode=document.status,
            responseHeaders=[*headers, {"name": "Content-Type", "value": "text/html"}],
            body=base64.b64encode(body).decode(),
        )

    async def _send(self, command: str, event: dict[str, Any], **params: Any) -> None:
        with suppress(Exception):  # the tab may be gone by now, and the request with it
            await self._session.send(command, {"requestId": event["requestId"], **params})
