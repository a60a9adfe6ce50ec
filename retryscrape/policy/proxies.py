"""Reads a proxies file: lines in, exits and named problems out.

No choice between exits here (exits.py), and no secret in any text that leaves:
problems name the line and the fault, never the entry.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from retryscrape.policy.proxy_entry import Exit, redacted_name
from retryscrape.policy.proxy_shapes import take_apart

__all__ = ["Exit", "Problem", "ProxyList", "parse_proxies"]

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_COMMENT = re.compile(r"(?:^|\s)#.*", re.DOTALL)
_QUOTED = re.compile(r"([\"'`])(.*?)\1,?(\s.*)?", re.DOTALL)
_ATTRIBUTE = re.compile(r"([a-z_]{1,16})=(\S*)")
_REFUSED = re.compile(r"socks|socks4|socks4a|socks5|socks5h")


@dataclass(frozen=True, slots=True)
class Problem:
    """A line that is no usable proxy: its number (1-based) and why, without its content."""

    line: int
    why: str


@dataclass(frozen=True, slots=True)
class ProxyList:
    """A file as read. ``duplicates`` counts lines that repeat an earlier entry."""

    exits: tuple[Exit, ...]
    problems: tuple[Problem, ...] = ()
    duplicates: int = 0
    source: str = field(default="proxies", kw_only=True)

    def summary(self) -> str:
        """For the log: ``4 proxies loaded from FILE, 1 duplicate, 1 rejected (line 7)``."""
        text = f"{_count(len(self.exits), 'proxy', 'proxies')} loaded from {self.source}"
        if self.duplicates:
            text += f", {_count(self.duplicates, 'duplicate', 'duplicates')}"
        if self.problems:
            lines = ", ".join(str(problem.line) for problem in self.problems[:10])
            more = ", ..." if len(self.problems) > 10 else ""
            word = "line" if len(self.problems) == 1 else "lines"
            text += f", {len(self.problems)} rejected ({word} {lines}{more})"
        return text

    def complaints(self) -> Iterator[str]:
        """One sentence per rejected line, with file and line number."""
        for problem in self.problems:
            yield f"{self.source}, line {problem.line}: {problem.why}"


def parse_proxies(lines: Iterable[str], source: str) -> ProxyList:
    """Read the lines of a file (or of a setting; ``source`` is its name in messages).

    Blank lines and ``#`` comments are skipped. Raises nothing for any text.
    """
    exits: dict[tuple[str, int, str | None, str], Exit] = {}
    ids: set[str] = set()
    problems: list[Problem] = []
    duplicates = 0
    for number, line in enumerate(lines, 1):
        text = _COMMENT.sub("", line.lstrip("\ufeff")).strip()
        if not text:
            continue
        found = _parse_line(text, number)
        if isinstance(found, str):
            problems.append(Problem(number, found))
            continue
        key = (found.host, found.port, found.username, found.password)
        if key in exits:
            duplicates += 1
            continue
        if found.id in ids:
            # Ten thousand users of one gateway do collide in six digits.
            found = replace(found, id=redacted_name(*key, digits=16))
        ids.add(found.id)
        exits[key] = found
    return ProxyList(tuple(exits.values()), tuple(problems), duplicates, source=source)


def _parse_line(text: str, number: int) -> Exit | str:
    """The exit of one line, or a sentence saying what is wrong with it."""
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        return "the line is not UTF-8 text"
    entry, rest = _split(text)
    attributes = _attributes(rest)
    if isinstance(attributes, str):
        return attributes
    scheme = _SCHEME.match(entry)
    if scheme:
        if scheme[1].lower() != "http":
            return _refusal(scheme[1].lower())
        entry = entry[scheme.end() :]
    parts = take_apart(entry)
    if isinstance(parts, str):
        return parts
    return Exit(
        id=redacted_name(parts.host, parts.port, parts.username, parts.password),
        host=parts.host,
        port=parts.port,
        username=parts.username,
        password=parts.password,
        written=parts.written,
        line=number,
        **attributes,
    )


def _split(text: str) -> tuple[str, list[str]]:
    """The entry, and the words after it. A password may hold spaces: the words with an
    ``@`` in them, and all before them, belong to the entry."""
    quoted = _QUOTED.fullmatch(text)
    if quoted:
        return quoted[2].strip(), (quoted[3] or "").split()
    words = text.split()
    end = max((n for n, word in enumerate(words) if "@" in word), default=0)
    tail = words[end + 1 :]
    head = text
    for word in reversed(tail):
        head = head.removesuffix(word).rstrip()
    return head, tail


def _refusal(scheme: str) -> str:
    # Only well-known words are repeated: what stands before :// may be a secret.
    if _REFUSED.fullmatch(scheme):
        return f"{scheme} proxies are not supported by the plain downloader, only http:// ones"
    if scheme == "https":
        return (
            "https:// proxies (TLS to the proxy itself) are not supported; "
            "write http:// if the proxy also takes plain connections, which most do"
        )
    return "only http:// proxies are supported"


def _attributes(words: list[str]) -> dict[str, Any] | str:
    values: dict[str, Any] = {}
    for word in words:
        match = _ATTRIBUTE.fullmatch(word)
        reader = _READERS.get(match[1]) if match else None
        if match is None or reader is None:
            return f"unknown text after the proxy; possible are {', '.join(_READERS)} with =value"
        value = reader(match[2].strip("\"'"))
        if value is None:
            return f"the value of {match[1]} is not {_WANTED[match[1]]}"
        values[match[1]] = value
    return values


def _word(text: str) -> str | None:
    return text if re.fullmatch(r"[\w.-]{1,64}", text) else None


def _country(text: str) -> str | None:
    return text.upper() if re.fullmatch(r"[A-Za-z]{2}", text) else None


def _price(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 <= value < math.inf else None


def _sticky(text: str) -> str | None:
    return text if text in ("url", "attempt") else None


_READERS = {
    "tier": _word,
    "country": _country,
    "cost": _price,
    "cost_gb": _price,
    "sticky": _sticky,
}
_WANTED = {
    "tier": "a word",
    "country": "a two-letter code",
    "cost": "a number of 0 or more",
    "cost_gb": "a number of 0 or more",
    "sticky": "url or attempt",
}


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"
