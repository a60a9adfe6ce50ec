"""Tasks that nobody waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def kept(work: Coroutine[Any, Any, T], among: set[asyncio.Task[T]]) -> asyncio.Task[T]:
    """A task that stays ``among`` the others until it ends: a loop's own hold on its tasks is
    weak, and one that nobody else holds may be collected in the middle (docs of asyncio)."""
    task = asyncio.ensure_future(work)
    among.add(task)
    task.add_done_callback(among.discard)
    return task
