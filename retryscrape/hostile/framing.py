"""Where a response ends, told from its bytes as they pass; the bytes stay as they are.

A proxy needs it to keep a connection alive after an answer, and only then: what is
framed badly counts as ending with the connection.
"""

from __future__ import annotations


class Framing:
    """Feed it the bytes of one response; ``done`` says that it has ended, by its own word."""

    def __init__(self, method: str) -> None:
        self._method = method
        self._pending = b""
        self._left: int | None = None
        self._chunked = self._in_head = True
        self.done = False

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        if self._in_head:
            data = self._head(data)
        if self._in_head or self.done:
            return
        if self._chunked:
            self._chunks(data)
        elif self._left is not None:
            self._left -= len(data)
            self.done = self._left <= 0

    def _head(self, data: bytes) -> bytes:
        """Read the head if it is whole; what follows it is given back."""
        raw, found, rest = (self._pending + data).partition(b"\r\n\r\n")
        if not found:
            self._pending = raw[-65_536:]
            return b""
        status = raw[9:12]
        if status[:1] == b"1":
            self._pending = b""
            return self._head(rest)
        self._in_head, self._pending = False, b""
        fields = _fields(raw)
        self._chunked = b"chunked" in fields.get(b"transfer-encoding", b"").lower()
        length = fields.get(b"content-length", b"")
        if self._method == "HEAD" or status in (b"204", b"304"):
            self.done, self._chunked = True, False
        elif not self._chunked and length.isdigit():
            self._left = int(length)
            self.done = self._left == 0
        return rest

    def _chunks(self, data: bytes) -> None:
        """Walk over chunks; ``_left`` counts what remains of one, its line end included."""
        self._pending += data
        while self._pending:
            if self._left:
                taken = min(self._left, len(self._pending))
                self._pending, self._left = self._pending[taken:], self._left - taken
                continue
            line, found, rest = self._pending.partition(b"\r\n")
            if not found:
                return
            size = _hex(line)
            if size == 0:
                self.done = rest.startswith(b"\r\n")
                return
            if size is None:
                self._chunked, self._left = False, None
                return
            self._pending, self._left = rest, size + 2


def _fields(raw: bytes) -> dict[bytes, bytes]:
    lines = (line.partition(b":") for line in raw.split(b"\r\n")[1:])
    return {name.strip().lower(): value.strip() for name, _, value in lines}


def _hex(line: bytes) -> int | None:
    try:
        return int(line.partition(b";")[0], 16)
    except ValueError:
        return None
