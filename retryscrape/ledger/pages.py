"""The page store: one file per successful row, below ``OUT/BATCH/pages``.

No database here. Names are hashes: nothing of a URL reaches the file system.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from msgspec import Struct

#: File suffix by content type; everything else is ``.bin``.
SUFFIXES: Mapping[str, str] = {
    "text/html": ".html",
    "application/xhtml+xml": ".html",
    "application/json": ".json",
    "text/json": ".json",
    "application/x-ndjson": ".json",
    "application/xml": ".xml",
    "text/xml": ".xml",
    "text/plain": ".txt",
    "text/css": ".css",
    "text/csv": ".csv",
    "text/markdown": ".md",
    "text/javascript": ".js",
    "application/javascript": ".js",
    "application/pdf": ".pdf",
    "application/zip": ".zip",
    "application/gzip": ".gz",
    "image/png": ".png",
    "image/jpeg": ".jpg",
    "image/gif": ".gif",
    "image/webp": ".webp",
    "image/avif": ".avif",
    "image/svg+xml": ".svg",
    "image/x-icon": ".ico",
    "audio/mpeg": ".mp3",
    "video/mp4": ".mp4",
}
OTHER_SUFFIX = ".bin"
#: Where pages go that are not what their rows say, below ``OUT/BATCH``.
DAMAGED = "damaged"
ALL_SUFFIXES = tuple(sorted({*SUFFIXES.values(), OTHER_SUFFIX}))
_STRUCTURED = {"json": ".json", "xml": ".xml"}


class PageFile(Struct, frozen=True, kw_only=True):
    """A page to be stored; ``content_type`` is the header's value as received."""

    body: bytes
    content_type: str | None = None


def suffix_of(content_type: str | None) -> str:
    """The suffix for a ``Content-Type`` header's value, parameters and case ignored."""
    essence = (content_type or "").partition(";")[0].strip().lower()
    return SUFFIXES.get(essence) or _STRUCTURED.get(essence.rpartition("+")[2], OTHER_SUFFIX)


def page_path(batch_id: str, url: str, content_type: str | None) -> str:
    """Where a page lies, relative to OUT: ``BATCH/pages/ab/abcdef0123456789.html``."""
    name = hashlib.sha256(url.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"{batch_id}/pages/{name[:2]}/{name}{suffix_of(content_type)}"


class PageStore:
    """Writes pages below ``out``. One thread at a time. ``once``: no URL comes twice, so that
    in a folder that was empty no other file of a URL has to be looked for."""

    def __init__(self, out: str | os.PathLike[str], *, once: bool = False) -> None:
        self.out = Path(out)
        self._once = once
        self._root = os.fspath(self.out)
        #: folders that are there, and whether only this process has written into them
        self._folders: dict[str, bool] = {}

    def write(self, path: str, body: bytes) -> None:
        """Put ``body`` at ``path`` (relative to OUT), whole or not at all. Raises OSError.

        A file of the same URL under another suffix goes away: one file a row.

        No fsync per page: 11 ms here, a hundred times the rest of the writing. After
        a power cut a page may be missing or short, which its size and hash in the
        ledger tell ``reconcile``.
        """
        target = f"{self._root}/{path}"
        folder = target[: target.rindex("/")]
        try:
            ours = self._folder(folder)
            _write(target, body)
        except FileNotFoundError:  # somebody removed the folder under way
            self._folders.pop(folder, None)
            ours = self._folder(folder)
            _write(target, body)
        if not ours:
            _remove_others(target)

    def _folder(self, folder: str) -> bool:
        """Make it if need be; whether no other file of a URL can be in it."""
        ours = self._folders.get(folder)
        if ours is None:
            os.makedirs(folder, exist_ok=True)
            with os.scandir(folder) as entries:
                ours = self._folders[folder] = self._once and next(entries, None) is None
        return ours


def _write(target: str, body: bytes) -> None:
    """A new file in the same folder, then its name. Through ``os``: pathlib and file objects
    take three times as long (a sixth of a crawl's time went here)."""
    folder, _, name = target.rpartition("/")
    temporary = f"{folder}/.{name}.{os.getpid()}.tmp"
    try:
        file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
        try:
            rest = memoryview(body)
            while rest:
                rest = rest[os.write(file, rest) :]
        finally:
            os.close(file)
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def set_aside(out: Path, path: str) -> None:
    """Move a page that is no good to ``OUT/BATCH/damaged``; ``path`` is relative to OUT."""
    target = out / path.replace("/pages/", f"/{DAMAGED}/", 1)
    target.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        (out / path).replace(target)


def _remove_others(target: str) -> None:
    """Files of the same URL under other suffixes, which an earlier run has left."""
    name, dot, suffix = target.rpartition(".")
    for other in ALL_SUFFIXES:
        # a look is 2 microseconds, listing the folder is milliseconds
        if other != dot + suffix and os.path.exists(name + other):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name + other)


@contextmanager
def replacing_file(target: Path) -> Iterator[IO[bytes]]:
    """A new file in the same folder that takes ``target``'s place when the block ends well.

    The reader of ``target`` sees the old content or the new, never a part.
    Raises OSError; nothing of the new file stays behind then.
    """
    # The process id keeps two processes apart; within one, a target has one writer.
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            yield file
        temporary.replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def write_index(target: Path, pages: Iterable[tuple[str, str]]) -> int:
    """Write ``index.tsv``: file, tab, URL, a line a page; returns the number of lines.

    Backslash, tab, newline and carriage return in a URL are escaped as
    ``\\\\ \\t \\n \\r``. Raises OSError.
    """
    lines = 0
    with replacing_file(target) as file:
        for path, url in pages:
            text = f"{path}\t{url.translate(_ESCAPES)}\n"
            file.write(text.encode("utf-8", "surrogatepass"))
            lines += 1
    return lines


_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})
