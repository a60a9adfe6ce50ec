"""Spider arguments, which rows are taken, and what the exit code says."""

from __future__ import annotations

import pytest

from retryscrape.crawl.arguments import ArgumentError, Arguments
from retryscrape.crawl.take import Take, take
from retryscrape.ledger.records import Known
from retryscrape.policy.exitcode import Ending, exit_code
from retryscrape.policy.outcomes import ErrorClass, Outcome, Status


def test_arguments_as_given_after_a() -> None:
    given = Arguments.from_kwargs(
        {"manifest": "m.txt", "min_text": "0", "shard": "2/4", "_job": "j1", "extra": "x"}
    )
    assert (given.min_text, given.shard, given.job) == (0, (2, 4), "j1")
    assert given.unknown == ("extra",)
    assert given.checks.min_text == 0


@pytest.mark.parametrize(
    ("kwargs", "name"),
    [
        ({}, "manifest"),
        ({"manifest": "m", "urls": "u", "batch": "b"}, "urls"),
        ({"manifest": "-"}, "batch"),
        ({"urls": "http://h/"}, "batch"),
        ({"manifest": "m", "min_text": "many"}, "min_text"),
        ({"manifest": "m", "min_text": "-1"}, "min_text"),
        ({"manifest": "m", "require": "div["}, "require"),
        ({"manifest": "m", "require": ""}, "require"),
        ({"manifest": "m", "default_scheme": "ftp"}, "default_scheme"),
        ({"manifest": "m", "shard": "5/4"}, "shard"),
        ({"manifest": "m", "shard": "1"}, "shard"),
        ({"manifest": "m", "include_permanent": "maybe"}, "include_permanent"),
        ({"manifest": "m", "final_host": "http://h/"}, "final_host"),
        ({"work": "ledger"}, "batch"),
        ({"work": "hard", "batch": "b"}, "work"),
        ({"manifest": "m", "batch": "../x"}, "batch"),
        ({"manifest": "lists/con.txt"}, "batch"),
        ({"manifest": "lists/.txt"}, "batch"),
    ],
)
def test_a_wrong_argument_is_one_sentence_that_names_it(kwargs: dict[str, str], name: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        Arguments.from_kwargs(kwargs)
    assert name in str(caught.value)
    assert "\n" not in str(caught.value)


def row(
    status: str,
    outcome: str | None = None,
    error_class: str | None = None,
    not_before: float | None = None,
) -> Known:
    return Known(
        url="u",
        line=1,
        host="h",
        status=Status(status),
        outcome=Outcome(outcome) if outcome else None,
        error_class=ErrorClass(error_class) if error_class else None,
        http_code=None,
        kind=None,
        attempts=0,
        passes=0,
        cost=0,
        bytes=0,
        rung=None,
        escalate=False,
        not_before=not_before,
        fields=None,
        same_as=None,
    )


@pytest.mark.parametrize(
    ("known", "permanent", "expected"),
    [
        (row("pending"), False, Take.YES),
        (row("success", "ok"), True, Take.DONE),
        (row("failed", "blocked", "retryable"), False, Take.YES),
        (row("failed", "gone", "permanent"), False, Take.PERMANENT),
        (row("failed", "gone", "permanent"), True, Take.YES),
        (row("failed", "rejected", "permanent"), True, Take.REJECTED),
        (row("failed", "throttled", "backoff_required", 1003.0), False, Take.YES),
        (row("failed", "throttled", "backoff_required", 9999.0), False, Take.PARKED),
        (row("pending", None, None, 9999.0), False, Take.PARKED),
    ],
)
def test_which_rows_a_crawl_takes(known: Known, permanent: bool, expected: Take) -> None:
    assert take(known, now=1000.0, max_wait=300.0, include_permanent=permanent) is expected


OK = (Status.SUCCESS, Outcome.OK, None)
GONE = (Status.FAILED, Outcome.GONE, ErrorClass.PERMANENT)
BLOCKED = (Status.FAILED, Outcome.BLOCKED, ErrorClass.RETRYABLE)
INVALID = (Status.FAILED, Outcome.INVALID, ErrorClass.PERMANENT)
REJECTED = (Status.FAILED, Outcome.REJECTED, ErrorClass.PERMANENT)
PENDING = (Status.PENDING, None, None)


@pytest.mark.parametrize(
    ("groups", "given", "code"),
    [
        ([], {}, 0),
        ([(OK, 3), (GONE, 1), (REJECTED, 1)], {}, 0),
        ([(OK, 3), (BLOCKED, 1)], {}, 1),
        ([(OK, 3), (INVALID, 1)], {}, 1),
        ([(OK, 3), (PENDING, 1)], {}, 1),
        ([(REJECTED, 4)], {}, 1),
        ([(OK, 3)], {"early": True}, 1),
        ([(OK, 3)], {"unread": True}, 1),
        ([(OK, 3)], {"interrupted": True}, 130),
        ([(OK, 3), (INVALID, 1)], {"fail_on": "redrivable"}, 0),
        ([(OK, 3), (BLOCKED, 1)], {"fail_on": "redrivable"}, 1),
        ([(OK, 3), (GONE, 1)], {"fail_on": "any"}, 1),
        ([(OK, 3), (BLOCKED, 1)], {"fail_on": "never"}, 0),
    ],
)
def test_exit_codes(groups: list, given: dict, code: int) -> None:
    assert exit_code(Ending(groups=groups, **given)) == code
