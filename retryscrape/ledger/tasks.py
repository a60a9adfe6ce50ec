"""Orders at scraping APIs: in the ledger before they are sent, so that nothing is paid for twice.

States: ``submitting`` (it may have left), ``open`` (the API has taken it), ``done`` (its
result was read), and the ends: ``refused``, ``rejected``, ``lost``, ``stale``, ``expired``.
What an order's result came to is in ``attempts``, under its ``ref``.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import asdict, replace
from sqlalchemy import Connection, and_, func, or_, select
from sqlalchemy.dialects import postgresql, sqlite

from retryscrape.ledger.database import slices
from retryscrape.ledger.forms import clean
from retryscrape.ledger.schema import attempts, entries, events, tasks
from retryscrape.ledger.store import Ledger
from retryscrape.policy.outcomes import Outcome, Status

SUBMITTING, OPEN, DONE = "submitting", "open", "done"
#: Attempts that left the order's result to be read again: nothing is known against it.
_UNSPENT = (Outcome.OK.value, Outcome.NO_RESULT.value)


class TaskRow(Struct, frozen=True, kw_only=True):
    """One order of one URL. ``submitted_at`` is an epoch second."""

    ref: str
    batch_id: str
    url: str
    target: str
    state: str = SUBMITTING
    task_id: str | None = None
    submitted_at: float = 0.0
    rung: str | None = None
    job_id: str | None = None


class Held(Struct, frozen=True, kw_only=True):
    """An order that still stands for its URL; ``paid`` price units are on record for it."""

    row: TaskRow
    paid: float = 0.0


class TaskBook:
    """The orders of a ledger. Every method is one transaction, for any thread."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger

    def held(self, batch_id: str, url: str) -> Held | None:
        """The order of this URL that must be looked at before there is another one.

        One whose result was read stands until it led to an attempt that failed: a process
        may have died before it wrote down what it had paid for. Not for a row that is a
        success: what asks for it again wants a fresh page; and so does what has no row.
        """
        url = clean(url)
        states = (SUBMITTING, OPEN, DONE) if batch_id else (SUBMITTING, OPEN)
        query = (
            select(tasks, entries.c.status)
            .outerjoin(entries, and_(entries.c.batch_id == batch_id, entries.c.url == url))
            .where(tasks.c.batch_id == batch_id, tasks.c.url == url)
            .where(tasks.c.state.in_(states))
            .order_by(tasks.c.submitted_at.desc(), tasks.c.ref)
            .limit(1)
        )
        with self.ledger.reading() as connection:
            found = connection.execute(query).mappings().first()
            if found is None or found["status"] == Status.SUCCESS.value:
                return None
            row = TaskRow(**{name: found[name] for name in TaskRow.__struct_fields__})
            paid = self._paid(connection, row)
        return None if paid is None else Held(row=row, paid=paid)

    @staticmethod
    def _paid(connection: Connection, row: TaskRow) -> float | None:
        """Price units on record for the order; None if its result was used up."""
        mine = and_(
            attempts.c.batch_id == row.batch_id,
            attempts.c.url == row.url,
            attempts.c.task == row.ref,
        )
        spent = func.count().filter(attempts.c.outcome.not_in(_UNSPENT))
        total, used = connection.execute(
            select(func.coalesce(func.sum(attempts.c.cost), 0.0), spent).where(mine)
        ).one()
        return None if used else float(total)

    def begin(self, rows: Sequence[TaskRow]) -> None:
        """These orders are about to be sent (again: the same ``ref``)."""
        values = [
            asdict(replace(row, url=clean(row.url), target=clean(row.target))) for row in rows
        ]
        insert = sqlite.insert if self.ledger.dialect.sqlite else postgresql.insert
        statement = insert(tasks)
        changed = {
            "state": statement.excluded.state,
            "submitted_at": statement.excluded.submitted_at,
            "job_id": statement.excluded.job_id,
        }
        put = statement.on_conflict_do_update(index_elements=["ref"], set_=changed)
        with self.ledger.writing() as connection:
            connection.execute(put, values)

    def accepted(self, refs: Sequence[str], task_id: str) -> None:
        """The API has taken them: committed before the first read."""
        with self.ledger.writing() as connection:
            for piece in slices(refs):
                change = tasks.update().where(tasks.c.ref.in_(piece), tasks.c.task_id.is_(None))
                connection.execute(change.values(state=OPEN, task_id=clean(task_id)))

    def lost(self, refs: Sequence[str], now: float) -> None:
        """Their answer was lost: they turn stale from now on (not what an event has found)."""
        with self.ledger.writing() as connection:
            for piece in slices(refs):
                ours = and_(tasks.c.ref.in_(piece), tasks.c.state == SUBMITTING)
                connection.execute(tasks.update().where(ours).values(submitted_at=now))

    def adopt(self, ref: str, task_id: str) -> bool:
        """An event says which task an order became whose answer was lost; false for all others.

        ``ref`` names an order, or all of a batch (``ref-1``, ``ref-2`` ...).
        """
        known = select(tasks.c.ref).where(tasks.c.task_id == clean(task_id)).exists()
        change = (
            tasks.update()
            .where(
                or_(
                    tasks.c.ref == clean(ref),
                    tasks.c.ref.startswith(f"{clean(ref)}-", autoescape=True),
                )
            )
            .where(tasks.c.state == SUBMITTING, ~known)
            .values(state=OPEN, task_id=clean(task_id))
        )
        with self.ledger.writing() as connection:
            return connection.execute(change).rowcount > 0

    def close(self, refs: Sequence[str], state: str) -> None:
        """They have come to this."""
        with self.ledger.writing() as connection:
            for piece in slices(refs):
                connection.execute(tasks.update().where(tasks.c.ref.in_(piece)).values(state=state))

    def seen(self, task_id: str, event: str, now: float) -> bool:
        """Remember an event; whether it is new."""
        insert = sqlite.insert if self.ledger.dialect.sqlite else postgresql.insert
        put = (
            insert(events)
            .values(task_id=clean(task_id), event=clean(event), seen_at=now)
            .on_conflict_do_nothing()
            .execution_options(preserve_rowcount=True)
        )
        with self.ledger.writing() as connection:
            return connection.execute(put).rowcount == 1

    def announced(self, task_id: str) -> bool:
        """Whether an event of this task has come already, before its id was known."""
        query = select(events.c.event).where(events.c.task_id == clean(task_id)).limit(1)
        with self.ledger.reading() as connection:
            return connection.execute(query).first() is not None

    def targets(self, task_id: str) -> list[str]:
        """What was asked for in a batch."""
        query = select(tasks.c.target).where(tasks.c.task_id == clean(task_id))
        with self.ledger.reading() as connection:
            return list(connection.execute(query.order_by(tasks.c.ref)).scalars())

    def open_tasks(self, batch_id: str) -> int:
        """Orders of a batch that an earlier run has left open."""
        query = select(func.count()).where(
            tasks.c.batch_id == batch_id, tasks.c.state.in_((SUBMITTING, OPEN))
        )
        with self.ledger.reading() as connection:
            return int(connection.execute(query).scalar() or 0)
