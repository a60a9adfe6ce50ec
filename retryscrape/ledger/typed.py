"""What was typed for a batch: the spider and the arguments that later passes share.

Read from ``jobs``. Arguments of one run only (which manifest, which shard) are left out.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from retryscrape.ledger.records import JobRow
from retryscrape.ledger.store import Ledger

#: Arguments that say what one run works on; all others say what a good page is.
_OF_ONE_RUN = frozenset({"manifest", "urls", "batch", "work", "shard", "include_permanent"})


class Typed(Struct, frozen=True, kw_only=True):
    """A spider's name (None: not known) and its arguments, as texts; ``settings`` are
    those that a re-drive must not do without."""

    spider: str | None = None
    arguments: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)

    def judges_like(self, other: Typed | None) -> bool:
        """Whether both say the same of what a good page is; settings have no say in that."""
        return other is not None and (self.spider, self.arguments) == (
            other.spider,
            other.arguments,
        )


def typed_of(job: JobRow) -> Typed:
    """What was typed for one run, without what belongs to that run alone."""
    given = job.arguments or {}
    kept = {
        name: str(value)
        for name, value in given.items()
        if name not in _OF_ONE_RUN and not name.startswith("_") and value is not None
    }
    settings = {name: str(value) for name, value in (job.settings or {}).items()}
    return Typed(spider=job.spider, arguments=kept, settings=settings)


def typed_last(ledger: Ledger, batch_id: str) -> Typed:
    """What was typed last for a batch; empty if no run remembers."""
    jobs = [job for job in ledger.jobs_of(batch_id) if job.spider]
    return typed_of(jobs[-1]) if jobs else Typed()
