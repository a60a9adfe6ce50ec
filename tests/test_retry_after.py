"""Retry-After: which header texts are a wait, and how long."""

import math
from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retryscrape.policy.retry_after import LONGEST, parse

NOW = 1_830_297_594.0  # Fri, 31 Dec 2027 23:59:54 GMT


def wait(*values: str, date: str | None = None, now: float = NOW) -> float | None:
    return parse(values, date=date, now=now)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("120", 120),
        (" 7 ", 7),
        ("0", 0),
        ("00012", 12),
        ("1.5", 2),
        ("0.129", 1),
        ("2.0", 2),
        ("86400", 86400),
        ("9999999999", LONGEST),
        ("1e10", LONGEST),
        ("1e400", LONGEST),
        ("9" * 24, LONGEST),
        ("9" * 400, LONGEST),
    ],
)
def test_seconds(text: str, seconds: float):
    assert wait(text) == seconds


@pytest.mark.parametrize(
    "text",
    [
        "Fri, 31 Dec 2027 23:59:59 GMT",
        "Friday, 31-Dec-27 23:59:59 GMT",
        "Fri Dec 31 23:59:59 2027",
        "Fri, 31 Dec 2027 23:59:59",
        "31 Dec 2027 23:59:59 UTC",
        "Sat, 01 Jan 2028 01:59:59 +0200",
        "2027-12-31T23:59:59Z",
        "2027-12-31T23:59:59",
        "2027-12-31 23:59:59",
        "2028-01-01T01:59:59+02:00",
    ],
)
def test_every_form_of_a_date_five_seconds_ahead(text: str):
    assert wait(text) == 5


def test_a_date_is_measured_against_the_response_date_whatever_our_clock_says():
    date = "Fri, 31 Dec 2027 23:59:49 GMT"
    assert wait("Fri, 31 Dec 2027 23:59:59 GMT", date=date, now=0) == 10


def test_a_date_header_that_is_none_leaves_our_own_clock():
    assert wait("Fri, 31 Dec 2027 23:59:59 GMT", date="yesterday") == 5


def test_a_past_date_is_zero_and_a_far_one_is_capped():
    assert wait("Wed, 21 Oct 2015 07:28:00 GMT") == 0
    assert wait("Fri, 01 Jan 2100 00:00:00 GMT") == LONGEST


def test_the_zone_of_the_machine_does_not_matter(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TZ", "America/New_York")
    assert wait("Fri Dec 31 23:59:59 2027") == 5


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "-1",
        "+3",
        "120junk",
        "120s",
        "soon",
        "inf",
        "nan",
        "Infinity",
        "-inf",
        "٣",
        "１２",
        "²",
        "0x10",
        "1_000",
        ".",
        "1.",
        "Fri, 31 Foo 2027 23:59:59 GMT",
        "Fri, 31 Dec 0000 25:61:61 GMT",
        "2027-13-45T00:00:00Z",
        "Fri, 31 Dec",
        "12:30",
    ],
)
def test_texts_that_are_no_wait_count_as_absent(text: str):
    assert wait(text) is None


@pytest.mark.parametrize(
    ("values", "seconds"),
    [
        (("120, 60",), 120),
        (("60,120",), 120),
        (("60", "120"), 120),
        (("soon", "7"), 7),
        (("-1, 7",), 7),
        (("Fri, 31 Dec 2027 23:59:59 GMT, 2",), 5),
        (("2, Fri, 31 Dec 2027 23:59:59 GMT",), 5),
        ((), None),
    ],
)
def test_of_several_values_the_largest_usable_one_counts(values, seconds):
    assert wait(*values) == seconds


@given(st.lists(st.text(), max_size=4), st.none() | st.text(), st.floats(0, 4e9))
def test_no_text_breaks_it(values, date, now):
    found = parse(values, date=date, now=now)
    assert found is None or (math.isfinite(found) and 0 <= found <= LONGEST)


DATES = st.from_regex(
    r"(Fri, )?[0-9]{1,2} (Dec|Feb|Foo) [0-9]{4} [0-9]{2}:[0-9]{2}:[0-9]{2}( GMT| [+-][0-9]{4})?"
    r"|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]{1,9}(Z|[+-][0-9:]{2,6})?"
    r"|[0-9]{1,500}(\.[0-9]+)?(e[0-9]{1,9})?",
    fullmatch=True,
)


@given(DATES, st.none() | DATES)
def test_nothing_that_looks_like_a_wait_breaks_it(value, date):
    found = parse([value], date=date, now=NOW)
    assert found is None or (math.isfinite(found) and 0 <= found <= LONGEST)


@given(st.integers(0, int(LONGEST)))
def test_seconds_and_dates_agree(seconds):
    assert wait(str(seconds)) == wait(formatdate(NOW + seconds, usegmt=True)) == seconds
