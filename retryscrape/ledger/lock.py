"""One run at a time over a batch (or over a shard of it) on one machine."""

from __future__ import annotations

import fcntl
import json
import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Self


class BatchBusyError(Exception):
    """Another run has the batch; the message is a sentence that names it, ``job_id`` is its
    own (empty if it did not say)."""

    def __init__(self, sentence: str, job_id: str = "") -> None:
        super().__init__(sentence)
        self.job_id = job_id


class BatchLock:
    """Held from ``take`` to ``release`` or the end of the process, however it comes.

    ``flock`` is the lock, the files' content only says who has it: what a dead
    process leaves behind locks nothing.
    """

    def __init__(self, files: ExitStack) -> None:
        self._files = files

    @classmethod
    def take(
        cls, folder: Path, batch_id: str, *, job_id: str, shard: str = "", shared: bool = False
    ) -> Self:
        """Lock ``folder`` (``OUT/BATCH``) for this run.

        ``shard`` (``K/N``) excludes only the same shard and unsharded runs,
        ``shared`` (workers on one ledger) only unshared ones. Raises
        BatchBusyError, and OSError if the lock file cannot be made.
        """
        folder.mkdir(parents=True, exist_ok=True)
        with ExitStack() as files:
            whole = fcntl.LOCK_SH if shard or shared else fcntl.LOCK_EX
            _lock(files, folder / ".lock", whole, f"batch {batch_id}", job_id)
            if shard:
                path = folder / f".lock-{shard.replace('/', '-of-')}"
                _lock(files, path, fcntl.LOCK_EX, f"shard {shard} of batch {batch_id}", job_id)
            return cls(files.pop_all())

    @classmethod
    def take_loop(cls, folder: Path, batch_id: str, *, job_id: str) -> Self:
        """Keep a second ``redrive`` of the batch out. Raises BatchBusyError, and OSError."""
        folder.mkdir(parents=True, exist_ok=True)
        with ExitStack() as files:
            path = folder / ".lock-redrive"
            _lock(files, path, fcntl.LOCK_EX, f"batch {batch_id}", job_id, "re-driven")
            return cls(files.pop_all())

    def release(self) -> None:
        """Let others have the batch. The files stay: removing them would race with others."""
        self._files.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


@contextmanager
def files_lock(folder: Path) -> Iterator[None]:
    """Wait for one's turn to write the files of a batch: shards end side by side, and the
    last feed in place must be the one that was read last. Raises OSError."""
    with (folder / ".lock-files").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _lock(
    files: ExitStack, path: Path, how: int, what: str, job_id: str, verb: str = "crawled"
) -> None:
    file = files.enter_context(path.open("a+", encoding="utf-8", errors="replace"))
    try:
        fcntl.flock(file, how | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        owner, job = _owner(file.read())
        raise BatchBusyError(
            f"{what} is being {verb} by {owner}: wait for it, stop it,"
            " or give this run a batch of its own (-a batch=NAME)",
            job,
        ) from None
    _sign(file, job_id)


def _sign(file: IO[str], job_id: str) -> None:
    file.seek(0)
    file.truncate()
    json.dump({"pid": os.getpid(), "job_id": job_id, "host": socket.gethostname()}, file)
    file.flush()


def _owner(text: str) -> tuple[str, str]:
    """Who has the lock, for people, and its job's id."""
    try:
        said = json.loads(text)
        job = str(said["job_id"])
        return f"job {job} (process {said['pid']} on {said['host']})", job
    except (ValueError, TypeError, KeyError):
        return "another run", ""
