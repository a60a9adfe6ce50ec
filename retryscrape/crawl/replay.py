"""One policy replay as the command runs it: today's settings, the spider's checks, the lock.

What is compared with what is ledger/replay.py's.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path

from scrapy.settings import BaseSettings

from retryscrape.config import Config
from retryscrape.crawl.check import spider_class
from retryscrape.crawl.judge import page_classifier
from retryscrape.ledger.files import write_files
from retryscrape.ledger.lock import BatchLock
from retryscrape.ledger.replay import Change, Replayer, Rules, Tally
from retryscrape.ledger.store import Ledger
from retryscrape.ledger.typed import typed_last
from retryscrape.policy.backoff import Backoff, Jitter
from retryscrape.policy.decide import Limits
from retryscrape.policy.ladder import Ladder
from retryscrape.policy.outcomes import Page, Verdict


def replay(
    ledger: Ledger,
    batch_id: str,
    settings: BaseSettings,
    *,
    changed: Callable[[Change], None],
    spider: str | None = None,
    arguments: Mapping[str, str] | None = None,
    apply: bool = False,
) -> Tally:
    """Replay a batch by what was typed for it last, or by what is given here.

    Raises ArgumentError, BatchBusyError, LedgerError, OSError.
    """
    config = Config.from_settings(settings)
    out = Path(config.out)
    typed = typed_last(ledger, batch_id)
    classify = page_classifier(
        spider_class(settings, spider or typed.spider), {**typed.arguments, **(arguments or {})}
    )
    job_id = f"replay-{os.getpid()}"
    lock = BatchLock.take(out / batch_id, batch_id, job_id=job_id) if apply else nullcontext()
    with lock:
        tally = Replayer(
            ledger=ledger,
            batch_id=batch_id,
            out=out,
            rules=rules_of(config, classify),
            changed=changed,
            now=time.time(),
            apply=apply,
        ).run()
        if tally.reopened:
            write_files(ledger, out, batch_id, now=time.time())
    return tally


def rules_of(config: Config, classify: Callable[[Page], Verdict]) -> Rules:
    """Today's rules, every rung of the ladder taken as usable."""
    bases = frozenset(rung.split(":")[0] for rung in config.ladder)
    return Rules(
        classify=classify,
        limits=Limits(
            attempts=config.attempts,
            url_budget=config.url_budget,
            max_wait=config.max_wait,
            backoff=Backoff(
                kind=Jitter(config.backoff), base=config.backoff_base, cap=config.backoff_cap
            ),
        ),
        ladder=Ladder(config.ladder, bases),
        price=config.price,
    )
