"""What a manifest's name says: its suffix, its batch, and how it may be shown to people.

Opens nothing; ``source`` does.
"""

from __future__ import annotations

import os
import re
from urllib.parse import unquote, urlsplit

from retryscrape.manifest.rows import ManifestError

STDIN = "-"
COMPRESSED = (".gz", ".zst", ".bz2", ".xz")
FORMATS = (".txt", ".csv", ".tsv", ".jsonl", ".json")

_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_USERINFO = re.compile(r"(?<=://)[^/?#]*@")


def is_uri(source: str) -> bool:
    """Whether smart_open, and not the file system, is asked for it."""
    return _URI.match(source) is not None


def local_path(source: str) -> str:
    """The path to open; ``~`` is the home folder where no shell has said so (cron, Scrapyd)."""
    return os.path.expanduser(source)


def batch_name(source: str) -> str:
    """The default batch of a manifest: its file name without the known suffixes.

    Empty for standard input and for names that are nothing but a suffix.
    """
    stem, _ = split_name(source)
    return stem


def split_name(source: str) -> tuple[str, str]:
    """(stem, suffix of the format in lower case or ``""``), compression taken off."""
    if source == STDIN:
        return "", ""
    name = unquote(urlsplit(source).path) if is_uri(source) else source
    stem = os.path.basename(name.rstrip("/"))
    stem, _ = _without(stem, COMPRESSED)
    return _without(stem, FORMATS)


def _without(name: str, suffixes: tuple[str, ...]) -> tuple[str, str]:
    found = next((suffix for suffix in suffixes if name.lower().endswith(suffix)), "")
    return name[: len(name) - len(found)], found


def shown(source: str) -> str:
    """The source for messages: credentials and signed queries of a URI are left out."""
    if source == STDIN:
        return "- (standard input)"
    if is_uri(source):
        return _USERINFO.sub("***@", source.partition("?")[0])
    full = os.path.abspath(local_path(source))
    return source if source == full else f"{source} ({full})"


def refusal(source: str, what: str, *, line: int | None = None) -> ManifestError:
    """The error that names the manifest as given and the absolute path that was tried."""
    return ManifestError(f"manifest {shown(source)}: {what}", line=line)
