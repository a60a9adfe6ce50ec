"""The classifier as a user sees it: a page goes in, an outcome and a vendor come out."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retryscrape.policy.classify import classify, classify_redirect
from retryscrape.policy.outcomes import Checks, Kind, Outcome, Page
from tests.block_tables import ARTICLE, BLOCKED, GEO, ORDINARY, Row, page

CASES = json.loads((Path(__file__).parent / "data" / "block_cases.json").read_text("utf-8"))
OWN = json.loads((Path(__file__).parent / "data" / "block_pages_own.json").read_text("utf-8"))
HTML = {"content-type": "text/html; charset=utf-8"}
JSON = {"content-type": "application/json"}


def answer(
    status: int = 200,
    headers: dict[str, str] | None = None,
    body: str | bytes = b"",
    url: str = "http://shop.test/x",
    encoding: str | None = None,
    partial: bool = False,
) -> Page:
    """An answer, HTML unless its headers say otherwise."""
    fields = {**HTML, **{name.lower(): value for name, value in (headers or {}).items()}}
    return Page(
        status=status,
        url=url,
        headers={name: (value,) for name, value in fields.items()},
        body=body.encode() if isinstance(body, str) else body,
        encoding=encoding,
        partial=partial,
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_the_cases_handed_out(case: dict) -> None:
    verdict = classify(answer(case["status"], case["headers"], case["body"]))
    expected = case["expect"]
    assert (verdict.outcome, verdict.vendor) == (expected["outcome"], expected["vendor"])
    assert expected["kind"] in (None, verdict.kind)


@pytest.mark.parametrize("case", OWN, ids=lambda case: case["id"])
def test_pages_as_the_vendors_serve_them_and_look_alikes(case: dict) -> None:
    body = case["body"].replace("{article}", ARTICLE).replace("{styles}", ".a{b:c}" * 15_000)
    verdict = classify(answer(case["status"], case["headers"], body))
    assert verdict.outcome == case["expect"]["outcome"], verdict
    assert verdict.vendor == case["expect"]["vendor"], verdict


@pytest.mark.parametrize("row", BLOCKED + ORDINARY, ids=lambda row: row[0])
def test_each_row_of_the_public_facts(row: Row) -> None:
    _, status, headers, body, outcome, vendor = row
    verdict = classify(answer(status, headers, body))
    assert (verdict.outcome, verdict.vendor) == (outcome, vendor), verdict
    assert verdict.evidence
    assert verdict.http_code == status


@pytest.mark.parametrize(
    ("headers", "body", "vendor"),
    [
        (JSON, f'{{"url":"{GEO}"}}', "datadome"),
        (JSON, f'{{"url":"{GEO}"}}'.replace("/", "\\/"), "datadome"),
        (JSON, '{"appId":"PX1","vid":"","uuid":"u","blockScript":"/b.js"}', "perimeterx"),
        (JSON, '{"data":{"url":"https://a/_____tmd_____/punish?x5secdata=b"}}', "alibaba"),
        (JSON, '{"error":"Incapsula incident ID: 1 Just a moment... _cf_chl_opt"}', None),
        ({"content-type": "text/plain"}, "Block Automation", None),
        ({"content-type": "image/png", "server": "ddos-guard"}, "\x89PNG", None),
    ],
)
def test_a_block_that_is_no_html_never_asks_for_a_browser(
    headers: dict[str, str], body: str, vendor: str | None
) -> None:
    verdict = classify(answer(403, headers, body))
    assert (verdict.outcome, verdict.vendor, verdict.html) == (Outcome.BLOCKED, vendor, False)


@pytest.mark.parametrize("kind", ["application/json", "application/xml", "image/png", ""])
def test_a_challenge_is_found_under_the_type_that_was_asked_for(kind: str) -> None:
    body = page("Just a moment...", "", "<script>window._cf_chl_opt={}</script>")
    verdict = classify(answer(200, {"content-type": kind}, body))
    assert (verdict.vendor, verdict.html) == ("cloudflare", True)


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("application/json", b"[]"),
        ("application/json", b"\xef\xbb\xbf{}"),
        ("application/json", b")]}',\n{}"),
        ("application/json", b"[" + b"1" * 5000 + b"]"),
        ("text/html", b'{"a": 1}'),
        ("text/html", b"\x89PNG\r\n\x1a\n\x00\xff"),
        ("text/plain", b"User-agent: *\n"),
        ("application/xml", b"<?xml version='1.0'?><urlset></urlset>"),
        ("application/pdf", b"%PDF-1.7"),
        ("", b"\x1f\x8b\x08\x00"),
        ("", b"\x00\x00\x00\x1cftypisom"),
        ("application/octet-stream", b"\x00\x01\x02"),
    ],
)
def test_small_answers_that_are_no_html_are_fine(kind: str, body: bytes) -> None:
    verdict = classify(answer(200, {"content-type": kind}, body))
    assert (verdict.outcome, verdict.html) == (Outcome.OK, False)


@pytest.mark.parametrize("charset", ["utf-16", "utf-16-le", "utf-16-be", "latin-1"])
def test_a_marker_is_found_in_any_charset(charset: str) -> None:
    body = page("Einen Moment", "", "<script>window._cf_chl_opt={}</script>").encode(charset)
    assert classify(answer(200, None, body)).vendor == "cloudflare"


def test_a_title_behind_large_styles_is_found_on_a_good_status() -> None:
    styles = "<style>" + ".a{b:c}" * 43_000 + "</style>"
    body = f"<html><head>{styles}<title>Just a moment...</title></head><body></body></html>"
    assert classify(answer(200, None, body)).vendor == "cloudflare"


def test_json_in_a_legacy_charset_is_json() -> None:
    body = '{"a":"café"}'.encode("latin-1")
    assert classify(answer(200, JSON, body, encoding="iso-8859-1")).outcome is Outcome.OK


@pytest.mark.parametrize("body", ['{"a":', "<html>" + ARTICLE, "[" * 100_000])
def test_json_that_does_not_parse_is_invalid(body: str) -> None:
    verdict = classify(answer(200, JSON, body))
    assert (verdict.outcome, verdict.evidence) == (Outcome.INVALID, "check:json")


@pytest.mark.parametrize(
    ("checks", "body", "evidence"),
    [
        (Checks(), page("x", "Too short"), "check:min_text"),
        (Checks(), page("x", "<script>" + "x=1;" * 2500 + "</script>"), "check:min_text"),
        (Checks(require="h1.price"), page("x", ARTICLE), "check:require"),
        (Checks(final_host="other.test"), page("x", ARTICLE), "check:final_host"),
        (Checks(final_host="op.test"), page("x", ARTICLE), "check:final_host"),
    ],
)
def test_a_page_that_fails_a_check_is_invalid(checks: Checks, body: str, evidence: str) -> None:
    verdict = classify(answer(200, None, body), checks)
    assert (verdict.outcome, verdict.evidence) == (Outcome.INVALID, evidence)
    assert verdict.reason


@pytest.mark.parametrize(
    "checks",
    [
        Checks(require="p::text"),
        Checks(final_host="shop.test"),
        Checks(final_host="TEST"),
        Checks(min_text=2000),
    ],
)
def test_a_page_that_passes_its_checks_is_ok(checks: Checks) -> None:
    assert classify(answer(200, None, page("x", ARTICLE)), checks).outcome is Outcome.OK


def test_an_address_that_cannot_be_read_ends_on_no_host() -> None:
    checks = Checks(final_host="shop.test")
    verdict = classify(answer(200, None, page("x", ARTICLE), url="http://[::1"), checks)
    assert verdict.evidence == "check:final_host"


def test_a_body_whose_end_nobody_told_must_have_one_of_its_own() -> None:
    whole = page("x", ARTICLE)
    assert classify(answer(200, None, whole, partial=True)).outcome is Outcome.OK
    cut = classify(answer(200, None, whole[:-20], partial=True))
    assert (cut.outcome, cut.reason) == (Outcome.NETWORK_ERROR, "truncated")


def test_the_users_own_check_is_asked_last_and_only_about_good_pages() -> None:
    asked: list[str] = []

    def validate() -> str | None:
        asked.append("asked")
        return "no price"

    assert classify(answer(404), validate=validate).outcome is Outcome.GONE
    assert classify(answer(200, None, page("x", "short")), validate=validate).reason != "no price"
    assert asked == []
    verdict = classify(answer(200, None, page("x", ARTICLE)), validate=validate)
    assert (verdict.outcome, verdict.reason) == (Outcome.INVALID, "no price")


def test_what_the_users_own_check_raises_comes_through() -> None:
    def validate() -> str | None:
        raise KeyError("price")

    with pytest.raises(KeyError):
        classify(answer(200, None, page("x", ARTICLE)), validate=validate)


@pytest.mark.parametrize(
    ("status", "sent"),
    [(429, ("7", "9")), (503, ("7", "9")), (403, ("7", "9")), (404, ()), (200, ())],
)
def test_retry_after_comes_as_sent_where_it_counts(status: int, sent: tuple[str, ...]) -> None:
    headers = {"retry-after": ("7", "9"), "date": ("Sun, 29 Nov 2026 12:00:00 GMT",)}
    verdict = classify(Page(status=status, url="http://shop.test/", headers=headers, body=b"x"))
    assert verdict.retry_after == sent
    assert (verdict.date is not None) == bool(sent)


@pytest.mark.parametrize(
    ("rt", "kind"), [("'rt':'i'", "challenge"), ("'rt':'c'", "captcha"), ("'t':'bv'", "denial")]
)
def test_the_page_tells_the_kind_that_a_header_does_not(rt: str, kind: str) -> None:
    body = page("shop.test", f"<script>var dd={{{rt}}}</script>")
    assert classify(answer(403, {"x-dd-b": "1"}, body)).kind == kind


@pytest.mark.parametrize(
    ("status", "location", "vendor", "kind"),
    [
        (302, "https://validate.perfdrive.com/abc?ssa=1", "radware", "captcha"),
        (302, "https://www.google.com/sorry/index?continue=x", "google", "captcha"),
        (302, "https://ipv4.google.co.uk/sorry/IndexRedirect?continue=x", "google", "captcha"),
        (302, "/sorry/index", "google", "captcha"),
        (302, "//shop.test/punish?x5secdata=a", "alibaba", "captcha"),
        (307, "/.within.website/?redir=%2F", "anubis", "challenge"),
        (303, "https://consent.google.com/ml?continue=x", "google", "consent"),
        (302, "https://www.linkedin.com/authwall?trk=x", "linkedin", "denial"),
    ],
)
def test_a_redirect_to_a_wall_is_evidence_before_and_after_it_is_followed(
    status: int, location: str, vendor: str, kind: str
) -> None:
    before = classify_redirect(answer(status, {"location": location}))
    assert before is not None
    assert (before.outcome, before.vendor, before.kind) == (Outcome.BLOCKED, vendor, kind)
    if location.startswith("http"):
        after = classify(answer(200, None, page("x", ARTICLE), url=location))
        assert (after.outcome, after.vendor) == (Outcome.BLOCKED, vendor)


@pytest.mark.parametrize(
    "location",
    [
        "/login",
        "/sorry/we-are-closed",
        "/why-sorry/?a",
        "https://perfdrive.com.shop.test/",
        "",
        "http://[::1",
    ],
)
def test_an_ordinary_redirect_is_left_alone(location: str) -> None:
    assert classify_redirect(answer(302, {"location": location, "server": "cloudflare"})) is None


def test_a_challenge_that_is_a_redirect_to_itself() -> None:
    body = "<script>sucuri_cloudproxy_js=''</script>"
    verdict = classify_redirect(answer(307, {"location": "/x"}, body))
    assert verdict is not None
    assert (verdict.vendor, verdict.kind) == ("sucuri", Kind.CHALLENGE)


@given(
    status=st.integers(0, 9999),
    headers=st.dictionaries(
        st.sampled_from(["content-type", "server", "location", "retry-after", "x-k", "x-dd-b"])
        | st.text(max_size=12),
        st.lists(st.text(max_size=30), max_size=3).map(tuple),
        max_size=6,
    ),
    body=st.binary(max_size=400)
    | st.text(alphabet="<>/!-=\"'& abtile", max_size=400).map(str.encode),
    url=st.text(max_size=40),
    encoding=st.none() | st.sampled_from(["utf-8", "utf-16", "idna", "zip", "nonsense", "a\0b"]),
)
def test_nothing_that_a_site_sends_raises(status, headers, body, url, encoding) -> None:
    sent = Page(status=status, url=url, headers=headers, body=body, encoding=encoding)
    checks = Checks(require="p", final_host="shop.test")
    assert classify(sent, checks).http_code == status
    assert classify_redirect(sent) is None or status >= 0


@pytest.mark.parametrize(
    "body",
    [
        b"_cf_chl_opt " * 40_000,
        b"cf-please-wait" + b"<id=" * 100_000,
        b"<script" * 70_000,
        b"<!--" * 120_000,
        b"<a>" * 1_500_000,
    ],
    ids=["word", "tags", "scripts", "comments", "5 MB"],
)
def test_hostile_pages_cost_bounded_work(body: bytes) -> None:
    """Before, the first took 16 seconds and the second 100. CPU time: the machine is shared."""
    began = time.process_time()
    classify(answer(403, None, body))
    assert time.process_time() - began < 3
