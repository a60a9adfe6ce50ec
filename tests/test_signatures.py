"""The table of signatures: complete, well formed, and each vendor shown by a page."""

from __future__ import annotations

from retryscrape.policy import signatures as data
from retryscrape.policy.outcomes import Kind
from tests.block_tables import BLOCKED

#: The list of DESIGN.md section 5.1.
VENDORS = {
    "akamai",
    "alibaba",
    "amazon",
    "anubis",
    "arvancloud",
    "aws-waf",
    "azure",
    "barracuda",
    "cloudbric",
    "cloudflare",
    "cloudfront",
    "datadome",
    "ddos-guard",
    "f5",
    "fastly",
    "fortiweb",
    "google",
    "imperva",
    "imunify360",
    "kasada",
    "linkedin",
    "modsecurity",
    "netscaler",
    "perimeterx",
    "qrator",
    "radware",
    "reblaze",
    "reddit",
    "shape",
    "sitelock",
    "stackpath",
    "sucuri",
    "tencent",
    "vercel",
    "weibo",
    "wordfence",
    "yundun",
}


def named() -> set[str | None]:
    """Every vendor that a signature names."""
    rows = (*data.HEADERS, *data.BODIES, *data.JSON_BODIES, *data.TITLES.values(), *data.WALLS)
    parts = [row for _, row in data.TITLE_PARTS]
    return {row.vendor for row in (*rows, *parts)} | {row[0] for row in data.STATUSES.values()}


def test_the_vendors_are_those_of_the_contract() -> None:
    assert named() - {None} == VENDORS


def test_each_vendor_has_a_page_to_show_it() -> None:
    assert {row[5] for row in BLOCKED} - {None} == VENDORS


def test_words_are_in_lower_case_as_they_are_looked_for() -> None:
    words = [word for row in (*data.BODIES, *data.JSON_BODIES) for word in row.has]
    assert words
    assert [word for word in words if word != word.lower()] == []
    assert [title for title in data.TITLES if title != title.casefold()] == []


def test_kinds_are_known_and_sources_are_given() -> None:
    rows = (*data.HEADERS, *data.BODIES, *data.JSON_BODIES, *data.TITLES.values(), *data.WALLS)
    assert all(row.kind is None or isinstance(row.kind, Kind) for row in rows)
    assert all(1 <= int(row.row) <= 47 for row in rows)
