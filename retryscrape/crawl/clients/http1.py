"""HTTP/1.1 as bytes and values: a request's head out, an answer's bytes in. No sockets, no clock.

Own code, because what is needed here is in no library: h11 takes a third of a
millisecond for an answer, and httptools refuses what browsers and Scrapy read (header
lines without a colon, a Content-Length that is there twice) and cannot tell that the
answer to HEAD has no body.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum

#: Chrome's limit of a response's head, in bytes.
MAX_HEAD = 256 * 1024
#: A line with the size of a chunk, and a chunk's extensions, in bytes.
MAX_LINE = 16 * 1024
#: Interim answers (100, 103) before the real one; more are a flood.
MAX_INTERIM = 50

_HEAD_END = re.compile(rb"\r?\n\r?\n")
_STATUS = re.compile(rb"HTTP/(\d\.\d)[ \t]+(\d{3})(?:[ \t].*)?\r?$")
_UNSAFE = re.compile(rb"[\r\n\0]+")
_HEX = re.compile(rb"[0-9A-Fa-f]{1,15}")
_NO_BODY = frozenset({101, 204, 304})


class End(Enum):
    """What the end of the connection means for an answer that was not complete before."""

    NOTHING = "no answer had begun"
    COMPLETE = "complete"
    PARTIAL = "only the end of the connection says that it is complete"
    TRUNCATED = "something is missing"


class _Body(Enum):
    LENGTH = 1
    CHUNKED = 2
    UNTIL_CLOSE = 3


def request_head(
    method: str, target: str, host: str, headers: Iterable[tuple[bytes, bytes]], body: bytes
) -> bytes:
    """The head of a request, with Host and Content-Length where ``headers`` lack them.

    Line breaks in names and values become spaces: nobody smuggles a header in.
    """
    given = [(_UNSAFE.sub(b" ", name), _UNSAFE.sub(b" ", value)) for name, value in headers]
    names = {name.lower() for name, _ in given}
    if b"host" not in names:
        given.insert(0, (b"Host", host.encode("ascii")))
    if (body or method in {"POST", "PUT", "PATCH"}) and not (
        names & {b"content-length", b"transfer-encoding"}
    ):
        given.append((b"Content-Length", b"%d" % len(body)))
    first = f"{method} {target} HTTP/1.1\r\n".encode("ascii")
    return first + b"".join(b"%b: %b\r\n" % line for line in given) + b"\r\n"


class Answer:
    """The answer to one request, fed as it arrives.

    ``bad`` is a sentence where it is not HTTP; ``surplus`` what came after its end.
    ``length`` is the announced size of the body, in bytes, None where there is none.
    """

    __slots__ = (
        "_body",
        "_buffer",
        "_interim",
        "_need",
        "_trailers",
        "bad",
        "begun",
        "chunks",
        "done",
        "headed",
        "headers",
        "keep_alive",
        "length",
        "method",
        "size",
        "status",
        "surplus",
        "version",
    )

    def __init__(self, method: str) -> None:
        self.method = method
        self.begun = self.headed = self.done = self.keep_alive = False
        self.bad = ""
        self.status = 0
        self.version = b""
        self.headers: list[tuple[bytes, bytes]] = []
        self.chunks: list[bytes] = []
        self.size = 0
        self.length: int | None = None
        self.surplus = b""
        self._buffer = b""
        self._interim = 0
        self._body = _Body.UNTIL_CLOSE
        self._need = 0
        self._trailers = False

    @property
    def body(self) -> bytes:
        """What has arrived of the body, content encoding untouched."""
        return self.chunks[0] if len(self.chunks) == 1 else b"".join(self.chunks)

    def feed(self, data: bytes) -> None:
        """Take what arrived; sets ``headed``, ``done`` or ``bad``."""
        self.begun = True
        while not self.headed:
            self._buffer += data
            if not self._take_head():
                return
            data, self._buffer = self._buffer, b""
        if self.done:
            self.surplus += data
        elif data:
            self._take_body(data)

    def eof(self, *, clean: bool) -> End:
        """What an end now means; ``clean``: the peer closed, the connection was not reset."""
        if not self.headed:
            return End.NOTHING
        if self.done or (self._trailers and not self._buffer):
            return End.COMPLETE
        if self._body is _Body.UNTIL_CLOSE and clean:
            return End.PARTIAL
        return End.TRUNCATED

    def _take_head(self) -> bool:
        """Whether the answer's head was there; the buffer is then what follows it."""
        while self._take_one_head():
            if self.headed:
                return not self.bad
            # an interim answer (100, 103): the real one follows
            self._interim += 1
            if self._interim > MAX_INTERIM:
                self.bad = "too many interim answers"
                return False
        return False

    def _take_one_head(self) -> bool:
        buffer = self._buffer = self._buffer.lstrip(b"\r\n")
        if not (buffer.startswith(b"HTTP/") or b"HTTP/".startswith(buffer[:5])):
            self.bad = "the answer is not HTTP"
            return False
        end = _HEAD_END.search(buffer)
        if end is None:
            if len(buffer) > MAX_HEAD:
                self.bad = "the answer's head is too long"
            return False
        self._buffer = buffer[end.end() :]
        return self._read_head(buffer[: end.start()])

    def _read_head(self, head: bytes) -> bool:
        lines = head.split(b"\n")
        first = _STATUS.match(lines[0])
        if first is None:
            self.bad = "the answer is not HTTP"
            return False
        self.version, self.status = first[1], int(first[2])
        self.headers = _header_lines(lines)
        self.headed = self.status >= 200 or self.status == 101 or self.status < 100
        if self.headed:
            self._frame()
        return True

    def _frame(self) -> None:
        """How the body ends (RFC 9112, section 6.3), and whether the connection lives on."""
        lengths: set[bytes] = set()
        encodings = options = b""
        for name, value in self.headers:
            low = name.lower()
            if low == b"content-length":
                lengths.update(part.strip() for part in value.split(b","))
            elif low == b"transfer-encoding":
                encodings += b"," + value.lower()
            elif low in (b"connection", b"proxy-connection"):
                options += b"," + value.lower()
        # only the tokens count, and no other token of these headers holds the words
        alive = b"keep-alive" in options if self.version == b"1.0" else b"close" not in options
        self.keep_alive = alive and self.status != 101
        if self.method in {"HEAD", "CONNECT"} or self.status in _NO_BODY:
            self.done = True
        elif encodings.rpartition(b",")[2].strip() == b"chunked":
            self._body = _Body.CHUNKED
        else:
            self._frame_by_length(lengths)

    def _frame_by_length(self, lengths: set[bytes]) -> None:
        if len(lengths) > 1:
            self.bad = "the answer has two lengths"
        elif lengths and (text := lengths.pop()).isdigit() and len(text) < 19:
            self._body, self.length = _Body.LENGTH, int(text)
            self._need, self.done = self.length, self.length == 0
        else:
            self.keep_alive = False

    def _take_body(self, data: bytes) -> None:
        if self._body is _Body.CHUNKED:
            self._take_chunks(self._buffer + data)
            return
        if self._body is _Body.LENGTH:
            if len(data) > self._need:
                data, self.surplus = data[: self._need], data[self._need :]
            self._need -= len(data)
            self.done = not self._need
        self._add(data)

    def _take_chunks(self, data: bytes) -> None:
        at = 0
        while not self.done and not self.bad:
            if self._need:
                piece = data[at : at + self._need]
                if piece:
                    self._add(piece)
                at += len(piece)
                self._need -= len(piece)
                if self._need:
                    break
            end = data.find(b"\n", at)
            if end < 0:
                if len(data) - at > MAX_LINE:
                    self.bad = "a chunk has no size"
                break
            line = data[at:end].strip()
            at = end + 1
            self._take_line(line)
        self._buffer = data[at:]
        if self.done:
            self.surplus, self._buffer = self._buffer, b""

    def _take_line(self, line: bytes) -> None:
        """A line between chunks: a size, the empty one after a chunk, or a trailer."""
        if self._trailers:
            self.done = not line
        elif line:
            size = line.partition(b";")[0].strip()
            if _HEX.fullmatch(size) is None:
                self.bad = "a chunk has no size"
                return
            self._need = int(size, 16)
            self._trailers = not self._need

    def _add(self, piece: bytes) -> None:
        self.chunks.append(piece)
        self.size += len(piece)


def _header_lines(lines: list[bytes]) -> list[tuple[bytes, bytes]]:
    """Names and values; lines without a colon are skipped, as browsers and Scrapy do."""
    headers: list[tuple[bytes, bytes]] = []
    for line in lines[1:]:
        if line[:1] in (b" ", b"\t") and headers:
            name, value = headers[-1]
            headers[-1] = (name, b"%b %b" % (value, line.strip()))
            continue
        name, colon, value = line.partition(b":")
        if colon:
            headers.append((name.strip(), value.strip()))
    return headers
