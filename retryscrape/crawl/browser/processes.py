"""The processes below ours: which they are, what memory they hold. Linux's /proc; else nothing."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

_PROC = Path("/proc")
#: What playwright's driver has in its command line.
_DRIVER = b"run-driver"


class Process(Struct, frozen=True, eq=False):
    """A process, told from a later one with the same pid by when it started. It stays the same
    when its parent dies, and it gets another."""

    pid: int
    parent: int
    started: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Process) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    @property
    def _identity(self) -> tuple[int, str]:
        return self.pid, self.started


def processes() -> dict[int, Process]:
    """Every process that can be seen, by pid."""
    found = {}
    for entry in _PROC.iterdir() if _PROC.is_dir() else ():
        if entry.name.isdigit() and (process := _read(int(entry.name))):
            found[process.pid] = process
    return found


def _read(pid: int) -> Process | None:
    try:
        text = (_PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    # the name in parentheses may hold anything, so the fields begin after the last one
    fields = text.rpartition(")")[2].split()
    if len(fields) < 20 or fields[0] == "Z":
        return None
    return Process(pid, int(fields[1]), fields[19])


def drivers(parent: int | None = None) -> frozenset[Process]:
    """Playwright drivers that this process (or ``parent``) started."""
    parent = os.getpid() if parent is None else parent
    found = set()
    for process in processes().values():
        if process.parent != parent:
            continue
        with suppress(OSError):
            if _DRIVER in (_PROC / str(process.pid) / "cmdline").read_bytes():
                found.add(process)
    return frozenset(found)


def tree(roots: Iterable[Process]) -> list[Process]:
    """The given processes and all below them, parents first."""
    everything = processes()
    children: dict[int, list[Process]] = {}
    for process in everything.values():
        children.setdefault(process.parent, []).append(process)
    found = [everything[root.pid] for root in roots if everything.get(root.pid) == root]
    for process in found:
        found.extend(children.get(process.pid, ()))
    return found


def below(pid: int | None = None) -> list[Process]:
    """A process (this one) and all below it."""
    top = processes().get(os.getpid() if pid is None else pid)
    return tree({top} if top else ())


def kill(group: Iterable[Process]) -> int:
    """End what is still there of the given processes; returns how many had to be."""
    ended = 0
    for process in group:
        if _read(process.pid) == process:
            with suppress(OSError):
                os.kill(process.pid, signal.SIGKILL)
                ended += 1
    return ended


def pss(group: Iterable[Process]) -> int:
    """Bytes of memory, shared pages counted once (summed RSS is 2.4 to 3.7 times too much)."""
    total = 0
    for process in group:
        with suppress(OSError, ValueError, IndexError):
            for line in (_PROC / str(process.pid) / "smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    total += int(line.split()[1]) * 1024
    return total
