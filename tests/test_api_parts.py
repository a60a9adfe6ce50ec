"""Parts of the scraping-API rung, called directly: the door, places, responses, what is imported."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Any

import pytest
from scrapy import Request, Spider
from scrapy.http import HtmlResponse, TextResponse
from scrapy.utils.test import get_crawler

from retryscrape.commands.redrive import Command
from retryscrape.config import Config
from retryscrape.crawl.api import door
from retryscrape.crawl.api.rung import response_of
from retryscrape.crawl.arguments import ArgumentError
from retryscrape.crawl.ordinary import adopt
from retryscrape.crawl.prepare import prepare
from retryscrape.crawl.rungs import Rungs, reserved_tiers
from retryscrape.crawl.runtime import Run, UsageProblem
from retryscrape.policy.outcomes import Page

API = {"kind": "tasks", "base": "https://api.test"}


def config(**given: Any) -> Config:
    return Config.from_settings({f"RETRYSCRAPE_{name}": value for name, value in given.items()})


@pytest.fixture(autouse=True)
def no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RETRYSCRAPE_API_KEY", raising=False)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "does not say which"),
        ({"API": API}, "there is no key"),
        ({"API": API, "API_KEY": "two words"}, "characters that no header can carry"),
        ({"API": API, "API_KEY": "k\u00e4y"}, "characters that no header can carry"),
    ],
)
def test_what_is_missing_is_one_sentence(given: dict[str, Any], words: str) -> None:
    sentence = door.complaint(config(LADDER="http,api", **given))
    assert sentence is not None
    assert words in sentence
    assert "two words" not in sentence


def test_a_run_without_a_key_ends_before_any_request() -> None:
    settings = {"RETRYSCRAPE_LADDER": "http,api", "RETRYSCRAPE_API": API}
    with pytest.raises(UsageProblem, match="RETRYSCRAPE_API_KEY holds it"):
        prepare(Run(get_crawler(Spider, settings)), {}, needs_manifest=False)
    run = Run(get_crawler(Spider, {**settings, "RETRYSCRAPE_API_KEY": "k3y"}))
    prepare(run, {}, needs_manifest=False)
    assert "k3y" in run.secrets
    asyncio.run(door.open_api(run))
    assert run.api is None, "without a ledger nothing is bought"
    assert run.rungs.ladder.available == {"http"}
    alone = {**settings, "RETRYSCRAPE_LADDER": "api", "RETRYSCRAPE_API_KEY": "k3y"}
    with pytest.raises(UsageProblem, match="no rung can be used: only rows of a ledger"):
        asyncio.run(door.open_api(Run(get_crawler(Spider, alone))))


@pytest.mark.parametrize(
    ("rung", "given", "words"),
    [
        ("api", {}, "Option --through has the rung api, and RETRYSCRAPE_API does not say which"),
        ("api", {"API": API}, "Option --through has the rung api, and there is no key"),
        ("teleport", {}, "Option --through has the rung 'teleport', and there are only"),
    ],
)
def test_redrive_through_a_rung_that_cannot_be_used(
    rung: str, given: dict[str, Any], words: str
) -> None:
    command = Command()
    command.config = config(**given)
    with pytest.raises(ArgumentError, match=words):
        command._through(rung)
    assert command._through("http") == ["RETRYSCRAPE_LADDER=http"]
    assert command._through(None) == []


def test_only_a_plain_rung_takes_what_is_no_page() -> None:
    """A POST of an ordinary spider must not become an order of its URL."""
    settings = {
        "RETRYSCRAPE_LADDER": "http,api",
        "RETRYSCRAPE_API": API,
        "RETRYSCRAPE_API_KEY": "k",
    }
    run = Run(get_crawler(Spider, settings))
    for _ in range(5):
        run.rungs.learner.goes_on("h.test", "http", "api")
        run.rungs.learner.success("h.test", "api", run.clock(), started="http")
    rungs = {adopt(run, Request("http://h.test/", method="POST")).rung for _ in range(20)}
    assert rungs == {"http"}


def test_the_setting_wins_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETRYSCRAPE_API_KEY", " from-env\n")
    assert door.key_of(config()) == "from-env"
    assert door.key_of(config(API_KEY="own")) == "own"
    assert door.complaint(config(LADDER="api", API=API)) is None
    assert not door.wanted(config())


def test_secrets_are_the_key_and_what_signs_events() -> None:
    hook = {"port": 1, "url": "https://hooks.test", "secret": "s3cr3t"}
    found = door.secrets_of(config(API={**API, "webhook": hook}, API_KEY="k3y"))
    assert {"k3y", "s3cr3t"} <= found
    assert door.secrets_of(config()) == set()


def test_a_rung_that_is_bought_needs_no_exits_and_keeps_none_for_itself() -> None:
    names = ("http", "api:browser:GB")
    rungs = Rungs(names)
    rungs.look(None, 0.0)
    assert rungs.lost == {}
    assert rungs.ladder.next("http") == "api:browser:GB"
    assert rungs.ladder.next_of("http", "api") == "api:browser:GB"
    assert rungs.ladder.next_of("api:browser:GB", "api") is None
    assert reserved_tiers(names) == frozenset()


@pytest.mark.parametrize(
    ("body", "headers", "kind", "written"),
    [
        ("<p>\u00fc</p>", {}, HtmlResponse, b"text/html; charset=utf-8"),
        ("<p>\u00fc</p>", {"content-type": ("text/html",)}, HtmlResponse, b"text/html"),
        ('{"a": 1}', {}, TextResponse, b"application/json"),
        ("\u00fc", {}, TextResponse, b"text/plain; charset=utf-8"),
    ],
)
def test_a_bought_page_is_a_response_in_utf8(
    body: str, headers: Any, kind: type, written: bytes
) -> None:
    page = Page(status=200, url="http://h.test/", headers=headers, body=body.encode())
    response = response_of(Request("http://h.test/"), page)
    assert isinstance(response, kind)
    assert isinstance(response, TextResponse)
    assert response.text == body
    assert response.headers[b"Content-Type"] == written


def test_a_crawl_that_buys_nothing_does_not_import_what_buying_needs() -> None:
    code = (
        "import sys, retryscrape.crawl.session, retryscrape.crawl.download,"
        " retryscrape.crawl.middlewares, retryscrape.spiders.pages;"
        "print([m for m in sys.modules if m == 'aiohttp' or m.startswith('retryscrape.crawl.api.r')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
