"""The exit code of a run, from what its rows came to. DESIGN.md section 3 is the source."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from retryscrape.policy.outcomes import SETTLED, ErrorClass, Outcome, Status

#: Status, outcome and error class of rows, with how many there are.
Group = tuple[tuple[Status, Outcome | None, ErrorClass | None], int]


#: What each code says, for ``run.json`` and the log (nobody sees exit codes under Scrapyd).
MEANINGS = {
    0: "nothing is left that anybody could still get",
    1: "rows are left without a page, or the run stopped early",
    2: "usage: an argument, a setting or the manifest is wrong; nothing was requested",
    130: "stopped by Ctrl-C or a cancel; what is open stays in the failures feed",
}


class Ending(Struct, frozen=True, kw_only=True):
    """How a run ended: its rows, and whether it could finish.

    ``unread`` says that lines of the manifest have no row yet.
    """

    groups: Sequence[Group]
    early: bool = False
    unread: bool = False
    interrupted: bool = False
    fail_on: str = "unresolved"


def exit_code(ending: Ending) -> int:
    """0, 1 or 130; usage errors (2) never get this far."""
    if ending.interrupted:
        return 130
    if ending.fail_on == "never":
        return 0
    rows = [(group, n) for group, n in ending.groups if n]
    if ending.early or ending.unread or _all_rejected(rows):
        return 1
    return int(any(_counts(group, ending.fail_on) for group, _ in rows))


def _all_rejected(rows: Sequence[Group]) -> bool:
    return bool(rows) and all(group[1] is Outcome.REJECTED for group, _ in rows)


def _counts(group: tuple[Status, Outcome | None, ErrorClass | None], fail_on: str) -> bool:
    status, outcome, error_class = group
    if status is Status.SUCCESS:
        return False
    if fail_on == "any":
        return True
    if fail_on == "redrivable":
        return error_class is not ErrorClass.PERMANENT
    return outcome not in SETTLED
