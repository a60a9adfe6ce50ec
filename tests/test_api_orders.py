"""Orders, their reading and their events on a loop of the test's own, without a crawl."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import io
import json
from collections.abc import Awaitable, Callable, Iterator
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest
from ledger_makers import fill
from msgspec.structs import replace
from scrapy import Spider
from scrapy.utils.test import get_crawler

from retryscrape.crawl.api.buying import Buyer
from retryscrape.crawl.api.orders import Job, Orders, new_ref
from retryscrape.crawl.api.reading import Reading
from retryscrape.crawl.api.receiver import Receiver
from retryscrape.crawl.api.rung import Api
from retryscrape.crawl.faults import ApiFault, FetchError, NotYet
from retryscrape.crawl.runtime import Run, UsageProblem
from retryscrape.ledger.store import Ledger
from retryscrape.policy.api_answers import Answer, Look, Trouble
from retryscrape.policy.api_declaration import provider_of
from retryscrape.policy.api_hook import MOST, secret_of
from retryscrape.policy.outcomes import Outcome
from tests.test_api_crawl import free_port

URL = "http://h.test/1"
DONE = {"x-task-finished-at": "now"}
GOOD = Answer(status=200, headers=DONE, body=b'{"success": true, "status_code": 204}')
JOB = Job(batch_id="b", url=URL, target=URL, rung="api")


class Books:
    """As much of a run's books as orders need."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger


class Script:
    """A client whose reads are written down beforehand; the last one repeats."""

    def __init__(self, *answers: Answer | Trouble) -> None:
        self.answers = list(answers)
        self.reads = 0
        self.taken: Answer | Trouble = Answer(status=202, body=b'{"task_id": "T2"}')

    async def submit(self, order: Any) -> Answer | Trouble:
        return self.taken

    async def read(self, task_id: str) -> Answer | Trouble:
        self.reads += 1
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


class Set:
    """A receiver and a reading over one ledger."""

    def __init__(self, ledger: Ledger, *answers: Answer | Trouble, **more: Any) -> None:
        self.port = free_port()
        hook = {"port": self.port, "url": "https://hooks.test/in"}
        quick = {"poll": 0.05, "deadline": 0.4}
        given = {"kind": "tasks", "base": "https://api.test", **quick, "webhook": hook} | more
        self.provider = provider_of(given)
        self.run = Run(get_crawler(Spider))
        self.stopped: list[str] = []
        engine = SimpleNamespace(_slot=None, close_spider_async=self.stop)
        self.run.crawler.engine = engine  # type: ignore[assignment]
        self.run.books = Books(ledger)  # type: ignore[assignment]
        self.client = Script(*answers or (Answer(status=202),))
        self.orders = Orders(self.run)
        self.reading = Reading(self.run, self.provider, self.client, self.orders)  # type: ignore[arg-type]
        self.receiver = Receiver.of(self.run, self.provider, self.orders, self.reading, "key")

    async def stop(self, *, reason: str) -> None:
        self.stopped.append(reason)

    def api(self) -> Api:
        """The rung itself, with this client."""
        made = Api(self.run, self.provider, "key")
        made.orders, made.reading = self.orders, self.reading
        made.buyer = Buyer(self.run, self.provider, self.client, self.orders, "key")  # type: ignore[arg-type]
        return made

    def events(self) -> dict[str, int]:
        found = self.run.crawler.stats.get_stats()  # type: ignore[union-attr]
        start = "retryscrape/api/events/"
        return {k.removeprefix(start): v for k, v in found.items() if k.startswith(start)}

    async def order(self, task_id: str | None = "T1", age: float = 0.0) -> Any:
        row = self.orders.new(JOB, new_ref())
        await self.orders.begin([replace(row, submitted_at=row.submitted_at - age)])
        if task_id:
            await self.orders.accepted([row], task_id)
        held = await self.orders.held(JOB)
        assert held is not None
        return held.row

    async def send(self, body: bytes, *, ref: str = "", secret: str = secret_of("key")) -> int:
        digest = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
        headers = {"X-Webhook-Signature": f"sha256={digest}"}
        url = f"http://127.0.0.1:{self.port}/in/{ref}"
        async with (
            aiohttp.ClientSession() as session,
            session.post(url, data=io.BytesIO(body), headers=headers) as response,
        ):
            return response.status


@pytest.fixture
def ledger(tmp_path: Any) -> Iterator[Ledger]:
    with Ledger.open(str(tmp_path / "ledger.db")) as opened:
        fill(opened, [URL])
        yield opened


def go(work: Callable[[], Awaitable[Any]]) -> Any:
    async def within() -> Any:
        async with asyncio.timeout(60):
            return await work()

    return asyncio.run(within())


def event(task_id: str = "T1", name: str = "completed") -> bytes:
    return json.dumps({"task_id": task_id, "event": name}).encode()


async def settled(made: Set) -> None:
    assert made.receiver is not None
    await asyncio.gather(*made.receiver._works)


def test_what_the_receiver_answers(ledger: Ledger) -> None:
    async def work() -> None:
        made = Set(ledger)
        await made.receiver.start()
        try:
            assert await made.send(event()) == 202
            assert await made.send(event()) == 202
            assert await made.send(event("stranger")) == 202
            assert await made.send(event(), secret="another") == 401
            assert await made.send(b"no json") == 400
            assert await made.send(b"x" * (MOST + 1)) == 413
            url = f"http://127.0.0.1:{made.port}/in"
            async with aiohttp.ClientSession() as session:
                async with session.post(url, data=event()) as response:
                    assert response.status == 401
                async with session.get(url) as response:
                    assert response.status == 405
            await settled(made)
        finally:
            await made.receiver.close()
        assert made.events() == {"early_or_late": 2, "repeated": 1, "forged": 2, "unreadable": 1}

    go(work)


def test_a_port_that_is_taken_is_one_sentence(ledger: Ledger) -> None:
    async def work() -> None:
        made = Set(ledger)
        await made.receiver.start()
        other = Set(ledger, webhook={"port": made.port, "url": "https://hooks.test"})
        try:
            with pytest.raises(UsageProblem, match=f"port {made.port} of 127.0.0.1"):
                await other.receiver.start()
        finally:
            await made.receiver.close()

    go(work)


def test_an_event_brings_the_read_forward(ledger: Ledger) -> None:
    """Events are why a task is read seldom otherwise."""

    async def work() -> None:
        made = Set(ledger, Answer(status=200, headers=DONE, body=b"{}"), poll=100, deadline=900)
        await made.receiver.start()
        try:
            reading = asyncio.ensure_future(made.reading.result(await made.order(), soon=False))
            await asyncio.sleep(0.2)
            assert await made.send(event()) == 202
            look, _ = await reading
        finally:
            await made.receiver.close()
        assert (look, made.client.reads) == (Look.FINISHED, 1)
        assert made.events() == {"taken": 1}

    go(work)


def test_an_event_that_came_before_its_id_was_known_counts(ledger: Ledger) -> None:
    async def work() -> None:
        made = Set(ledger, Answer(status=200, headers=DONE, body=b"{}"), poll=100, deadline=900)
        await made.orders.event("", "T1", "completed")
        look, _ = await made.reading.result(await made.order(), soon=False)
        assert look is Look.FINISHED

    go(work)


def test_an_event_names_the_order_whose_answer_was_lost(ledger: Ledger) -> None:
    async def work() -> None:
        made = Set(ledger)
        await made.receiver.start()
        try:
            row = await made.order(None)
            assert row.task_id is None
            assert await made.send(event("T7"), ref="0" * 32) == 202
            assert await made.send(event("T8"), ref=row.ref) == 202
            await settled(made)
        finally:
            await made.receiver.close()
        held = await made.orders.held(JOB)
        assert held is not None
        assert held.row == replace(row, state="open", task_id="T8")

    go(work)


@pytest.mark.parametrize("hook", [True, False])
def test_lost_events_and_failing_reads_are_made_up_for(ledger: Ledger, hook: bool) -> None:
    """No event comes; the API stumbles; then it has ended."""

    async def work() -> None:
        script = (
            Trouble(sent=True, text="reset"),
            Answer(status=500),
            Answer(status=200, headers=DONE, body=b'{"success": true, "status_code": 204}'),
        )
        more = {"poll": 0.01, "deadline": 30} | ({} if hook else {"webhook": None})
        made = Set(ledger, *script, **more)
        look, found = await made.reading.result(await made.order(), soon=True)
        assert look is Look.FINISHED
        assert found is not None
        assert found.page.status == 204
        assert made.client.reads == 3

    go(work)


def test_a_deadline_and_the_end_of_the_run_end_the_wait(ledger: Ledger) -> None:
    async def work() -> None:
        made = Set(ledger, poll=0.01, webhook=None)
        row = await made.order()
        assert (await made.reading.result(row, soon=False))[0] is Look.AGAIN
        made.run.stop_reason = "it is enough"
        with pytest.raises(FetchError, match="the run ends"):
            await made.reading.result(row, soon=False)

    go(work)


def test_a_task_beyond_its_deadline_is_looked_at_once_more_then_bought_anew(
    ledger: Ledger,
) -> None:
    async def work() -> None:
        made = Set(ledger, Answer(status=202), GOOD, poll=0.01, webhook=None)
        old = await made.order(age=100)
        row, _, look, found = await made.api()._bought(JOB)
        assert (row.task_id, look) == ("T2", Look.FINISHED)
        assert found is not None
        book = made.orders.book
        assert book.targets("T1") == book.targets("T2") == [URL]
        assert book.held("b", URL).row.ref == row.ref != old.ref  # type: ignore[union-attr]

    go(work)


def test_an_open_task_is_read_and_no_order_is_placed(ledger: Ledger) -> None:
    async def work() -> None:
        made = Set(ledger, GOOD, poll=100, webhook=None)
        old = await made.order()
        made.client.taken = Answer(status=500)  # an order would fail
        row, paid, look, _ = await made.api()._bought(JOB)
        assert (row.ref, paid, look) == (old.ref, 0.0, Look.FINISHED)

    go(work)


def test_with_events_an_order_that_may_have_arrived_is_looked_for(ledger: Ledger) -> None:
    async def work() -> None:
        made = Set(ledger, GOOD, poll=2, deadline=900)
        row = await made.order(None)
        with pytest.raises(NotYet) as waits:
            await made.api()._bought(JOB)
        assert waits.value.until <= made.run.clock() + 2
        await made.orders.event(row.ref, "T8", "completed")
        found, *_ = await made.api()._bought(JOB)
        assert found.task_id == "T8"

    go(work)


def test_an_order_that_may_have_arrived_is_waited_for_then_placed_again(ledger: Ledger) -> None:
    async def work() -> None:
        made = Set(ledger, GOOD, poll=0.01, stale=50, deadline=900, webhook=None)
        old = await made.order(None)
        with pytest.raises(NotYet) as waits:
            await made.api()._bought(JOB)
        assert waits.value.until == pytest.approx(old.submitted_at + 50)
        await made.orders.close([old], "stale")
        await made.order(None, age=51)
        row, *_ = await made.api()._bought(JOB)
        assert row.task_id == "T2"

    go(work)


@pytest.mark.parametrize("status", [401, 402, 403])
def test_a_key_without_rights_or_money_stops_the_run(ledger: Ledger, status: int) -> None:
    async def work() -> None:
        made = Set(ledger)
        made.run.secrets.add("k3y")
        made.client.taken = Answer(status=status, body=b'{"error": "no money for k3y"}')
        with pytest.raises(ApiFault) as fault:
            await made.api()._bought(JOB)
        assert fault.value.outcome is Outcome.NO_RESULT
        sentence = f"the scraping API takes no orders of ours ({status}: no money for ***)"
        assert made.run.stop_reason == sentence
        await asyncio.sleep(0)
        assert made.stopped == ["api_stopped"]
        assert await made.orders.held(JOB) is None

    go(work)


def test_refusals_are_waited_for_ten_times_and_hold_nothing(ledger: Ledger) -> None:
    async def work() -> None:
        made = Set(ledger)
        made.client.taken = Trouble(sent=False, text="connection refused")
        for _ in range(10):
            with pytest.raises(NotYet) as waits:
                await made.api()._bought(JOB)
            assert waits.value.until <= made.run.clock() + 20
            assert await made.orders.held(JOB) is None
        with pytest.raises(ApiFault, match="refused: 10 times again"):
            await made.api()._bought(JOB)

    go(work)
