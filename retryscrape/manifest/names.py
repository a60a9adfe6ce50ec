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

_LONGEST = 100
# Folders beside these would be taken for a batch, or the batch for them; the
# rest cannot be a folder's name on some system that OUT may be copied to.
_DEVICES = frozenset({"con", "prn", "aux", "nul"})
_OURS = frozenset({"ledger.db", "ledger.db-wal", "ledger.db-shm"})
_FORBIDDEN = frozenset('/\\:*?"<>|')


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


def check_batch_name(name: str) -> str | None:
    """Why ``name`` cannot be a batch (it becomes a folder), or None if it can: a predicate,
    to follow whatever the sentence calls it."""
    if not name.strip():
        return "is empty"
    if len(name.encode("utf-8", "replace")) > _LONGEST:
        return f"is longer than {_LONGEST} bytes"
    if not name.isprintable():
        return "holds a control character"
    if forbidden := sorted(_FORBIDDEN.intersection(name)):
        return f"holds the character {forbidden[0]}"
    if name.startswith((".", "-", "~")) or name != name.strip() or name.endswith("."):
        return "starts with one of . - ~ or a space, or ends with a dot or a space"
    if name.lower() in _OURS or name.lower().partition(".")[0] in _DEVICES:
        return "is a reserved name"
    return None


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
