"""One stored page against its row: is it there, whole, and still good enough?

Reads files, changes none. What makes a page good is the caller's ``judge``.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from enum import StrEnum
from typing import Any, NamedTuple

from msgspec import Struct

#: Pages are read as a whole up to this size, bytes; larger ones are only hashed.
WHOLE = 32 * 2**20


class Flaw(StrEnum):
    """What can be wrong with a row (DESIGN.md section 9)."""

    MISSING = "missing"
    EMPTY = "empty"
    MALFORMED = "malformed"
    DAMAGED = "damaged"


class Finding(Struct, frozen=True, kw_only=True):
    """A row that has to be fetched again, and why. ``path`` is relative to OUT."""

    flaw: Flaw
    url: str
    path: str | None
    reason: str


class PageRow(NamedTuple):
    """A success, as much of it as a check needs (a NamedTuple: one is made per row).

    ``place`` is where its table holds it, for who reads on from there.
    """

    url: str
    page_path: str | None
    page_bytes: int | None
    page_sha256: str | None
    content_type: str | None
    final_url: str | None
    http_code: int | None
    rung: str | None
    job_id: str | None
    place: Any = None


#: Says why a page is not good enough, or None.
Judge = Callable[[PageRow, bytes], str | None]


def examine(folder: str, row: PageRow, judge: Judge | None) -> Finding | None:
    """What is wrong with the page of a success, or None. ``folder`` is OUT.

    ``judge`` is None where the page passed today's checks when it came: then
    the right hash says that it still does.
    """
    if not row.page_path:
        return _finding(Flaw.MISSING, row, "the row names no page")
    try:
        body, size, digest = _read(f"{folder}/{row.page_path}", row.page_bytes or 0)
    except (FileNotFoundError, NotADirectoryError):
        return _finding(Flaw.MISSING, row, "its page is not on disk")
    except OSError as error:
        return _finding(Flaw.DAMAGED, row, f"its page cannot be read: {error.strerror}")
    if size == 0 or (body is not None and not body[:64].strip() and not body.strip()):
        return _finding(Flaw.EMPTY, row, "its page is empty")
    if row.page_bytes is not None and size != row.page_bytes:
        return _finding(Flaw.DAMAGED, row, f"its page has {size} bytes instead of {row.page_bytes}")
    if row.page_sha256 is not None and digest != row.page_sha256:
        return _finding(Flaw.DAMAGED, row, "the content of its page has changed")
    complaint = judge(row, body) if judge is not None and body is not None else None
    return _finding(Flaw.MALFORMED, row, complaint) if complaint else None


def _finding(flaw: Flaw, row: PageRow, reason: str) -> Finding:
    return Finding(flaw=flaw, url=row.url, path=row.page_path, reason=reason)


def _read(path: str, expected: int) -> tuple[bytes | None, int, str]:
    """Body (None if it is very large), size and SHA-256.

    Bare system calls: a million pages are read, and ``open()`` alone costs more
    than all three of them. One byte more than ``expected`` is asked for and not a
    large block, whose memory costs more than the page (19 against 4 microseconds).
    """
    piece = min(expected, _PIECE) + 1
    try:
        fd = os.open(path, _QUIETLY)
    except PermissionError:  # somebody else's file: only its owner may read it quietly
        fd = os.open(path, _PLAINLY)
    try:
        body = os.read(fd, piece)
        if len(body) < piece:
            return body, len(body), hashlib.sha256(body).hexdigest()
        return _read_on(fd, body)
    finally:
        os.close(fd)


_PIECE = 256 * 1024
# Not to wait: for a pipe that lies in the place of a page nobody would ever write.
_PLAINLY = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
# The first look at a new page would be noted in its inode: a write for each page read.
_QUIETLY = _PLAINLY | getattr(os, "O_NOATIME", 0)


def _read_on(fd: int, first: bytes) -> tuple[bytes | None, int, str]:
    digest, size, pieces = hashlib.sha256(first), len(first), [first]
    while piece := os.read(fd, _PIECE):
        digest.update(piece)
        size += len(piece)
        if size <= WHOLE:
            pieces.append(piece)
        else:
            pieces.clear()
    return (b"".join(pieces) if pieces else None), size, digest.hexdigest()
