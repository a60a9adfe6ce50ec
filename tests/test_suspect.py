"""The same page under many URLs of a host: noticed, told, and with ``fail`` no success."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retryscrape.policy.outcomes import Page
from retryscrape.policy.suspect import SAME, Row, Suspects, body_text, digest_of
from tests.commandline import *  # noqa: F403
from tests.commandline import Project
from tests.hostile_fixture import *  # noqa: F403

WORDS = "please wait while we have a look at your connection and its history " * 5


def page(text: str = WORDS, n: int = 1, kind: str = "text/html") -> Page:
    body = f"<html><body><p>{text}</p></body></html>" if kind == "text/html" else text
    headers = {"content-type": (kind,)}
    return Page(status=200, url=f"http://h.test/{n}", headers=headers, body=body.encode())


def row(n: int) -> Row:
    return Row(batch="b", url=f"http://h.test/{n}")


def digest(one: Page) -> str:
    html = one.header("content-type") == "text/html"
    return digest_of(one, body_text(one) if html else None)


@pytest.mark.parametrize(
    "changing",
    [
        "reference #18.2d3ef120.1769900000.5ab3c1",
        "your address: 203.0.113.{n}7, 2026-01-31T07:05:{n}9Z",
        "ray 8a7f3c21{n}4d9e{n}b0",
        "request http://h.test/{n} was held back",
        "incident q7w{n}e4r5t6y7u8i{n}o9",
    ],
)
def test_ids_times_and_its_own_address_do_not_tell_a_page_apart(changing: str) -> None:
    pages = [page(WORDS + changing.format(n=n), n) for n in (1, 2)]
    assert digest(pages[0]) == digest(pages[1])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (page(WORDS + "item 7"), page(WORDS + "item 8")),
        (page(WORDS + "19.99 EUR"), page(WORDS + "18.99 EUR")),
        (page(WORDS + "a red hat"), page(WORDS + "a blue hat")),
        (page("<img src=a.png>"), page("<img src=b.png>")),
        (page("[1, 2]", kind="application/json"), page("[1, 3]", kind="application/json")),
    ],
)
def test_pages_that_differ_for_a_reader_differ(one: Page, other: Page) -> None:
    assert digest(one) != digest(other)


def test_the_fifth_url_of_a_host_is_one_too_many() -> None:
    suspects = Suspects()
    assert [suspects.look("h", row(n), page(n=n)) for n in range(7)] == [0, 0, 0, 0, 5, 6, 7]
    (found,) = suspects.found()
    assert (found.urls, found.first) == (7, tuple(row(n) for n in range(SAME - 1)))
    assert found.text.startswith("please wait while we")


def test_pages_with_titles_of_their_own_are_not_compared() -> None:
    suspects = Suspects()
    for n in range(20):
        titled = page(f"<title>item {n}</title>{WORDS}", n)
        assert suspects.look("h", row(n), titled) == 0
    assert len(suspects._seen) == 0


def test_under_one_title_only_what_is_the_same_is_counted_together() -> None:
    suspects = Suspects()
    for n in range(20):
        assert suspects.look("h", row(n), page(f"<title>shop</title>{WORDS} item {n}", n)) == 0


def test_each_host_is_counted_for_itself() -> None:
    suspects = Suspects()
    assert not any(suspects.look(f"h{n}", row(n), page(n=n)) for n in range(20))


def test_a_url_that_comes_again_counts_once() -> None:
    suspects = Suspects()
    assert not any(suspects.look("h", row(n % 4), page()) for n in range(20))
    for again in range(3):
        assert suspects.look("h", row(10), page()) == SAME, again


def test_a_page_known_from_an_earlier_run_is_suspicious_at_once() -> None:
    suspects = Suspects([("h", digest(page()))])
    assert suspects.found() == []
    assert suspects.look("h", row(1), page()) == 1
    assert suspects.found()[0].first == ()


def test_memory_is_bounded_and_what_is_suspicious_is_kept() -> None:
    suspects = Suspects(pages=10)
    for n in range(SAME):
        suspects.look("h", row(n), page())
    for n in range(100):
        suspects.look("h", row(1000 + n), page(f"{WORDS} number {n}"))
    assert len(suspects._seen) == 10
    assert [found.urls for found in suspects.found()] == [SAME]


@given(st.binary(max_size=300), st.sampled_from(["text/html", "application/json", "image/png", ""]))
def test_no_page_breaks_it(body: bytes, kind: str) -> None:
    strange = Page(status=200, url="http://h.test/", headers={"content-type": (kind,)}, body=body)
    assert Suspects().look("h", row(1), strange) == 0


def crawl(project: Project, web, mode: str) -> str:
    urls = [web.url(f"/same/{n}") for n in range(8)] + [web.url(f"/ok/{n}") for n in range(8)]
    manifest = project.manifest("b.txt", urls)
    done = project.crawl(manifest, settings={"RETRYSCRAPE_SUSPECT": mode})
    return done.err


def outcomes(project: Project) -> dict[str, int]:
    return dict(project.sql("SELECT outcome, count(*) FROM entries GROUP BY outcome"))


def test_a_crawl_tells_of_it_at_its_end_in_run_json_and_in_the_report(
    project: Project, web
) -> None:
    log = crawl(project, web, "report")
    assert "Suspicious: the same page under 8 URLs of 127.0.0.1" in log
    assert outcomes(project) == {"ok": 16}
    (told,) = json.loads((project.out / "b" / "run.json").read_text())["suspects"]
    assert told["urls"] == 8
    assert (project.out / told["page_path"]).is_file()
    report = json.loads((project.out / "b" / "report.json").read_text())
    assert report["suspects"] == [told]


def test_with_fail_such_pages_are_invalid_the_first_four_and_later_ones_too(
    project: Project, web
) -> None:
    log = crawl(project, web, "fail")
    assert "they count as invalid" in log
    assert outcomes(project) == {"ok": 8, "invalid": 8}
    pages = list((project.out / "b" / "pages").rglob("*.html"))
    assert len(pages) == 8
    feed = str(project.out / "b" / "failures.jsonl")
    project.scrapy(
        "crawl", "pages", "-a", f"manifest={feed}", settings={"RETRYSCRAPE_SUSPECT": "fail"}
    )
    assert outcomes(project) == {"ok": 8, "invalid": 8}
    (told,) = json.loads((project.out / "b" / "report.json").read_text())["suspects"]
    assert (told["urls"], told["sample"]) == (8, web.url("/same/0"))


def test_it_can_be_switched_off(project: Project, web) -> None:
    assert "Suspicious" not in crawl(project, web, "off")
    assert json.loads((project.out / "b" / "run.json").read_text())["suspects"] == []


def test_the_same_bytes_are_read_once_and_told_apart_by_their_address() -> None:
    """The memory of bodies changes no digest: with it and without it the same pages are one."""
    pages = [page("words on http://h.test/1 and more " * 20, n) for n in (1, 2, 3, 1)]
    suspects = Suspects()
    assert [suspects._read(page) for page in pages] == [
        (text := body_text(page), digest_of(page, text)) for page in pages
    ]
    assert digest_of(pages[0], body_text(pages[0])) != digest_of(pages[1], body_text(pages[1]))
