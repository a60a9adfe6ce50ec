"""From a manifest's name to an open binary stream, decompressed.

Files, standard input, and through smart_open every URI that it knows. What
the bytes say is the matter of ``sniff`` and ``read``.
"""

from __future__ import annotations

import bz2
import gzip
import hashlib
import importlib.resources
import importlib.util
import io
import lzma
import os
import stat
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.resources.abc import Traversable
from typing import IO, Any, BinaryIO, cast

from retryscrape.manifest.names import STDIN, is_uri, local_path, refusal

#: Seconds without a byte after which a remote manifest is given up.
_TIMEOUT = 60

_BLOCK = 262_144
#: Files up to this size are hashed whole (bytes).
_WHOLE = 1024**3


def _zstd(stream: BinaryIO) -> IO[bytes]:
    import zstandard  # 13 ms that only such a manifest has to pay

    return zstandard.ZstdDecompressor().stream_reader(stream, read_across_frames=True)


#: By magic and not by suffix: a renamed file, a download decoded on the way, a pipe all work.
_OPENERS: Mapping[bytes, Callable[[BinaryIO], Any]] = {
    b"\x1f\x8b": lambda stream: gzip.GzipFile(fileobj=stream),
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ\0": lzma.LZMAFile,
    b"\x28\xb5\x2f\xfd": _zstd,
}


@contextmanager
def open_manifest(source: str, stdin: BinaryIO | None = None) -> Iterator[BinaryIO]:
    """A readable binary stream of the manifest's decompressed bytes.

    ``source`` is a path, ``-`` (then ``stdin``, by default the process's, is
    read and left open), or a URI. Raises ManifestError when it cannot be opened.
    """
    if source == STDIN:
        stdin = stdin or (sys.stdin.buffer if sys.stdin else None)
        if stdin is None:
            raise refusal(source, "there is no standard input")
        yield decompressed(stdin, source)
        return
    with _open_raw(source) as raw:
        yield decompressed(raw, source)


def _open_raw(source: str) -> BinaryIO:
    try:
        if not is_uri(source):
            return _open_path(source)
        import smart_open  # 300 ms that only a remote manifest has to pay

        web = source.lower().startswith(("http://", "https://"))
        options = {"timeout": _TIMEOUT} if web else None
        stream: BinaryIO = smart_open.open(
            source, "rb", compression="disable", transport_params=options
        )
        return stream
    except Exception as error:  # every transport has errors of its own
        raise refusal(source, f"cannot be opened: {why(error, source)}") from None


def _open_path(source: str) -> BinaryIO:
    """A file, or else one of the lists that a package has with it."""
    try:
        return open(local_path(source), "rb")
    except FileNotFoundError:
        for _, entry in packaged(source):
            if entry.is_file():
                return cast("BinaryIO", entry.open("rb"))
        names = " and ".join(f"package {name}" for name, _ in packaged(source))
        also = f"; {names} has no {source}" if names else ""
        raise FileNotFoundError(None, f"No such file or directory{also}") from None


def packaged(source: str) -> list[tuple[str, Traversable]]:
    """Where a relative path is looked for when there is no such file: (package, entry).

    Under Scrapyd a project is an egg, a zip, and the working folder is Scrapyd's own:
    ``urls/sample.txt`` is then the file that was deployed with the project. The project's
    package is the one of its settings, which Scrapyd's runner names in the environment.
    """
    parts = source.replace(os.sep, "/").split("/")
    if os.path.isabs(source) or source.startswith("~") or {"..", ""} & set(parts):
        return []
    settings = os.environ.get("SCRAPY_SETTINGS_MODULE", "").partition(".")[0]
    found = []
    for name in dict.fromkeys((settings, "retryscrape")):
        if name and importlib.util.find_spec(name) is not None:
            found.append((name, importlib.resources.files(name).joinpath(*parts)))
    return found


def why(error: BaseException, source: str) -> str:
    """The error in words. Remote libraries quote the URL with its token: only their type counts."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if not is_uri(source) or isinstance(error, ImportError | NotImplementedError):
        return " ".join(str(error).split())[:300] or type(error).__name__
    status = getattr(getattr(error, "response", None), "status_code", None)
    return f"{type(error).__name__}{f' (HTTP {status})' if status else ''}"


def decompressed(stream: BinaryIO, source: str) -> BinaryIO:
    """The stream itself, or a reader of what is compressed in it."""
    try:
        # A file object may be of any kind here; only BufferedReader can look ahead.
        ahead = stream.read(6)
    except Exception as error:
        raise refusal(source, f"cannot be read: {why(error, source)}") from None
    whole = io.BufferedReader(_Prefixed(ahead, stream), _BLOCK)
    for magic, opener in _OPENERS.items():
        if ahead.startswith(magic):
            return cast("BinaryIO", opener(cast("BinaryIO", whole)))
    return cast("BinaryIO", whole)


class _Prefixed(io.RawIOBase):
    """Bytes that were read already, then the rest of a stream."""

    def __init__(self, ahead: bytes, stream: BinaryIO) -> None:
        self._ahead = ahead
        self._read: Callable[[int], bytes] = getattr(stream, "read1", stream.read)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        block = self._ahead[: len(buffer)] or self._read(len(buffer))
        self._ahead = self._ahead[len(block) :]
        buffer[: len(block)] = block
        return len(block)


def digest(source: str) -> str | None:
    """A fingerprint of a local file's content; None for anything else.

    Size, and BLAKE2 over the whole file (a million lines cost a tenth of a second) or, of
    one that is larger than that, over head, middle and tail: see ``hashed_whole``.
    """
    if source == STDIN or is_uri(source):
        return None
    try:
        path = local_path(source)
        size = _regular_size(path)
        if size is None:
            return None
        if size <= _WHOLE:
            with open(path, "rb") as file:
                return f"{size}-{hashlib.file_digest(file, _hash).hexdigest()}"
        state = _hash()
        with open(path, "rb") as file:
            for start in (0, size // 2, size - _BLOCK):
                file.seek(start)
                state.update(file.read(_BLOCK))
    except OSError:
        return None
    return f"{size}-{state.hexdigest()}"


def hashed_whole(source: str) -> bool:
    """Whether ``digest`` tells any change of it. Costs a look at its size."""
    if source == STDIN or is_uri(source):
        return False
    try:
        size = _regular_size(local_path(source))
    except OSError:
        return False
    return size is not None and size <= _WHOLE


def _hash() -> Any:
    return hashlib.blake2b(digest_size=16)


def _regular_size(path: str) -> int | None:
    # A pipe must not be opened twice.
    found = os.stat(path)
    return found.st_size if stat.S_ISREG(found.st_mode) else None
