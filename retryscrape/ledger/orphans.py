"""Pages on disk whose row was lost: found by their names, given back their URLs.

A page's name is the hash of its URL, so a URL proves that a page is its own.
No database here.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path

from retryscrape.ledger.pages import ALL_SUFFIXES, SUFFIXES

_NAME = re.compile(r"([0-9a-f]{16})(\.[a-z]+)")
_HEX2 = re.compile(r"[0-9a-f]{2}")
_TYPES = {suffix: kind for kind, suffix in reversed(list(SUFFIXES.items()))}
_SUFFIX_NUMBER = {suffix: number for number, suffix in enumerate(ALL_SUFFIXES)}


def key_of(url: str) -> int:
    """The number that a page of this URL is named after."""
    digest = hashlib.sha256(url.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big")


def content_type_of(path: str) -> str | None:
    """The content type that a page's suffix stands for; None for ``.bin``."""
    return _TYPES.get(os.path.splitext(path)[1])


class Pages:
    """The names of the pages that have their row; 8 bytes each, by folder."""

    def __init__(self) -> None:
        self._known = [array("Q") for _ in range(256)]

    def add(self, page_paths: Iterable[str | None]) -> None:
        """Pages whose rows are in the ledger."""
        for path in page_paths:
            try:
                key = int((path or "").rpartition("/")[2][:16], 16)
                self._known[key >> 56].append(key)
            except (ValueError, OverflowError, IndexError):
                continue  # no name of ours

    def include(self, others: Pages) -> None:
        """Those that another process has seen."""
        for mine, theirs in zip(self._known, others._known, strict=True):
            mine.extend(theirs)

    def look(self, pages: Path) -> tuple[dict[int, int], list[Path]]:
        """Pages below ``pages`` without a row (their keys, and a number for the suffix),
        and files that a killed run was writing (nobody writes while the batch is locked)."""
        orphans: dict[int, int] = {}
        halves: list[Path] = []
        for folder in sorted(_entries(pages)):
            if not _HEX2.fullmatch(folder):
                continue
            known = _names(self._known[int(folder, 16)])
            for name in [name for name in _entries(pages / folder) if name[:16] not in known]:
                match = _NAME.fullmatch(name)
                if match and match[1].startswith(folder) and match[2] in _SUFFIX_NUMBER:
                    orphans[int(match[1], 16)] = _SUFFIX_NUMBER[match[2]]
                elif name.startswith(".") and name.endswith(".tmp"):
                    halves.append(pages / folder / name)
        return orphans, halves


def path_of(batch_id: str, key: int, suffix: int) -> str:
    """The path of an orphan, relative to OUT."""
    name = f"{key:016x}"
    return f"{batch_id}/pages/{name[:2]}/{name}{ALL_SUFFIXES[suffix]}"


def _names(keys: array[int]) -> set[str]:
    """Keys as they begin files' names. All in one text first: four times as fast as one by one."""
    keys = keys[:]
    if sys.byteorder == "little":
        keys.byteswap()
    text = keys.tobytes().hex()
    return {text[at : at + 16] for at in range(0, len(text), 16)}


def _entries(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []


def read_index(path: Path) -> Iterator[str]:
    """The URLs of an ``index.tsv``; nothing if there is none."""
    try:
        with path.open(encoding="utf-8", errors="replace", newline="\n") as file:
            for line in file:
                url = line.rstrip("\n").partition("\t")[2]
                yield _ESCAPED.sub(lambda found: _PLAIN.get(found[1], found[1]), url)
    except FileNotFoundError:
        return


_ESCAPED = re.compile(r"\\(.)")
_PLAIN = {"t": "\t", "n": "\n", "r": "\r"}
