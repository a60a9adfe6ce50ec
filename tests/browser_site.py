"""A small web on 127.0.0.1 for the browser's tests: pages by path, a proxy that asks for a
password, and a log of what was asked for."""

from __future__ import annotations

import asyncio
import base64
import json
from dataclasses import dataclass, field
from urllib.parse import urlsplit

TEXT = "<p>" + "word after word of an ordinary page " * 30 + "</p>"
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))
PDF = b"%PDF-1.4\n" + bytes(range(256))
HTML = "text/html; charset=utf-8"
CREDENTIALS = ("us er", "p@ss:\u00e9/%")

CHALLENGE = """<html><head><title>Just a moment...</title></head><body>wait
<script>setTimeout(() => {document.cookie = 'cleared=yes; path=/'; location.reload()}, 300)
</script></body></html>"""


@dataclass
class Seen:
    """One request as it arrived."""

    path: str
    method: str
    headers: dict[str, str]
    body: bytes = b""
    through_proxy: bool = False


@dataclass
class Answer:
    body: bytes | str = TEXT
    kind: str | None = HTML
    status: str = "200 OK"
    headers: list[tuple[str, str]] = field(default_factory=list)


def _challenge(seen: Seen) -> Answer:
    if "cleared=yes" in seen.headers.get("cookie", ""):
        return Answer(f"<title>Real</title>{TEXT}", headers=[("X-Real", "yes")])
    return Answer(CHALLENGE, status="403 Forbidden", headers=[("cf-mitigated", "challenge")])


def _loop(seen: Seen) -> Answer:
    return Answer("", status="302 Found", headers=[("Location", "/loop")])


PAGES = {
    "/ok": Answer(f"<title>Fine</title>{TEXT}"),
    "/short": Answer("<p>short and without a script</p>"),
    "/script": Answer(
        f"<div id=x></div><script>setTimeout(() => {{x.innerHTML = `{TEXT}`}}, 700)</script>"
    ),
    "/fetch": Answer(
        TEXT + "<div id=x></div><script>fetch('/slow.json').then(r => r.json())"
        ".then(j => {x.textContent = j.made})</script>"
    ),
    "/slow.json": Answer('{"made": "by fetch"}', "application/json"),
    "/heavy": Answer(
        f"<link rel=stylesheet href=/a.css><img src=/a.png><video src=/a.mp4></video>"
        f"<style>@font-face{{font-family:f;src:url(/a.woff2)}}p{{font-family:f}}"
        f"</style>{TEXT}"
    ),
    "/a.css": Answer("p {color: red}" * 1000, "text/css"),
    "/lazy": Answer(
        TEXT + "<div style='height:9000px'></div><div id=x></div><script>"
        "onscroll = () => {if (scrollY > 5000) x.textContent = 'came by scrolling'}"
        "</script>"
    ),
    "/json": Answer('{"price": 1}', "application/json"),
    "/json-as-html": Answer('{"price": "<b>1</b>"}', HTML),
    "/png": Answer(PNG, "image/png"),
    "/png403": Answer(PNG, "image/png", "403 Forbidden"),
    "/pdf": Answer(PDF, "application/pdf"),
    "/text": Answer("plain & simple", "text/plain"),
    "/attachment": Answer(
        "<p>file</p>", HTML, headers=[("Content-Disposition", "attachment; filename=a.html")]
    ),
    "/untyped": Answer(f"<html>{TEXT}", None),
    "/untyped.bin": Answer(b"\x00\x01\x02", None),
    "/204": Answer("", None, "204 No Content"),
    "/403-empty": Answer("", HTML, "403 Forbidden"),
    "/404": Answer(f"<title>Gone</title>{TEXT}", status="404 Not Found"),
    "/redirect": Answer("", status="302 Found", headers=[("Location", "/ok")]),
    "/refresh": Answer("<meta http-equiv=refresh content='1; url=/ok'>soon"),
    "/leaves": Answer("<script>location.href = '/ok'</script>"),
    "/latin": Answer("<meta charset=latin1><p>caf\u00e9</p>".encode("latin-1"), "text/html"),
    "/stuck": Answer(TEXT + "<script>for(;;){}</script>"),
    "/crash": Answer(TEXT),
    "/jumps": Answer(TEXT + "<script>setInterval(() => {location.hash = Date.now()}, 50)</script>"),
    "/login": Answer(
        "<p>who?</p>",
        status="401 Unauthorized",
        headers=[("WWW-Authenticate", "Basic realm=x"), ("X-Own", "1")],
    ),
    "/to-json": Answer("<script>location.href = '/json'</script>"),
    "/to-app": Answer("", status="302 Found", headers=[("Location", "intent://x#Intent;end")]),
    "/fetches-file": Answer(TEXT + "<script>location.href = '/attachment'</script>"),
    "/waits-for-script": Answer(TEXT + "<script src=/hang></script>" + TEXT),
    "/never-seen": Answer("<script>location.reload()</script>", status="403 Forbidden"),
    "/reloads": Answer("<script>setTimeout(() => location.reload(), 50)</script>"),
    "/": Answer("<p>root</p>"),
}
CALLS = {"/challenge": _challenge, "/challenge/next": _challenge, "/loop": _loop}


class Site:
    """``async with Site() as site``; ``site.url`` answers, ``site.proxy`` wants CREDENTIALS."""

    def __init__(self) -> None:
        self.log: list[Seen] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Site:
        self._web = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self._proxy = await asyncio.start_server(self._serve_proxied, "127.0.0.1", 0)
        self.port = self._web.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.proxy = f"http://127.0.0.1:{self._proxy.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._web.close()
        self._proxy.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def paths(self) -> list[str]:
        return [seen.path for seen in self.log]

    async def _serve_proxied(self, reader, writer) -> None:
        await self._serve(reader, writer, proxied=True)

    async def _serve(self, reader, writer, proxied: bool = False) -> None:
        task = asyncio.current_task()
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            while seen := await self._read(reader, proxied):
                if not await self._answer(seen, writer):
                    break
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def _read(self, reader, proxied: bool) -> Seen | None:
        line = (await reader.readline()).decode("latin-1").split()
        if len(line) < 3:
            return None
        headers = {}
        while (row := await reader.readline()) not in (b"\r\n", b""):
            name, _, value = row.decode("latin-1").partition(":")
            headers[name.strip().lower()] = value.strip()
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        url = urlsplit(line[1])
        return Seen(url.path or "/", line[0], headers, body, proxied)

    async def _answer(self, seen: Seen, writer) -> bool:
        if seen.through_proxy and not self._authorised(seen):
            answer = Answer(
                "",
                status="407 Proxy Authentication Required",
                headers=[("Proxy-Authenticate", 'Basic realm="x"')],
            )
            await self._write(answer, writer)
            return True
        self.log.append(seen)
        if seen.path == "/hang":
            await asyncio.sleep(30)
        if seen.path in ("/half", "/half.pdf"):
            kind = "text/html" if seen.path == "/half" else "application/pdf"
            head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: 9999\r\n\r\n"
            writer.write(head.encode() + TEXT.encode())
            return False
        if seen.path == "/endless":
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n")
            for _ in range(3000):
                writer.write(TEXT.encode())
                await asyncio.sleep(0.001)
            return False
        if seen.path == "/reset":
            return False
        if seen.path == "/slow.json":
            await asyncio.sleep(0.4)
        if seen.path == "/echo":
            shown = {"method": seen.method, "headers": seen.headers, "body": seen.body.decode()}
            answer = Answer(json.dumps(shown), "application/json")
        else:
            call = CALLS.get(seen.path)
            answer = call(seen) if call else PAGES.get(seen.path, PAGES["/404"])
        await self._write(answer, writer)
        return True

    def _authorised(self, seen: Seen) -> bool:
        wanted = base64.b64encode(":".join(CREDENTIALS).encode()).decode()
        return seen.headers.get("proxy-authorization") == f"Basic {wanted}"

    async def _write(self, answer: Answer, writer) -> None:
        body = answer.body.encode() if isinstance(answer.body, str) else answer.body
        lines = [f"HTTP/1.1 {answer.status}"]
        if answer.kind:
            lines.append(f"Content-Type: {answer.kind}")
        if not answer.status.startswith("204"):
            lines.append(f"Content-Length: {len(body)}")
        lines += [f"{name}: {value}" for name, value in answer.headers]
        writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
        await writer.drain()
