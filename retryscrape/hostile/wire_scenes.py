"""Scenarios of broken connections: cut, reset, hanging, dripping and endless answers."""

from __future__ import annotations

import gzip

from retryscrape.hostile.scene import Scenario, Scene
from retryscrape.hostile.text import article
from retryscrape.hostile.wire import (
    HTML,
    Drip,
    End,
    Flood,
    Reply,
    Send,
    Wait,
    answer,
    head,
)


def _whole(scene: Scene) -> bytes:
    return article(scene.seed, 13_000).encode()


def _start(length: int | str | None, *more: tuple[str, str]) -> bytes:
    fields = [("Content-Type", HTML), *more]
    if length is not None:
        fields.append(("Content-Length", str(length)))
    return head(200, fields)


def _half(scene: Scene, end: End) -> Reply:
    """The head and half of the body, then ``end``."""
    body = _whole(scene)
    return (Send(_start(len(body)) + body[: len(body) // 2]), Wait(0.05), end)


def _short_length(scene: Scene) -> Reply:
    return (Send(_start(100) + b"abc"), End.CLOSE)


def _chunked(scene: Scene, *, whole: bool) -> Reply:
    body = _whole(scene)
    parts = [body[start : start + 4000] for start in range(0, len(body), 4000)]
    sent = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts)
    begun = Send(_start(None, ("Transfer-Encoding", "chunked")) + sent)
    return (begun, Send(b"0\r\n\r\n")) if whole else (begun, End.CLOSE)


def _no_length(scene: Scene, end: End) -> Reply:
    body = _whole(scene)
    sent = body if end is End.CLOSE else body[: len(body) // 2]
    return (Send(_start(None, ("Connection", "close")) + sent), Wait(0.05), end)


def _no_length_cut(scene: Scene) -> Reply:
    """Half a page and a clean end: only the missing ``</html>`` tells."""
    body = _whole(scene)
    return (Send(_start(None, ("Connection", "close")) + body[: len(body) // 2]), End.CLOSE)


def _slow(scene: Scene) -> Reply:
    body = _whole(scene)
    every = scene.number("every", 0.5)
    return (Send(_start(len(body))), Drip(body, int(scene.number("size", 200)), every))


def _huge(scene: Scene) -> Reply:
    """Announces 2 GB and sends the beginning."""
    return (Send(_start(2_000_000_000) + _whole(scene)), End.HANG)


def _endless(scene: Scene) -> Reply:
    return (Send(_start(None)), Flood(_whole(scene) * 5))


def _bomb(scene: Scene) -> Reply:
    """A small gzip body that becomes 300 MB (``?mb=`` changes it)."""
    body = gzip.compress(bytes(int(scene.number("mb", 300) * 1_000_000)), 1, mtime=0)
    return answer(body, headers={"Content-Encoding": "gzip"})


def _raw(data: bytes) -> Reply:
    return (Send(data), End.CLOSE)


def _many_headers(scene: Scene) -> Reply:
    return answer(_whole(scene), headers=[(f"X-Filler-{n}", "x" * 200) for n in range(400)])


WIRE = (
    Scenario("reset", "TCP reset instead of an answer", lambda _: (End.RESET,)),
    Scenario("resetbody", "TCP reset in the middle of the body", lambda s: _half(s, End.RESET)),
    Scenario("cutbody", "closed in the middle of the body", lambda s: _half(s, End.CLOSE)),
    Scenario("hang", "takes the request and says nothing", lambda _: (End.HANG,)),
    Scenario("hangbody", "stops in the middle of the body", lambda s: _half(s, End.HANG)),
    Scenario("close", "closes without an answer", lambda _: (End.CLOSE,)),
    Scenario("shortlength", "100 bytes promised, 3 sent", _short_length),
    Scenario("chunked", "chunked, correct", lambda s: _chunked(s, whole=True)),
    Scenario("cutchunked", "chunked without the final chunk", lambda s: _chunked(s, whole=False)),
    Scenario("nolength", "ends with the connection, complete", lambda s: _no_length(s, End.CLOSE)),
    Scenario("nolengthcut", "ends with the connection, half a page", _no_length_cut),
    Scenario("nolengthreset", "no length, reset half-way", lambda s: _no_length(s, End.RESET)),
    Scenario("drip", "a few bytes at a time: ?every= seconds, ?size= bytes", _slow),
    Scenario("hugelength", "announces 2 GB", _huge),
    Scenario("endless", "a body without end", _endless),
    Scenario("bomb", "a small gzip body that becomes 300 MB", _bomb, "/bomb/1?mb=300"),
    Scenario("emptystatus", "an empty status line", lambda _: _raw(b"\r\n\r\n")),
    Scenario("garbage", "an SSH banner", lambda _: _raw(b"SSH-2.0-OpenSSH_9.2\r\n\r\n")),
    Scenario("badstatus", "a status that is no number", lambda _: _raw(b"HTTP/1.1 abc Hm\r\n\r\n")),
    Scenario(
        "badheader",
        "a header line without a colon",
        lambda _: _raw(b"HTTP/1.1 200 OK\r\nno colon here\r\nContent-Length: 2\r\n\r\nok"),
    ),
    Scenario("manyheaders", "400 headers of 200 bytes", _many_headers),
)
