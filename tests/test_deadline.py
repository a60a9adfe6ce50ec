"""What others need for an answer ends an attempt that was sent before anybody knew."""

from __future__ import annotations

import asyncio
import random

import pytest

from retryscrape.crawl import deadline as module
from retryscrape.crawl.deadline import Deadline
from retryscrape.policy.exits import Exit, Pool, Signal
from retryscrape.policy.ticket import Ticket

HOST = "h.test"


def pool_of(*names: str) -> Pool:
    return Pool([Exit(id=name, host=name, port=1) for name in names], rng=random.Random(1))


def answers(pool: Pool, exit_id: str, seconds: float, times: int = 12) -> None:
    for now in range(times):
        pool.sent(exit_id, HOST, now)
        pool.done(exit_id, HOST, now, Signal.GOOD, seconds)


async def wait(pool: Pool, exit_id: str, cap: float, lasts: float) -> bool:
    """Whether an answer that takes ``lasts`` seconds was given up for its deadline."""
    deadline = Deadline(pool, Ticket(url="u", host=HOST, exit=exit_id), cap)
    try:
        await asyncio.sleep(lasts)
    except asyncio.CancelledError:
        assert deadline.missed
        return True
    finally:
        deadline.close()
    return False


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look after 20 ms, and no deadline shorter than that."""
    monkeypatch.setattr(module, "SHORTEST_TIMEOUT", 0.02)
    monkeypatch.setattr("retryscrape.policy.exit_views.SHORTEST_TIMEOUT", 0.02)


def test_an_exit_that_hangs_is_given_up_once_others_have_answered() -> None:
    pool = pool_of("hangs", "fine")
    answers(pool, "fine", 0.01)
    assert asyncio.run(wait(pool, "hangs", cap=60, lasts=50))


def test_where_nothing_is_known_it_waits() -> None:
    assert not asyncio.run(wait(pool_of("slow"), "slow", cap=60, lasts=0.1))


def test_where_others_take_as_long_it_waits() -> None:
    pool = pool_of("slow", "others")
    answers(pool, "others", 0.5)
    assert not asyncio.run(wait(pool, "slow", cap=60, lasts=0.1))


def test_it_is_learned_while_it_waits() -> None:
    async def learn() -> bool:
        pool = pool_of("hangs", "fine")
        asyncio.get_running_loop().call_later(0.05, answers, pool, "fine", 0.01)
        return await wait(pool, "hangs", cap=60, lasts=50)

    assert asyncio.run(learn())
