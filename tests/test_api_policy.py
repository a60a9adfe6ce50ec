"""Scraping APIs, the pure part: declarations, what answers mean, results, batches, events."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retryscrape.config import Config, ConfigError
from retryscrape.policy.api_answers import (
    Answer,
    Look,
    Sent,
    Trouble,
    bought,
    dig,
    looked,
    ordered,
)
from retryscrape.policy.api_batch import items, merge, one_bought, reconcile
from retryscrape.policy.api_declaration import provider_of
from retryscrape.policy.api_hook import event_of, genuine, secret_of
from retryscrape.policy.api_provider import ApiKind, Provider
from retryscrape.policy.outcomes import Page

BASE = "https://api.test/v1/"


def tasks(**more: Any) -> Provider:
    return provider_of({"kind": "tasks", "base": BASE, **more})


def batches(**more: Any) -> Provider:
    return provider_of({"kind": "batches", "base": BASE, **more})


# --- declarations ----------------------------------------------------------------------


def test_the_least_declaration_has_the_documented_defaults() -> None:
    made = tasks()
    assert (made.kind, made.poll, made.deadline, made.stale) == (ApiKind.TASKS, 2.0, 300.0, 10.0)
    assert (made.slots, made.mode, made.at_once) == (5, "request", 5)
    assert made.submit_url() == "https://api.test/v1/realtime"
    assert made.read_url("7") == "https://api.test/v1/tasks/7"
    assert made.headers["finished"] == "x-task-finished-at"
    assert batches().read_url("7").endswith("/async/batch/7?include_results=true")
    assert batches(slots=2, chunk=50).at_once == 100


def test_webhooks_give_tasks_more_time() -> None:
    made = tasks(webhook={"port": 8080, "url": "https://hooks.test/in"})
    assert (made.deadline, made.stale) == (900.0, 120.0)
    assert "s3cr3t" not in repr(tasks(webhook={"port": 1, "url": BASE, "secret": "s3cr3t"}))


def test_a_rung_names_mode_and_country_and_so_its_price() -> None:
    made = tasks(prices={"browser": 7}, country="GB")
    assert (made.mode_of("api"), made.country_of("api"), made.price_of("api")) == (
        "request", "GB", 1.0,
    )  # fmt: skip
    assert (made.mode_of("api:browser:DE"), made.country_of("api:browser:DE")) == ("browser", "DE")
    assert made.price_of("api:browser") == 7.0


@pytest.mark.parametrize(
    ("more", "word"),
    [
        ({"kind": "other"}, "tasks or batches"),
        ({"base": None}, "'base'"),
        ({"base": "http://api.test/"}, "TLS"),
        ({"base": "https://me:s3cr3t@api.test"}, "more in it"),
        ({"base": "ftp://api.test"}, "http(s)"),
        ({"bass": 1}, "did you mean 'base'"),
        ({"poll": "soon"}, "'poll'"),
        ({"poll": True}, "'poll'"),
        ({"slots": 1.5}, "whole number"),
        ({"mode": "magic"}, "'mode'"),
        ({"prices": {"magic": 1}}, "'prices'"),
        ({"fields": {"idd": "x"}}, "did you mean 'id'"),
        ({"fields": {"id": 7}}, "'id'"),
        ({"endpoints": {"read": "/tasks"}}, "{id}"),
        ({"endpoints": {"submit": "tasks"}}, "begin with"),
        ({"webhook": {"url": BASE}}, "'port'"),
        ({"webhook": {"port": 80, "url": "http://hooks.test"}}, "TLS"),
        ({"kind": "batches", "webhook": {"port": 80, "url": BASE}}, "'secret'"),
        ({"jitter": 3}, "'jitter'"),
        ({"finished": "completed"}, "'finished'"),
    ],
)
def test_a_wrong_declaration_is_a_sentence_without_secrets(more: dict[str, Any], word: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Config.from_settings({"RETRYSCRAPE_API": {"kind": "tasks", "base": BASE} | more})
    assert str(caught.value).startswith("Setting RETRYSCRAPE_API ")
    assert word in str(caught.value)
    assert "s3cr3t" not in str(caught.value)


DECLARED = {"kind": "batches", "base": BASE}


def test_a_declaration_may_be_json_or_live_in_code() -> None:
    for raw in (json.dumps(DECLARED), f"{__name__}.DECLARED", batches()):
        assert Config.from_settings({"RETRYSCRAPE_API": raw}).api == batches()
    with pytest.raises(ConfigError, match=r"package\.module\.NAME"):
        Config.from_settings({"RETRYSCRAPE_API": "no.such.THING"})


def test_prices_of_rungs_come_from_the_declaration_unless_the_user_has_set_one() -> None:
    config = Config.from_settings({"RETRYSCRAPE_API": {**DECLARED, "prices": {"request": 3}}})
    assert (config.price("api"), config.price("api:browser"), config.price("http")) == (3, 5, 2)
    config = Config.from_settings({"RETRYSCRAPE_COST": {"api": 9}, "RETRYSCRAPE_API": DECLARED})
    assert config.price("api") == 9
    with pytest.raises(ConfigError, match="request or browser"):
        Config.from_settings({"RETRYSCRAPE_LADDER": "http,api:residential"})


# --- orders and reads --------------------------------------------------------------------


def body(**members: Any) -> bytes:
    return json.dumps(members).encode()


@pytest.mark.parametrize(
    ("answer", "sent"),
    [
        (Answer(status=200, body=body(task_id="a")), Sent.ACCEPTED),
        (Answer(status=202, body=body(task_id=17)), Sent.ACCEPTED),
        (Answer(status=200, body=b"{}"), Sent.UNKNOWN),
        (Answer(status=200, body=b"<html>"), Sent.UNKNOWN),
        (Answer(status=429), Sent.REFUSED),
        (Answer(status=503), Sent.REFUSED),
        (Answer(status=500, body=body(task_id="a")), Sent.UNKNOWN),
        (Answer(status=502), Sent.UNKNOWN),
        (Answer(status=504), Sent.UNKNOWN),
        (Answer(status=408), Sent.UNKNOWN),
        (Answer(status=400), Sent.REJECTED),
        (Answer(status=422), Sent.REJECTED),
        (Answer(status=401), Sent.STOP),
        (Answer(status=402), Sent.STOP),
        (Answer(status=403), Sent.STOP),
        (Answer(status=404), Sent.STOP),
        (Answer(status=302), Sent.STOP),
        (Trouble(sent=False, text="refused"), Sent.REFUSED),
        (Trouble(sent=True, text="reset"), Sent.UNKNOWN),
    ],
)
def test_what_an_order_came_to(answer: Answer | Trouble, sent: Sent) -> None:
    assert ordered(answer, tasks()).sent is sent


def test_the_apis_own_words_are_one_short_line() -> None:
    order = ordered(Answer(status=422, body=body(error="no\x1b[31m such\n" + "x" * 999)), tasks())
    assert order.why.startswith("422: no\\x1b[31m such")
    assert len(order.why) < 200


DONE = {"x-task-finished-at": "2026-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("answer", "look"),
    [
        (Answer(status=200, headers=DONE), Look.FINISHED),
        (Answer(status=500, headers=DONE), Look.FINISHED),
        (Answer(status=404, headers=DONE), Look.FINISHED),
        (Answer(status=404), Look.LOST),
        (Answer(status=200, body=body(success=True, content="x")), Look.AGAIN),
        (Answer(status=202), Look.AGAIN),
        (Answer(status=401), Look.AGAIN),
        (Answer(status=500), Look.AGAIN),
        (Trouble(sent=True, text="reset"), Look.AGAIN),
        (Trouble(sent=False, text="refused"), Look.AGAIN),
    ],
)
def test_only_the_header_ends_a_task(answer: Answer | Trouble, look: Look) -> None:
    assert looked(answer, tasks()) is look


@pytest.mark.parametrize(
    ("answer", "look"),
    [
        (Answer(status=200, body=body(status="completed")), Look.FINISHED),
        (Answer(status=200, body=body(status="FAILED")), Look.FINISHED),
        (Answer(status=200, body=body(status="processing")), Look.AGAIN),
        (Answer(status=200, body=b"[]"), Look.AGAIN),
        (Answer(status=500, body=body(status="completed")), Look.AGAIN),
        (Answer(status=404), Look.LOST),
    ],
)
def test_a_batchs_state_ends_it(answer: Answer, look: Look) -> None:
    assert looked(answer, batches()) is look


# --- results -----------------------------------------------------------------------------


def test_a_result_is_the_targets_own_answer() -> None:
    made = bought(
        body(
            success=True,
            status_code=403,
            content="<title>Grüße</title>",
            headers={
                "response_headers": {
                    "Content-Type": "text/html; charset=iso-8859-1",
                    "Content-Encoding": "br",
                    "Set-Cookie": "a=b",
                    "CF-Mitigated": "challenge\r\nX-Evil: 1",
                }
            },
            credits_used=4,
            mode_used="browser",
        ),
        tasks(),
        "http://h.test/",
    )
    assert made.page is not None
    assert (made.page.status, made.page.body.decode()) == (403, "<title>Grüße</title>")
    assert made.page.headers == {
        "content-type": ("text/html; charset=utf-8",),
        "cf-mitigated": ("challenge X-Evil: 1",),
    }
    assert (made.cost, made.mode) == (4.0, "browser")


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (body(success=False, error="timeout at exit", credits_used=1), "timeout at exit"),
        (body(success=False, error={"code": "E7"}), "E7"),
        (body(success=False), "no reason is given"),
        (body(success="yes", status_code=200), "no reason is given"),
        (body(success=True), "a result without a status"),
        (body(success=True, status_code="200"), "a result without a status"),
        (b"<html>", "a result that cannot be read"),
        (b"[1]", "a result that cannot be read"),
        (b"[" * 100_000, "a result that cannot be read"),
    ],
)
def test_what_is_no_page_is_the_apis_problem(answer: bytes, problem: str) -> None:
    made = bought(answer, tasks(), "http://h.test/")
    assert made.page is None
    assert made.problem == problem


@given(st.binary(max_size=200) | st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["success", "status_code", "content", "headers", "response_headers",
                         "credits_used", "mode_used", "results", "url", "http_code", "status"]),
        inner, max_size=6),
    max_leaves=12,
).map(lambda value: json.dumps(value).encode()))  # fmt: skip
def test_no_answer_raises(raw: bytes) -> None:
    for provider in (tasks(), batches()):
        answer = Answer(status=200, headers=DONE, body=raw)
        ordered(answer, provider)
        looked(answer, provider)
        event_of(raw, provider)
    bought(raw, tasks(), "http://h.test/")
    for item in items(raw, batches()):
        one_bought(item, batches(), "http://h.test/")


def test_a_path_leads_through_mappings_only() -> None:
    assert dig({"a": {"b": 1}}, "a.b") == 1
    assert dig({"a": [1]}, "a.b") is None
    assert dig(None, "a") is None


# --- batches -----------------------------------------------------------------------------


def result(url: str, **members: Any) -> dict[str, Any]:
    return {"url": url, "status": "completed", "http_code": 200, "content": "<p>x</p>", **members}


def test_results_are_reconciled_three_ways_and_unknown_ones_named() -> None:
    provider = batches()
    answer = body(
        status="completed",
        results=[
            result("http://h.test/4"),
            result("http://h.test/2", content=" "),
            result("http://h.test/stranger"),
            result("http://h.test/3", content="thin"),
            {"no": "url"},
            "no item",
        ],
    )
    known = merge({}, items(answer, provider), provider)
    wanted = [f"http://h.test/{n}" for n in (1, 2, 3, 4)]
    owed = reconcile(wanted, known, provider, lambda page: page.body != b"thin")
    assert owed.absent == ["http://h.test/1"]
    assert owed.empty == ["http://h.test/2"]
    assert owed.unfit == ["http://h.test/3"]
    assert owed.unknown == ["http://h.test/stranger"]
    assert set(owed.found) == set(wanted) - {"http://h.test/1"}
    assert owed.words == (
        "3 results, 1 absent, 1 empty, 1 unfit, 1 for URLs that were not asked for"
    )


@pytest.mark.parametrize(
    ("item", "status", "problem"),
    [
        (result("u", http_code=404, content=""), 404, ""),
        (result("u", status="failed", http_code=404, content=""), 404, ""),
        (result("u", status="failed", http_code=200, error="render failed"), None, "render failed"),
        (result("u", status="failed", http_code=None, error=None), None, "no reason is given"),
        (result("u", http_code=0), None, "no reason is given"),
    ],
)
def test_one_result_of_a_batch(item: dict[str, Any], status: int | None, problem: str) -> None:
    made = one_bought(item, batches(), "u")
    assert (made.page.status if made.page else None) == status
    assert made.problem == problem


results = st.lists(
    st.builds(
        result,
        st.sampled_from(["a", "b", "c"]),
        status=st.sampled_from(["completed", "failed"]),
        content=st.sampled_from(["", "<p>1</p>", "<p>2</p>", None]),
        finished_at=st.sampled_from([None, "2026-01-01", "2026-01-02"]),
    ),
    max_size=8,
)


@given(results, results, st.randoms(use_true_random=False))
def test_merging_is_idempotent_and_in_any_order(first: Any, second: Any, rng: Any) -> None:
    provider = batches()
    once = merge(merge({}, first, provider), second, provider)
    assert merge(once, first + second, provider) == once
    mixed = first + second + first
    rng.shuffle(mixed)
    assert merge({}, mixed, provider) == once


@given(results)
def test_a_page_is_never_replaced_by_none(found: Any) -> None:
    provider = batches()
    merged = merge({}, found, provider)
    for item in found:
        good = item["status"] == "completed" and bool(item["content"])
        kept = merged[item["url"]]
        assert not good or (kept["status"] == "completed" and kept["content"])


# --- events ------------------------------------------------------------------------------


def test_a_signature_is_over_the_exact_bytes() -> None:
    raw = b'{"task_id": "a", "event": "failed"}'
    right = f"sha256={hmac.new(b'k', raw, hashlib.sha256).hexdigest()}"
    assert genuine("k", raw, right)
    assert genuine("k", raw, right.upper())
    for wrong in (None, "", "sha256=", right[:-1], right[7:], f"{right}0", "sha256=ü"):
        assert not genuine("k", raw, wrong)
    assert not genuine("k", raw + b" ", right)
    assert not genuine("other", raw, right)
    assert secret_of("key") == secret_of("key") != secret_of("another")
    assert "key" not in secret_of("key")


def test_what_an_event_is_about() -> None:
    event = event_of(b'{"task_id": 7, "event": "failed"}', tasks())
    assert event is not None
    assert (event.task_id, event.name) == ("7", "failed")
    assert event_of(b'{"event": "failed"}', tasks()) is None
    assert event_of(b"no json", tasks()) is None
    event = event_of(b'{"batch_id": "b", "status": "completed"}', batches())
    assert event is not None
    assert (event.task_id, event.name) == ("b", "completed")


def test_a_page_of_a_result_is_a_page_like_any_other() -> None:
    from retryscrape.policy.classify import classify
    from retryscrape.policy.outcomes import Outcome

    page = Page(status=200, url="http://h.test/", headers={"cf-mitigated": ("challenge",)})
    assert classify(page).outcome is Outcome.BLOCKED


def test_the_declaration_of_the_how_to_is_a_good_one_and_names_every_key() -> None:
    text = (Path(__file__).parents[1] / "docs/how-to/scraping-api.md").read_text(encoding="utf-8")
    found: dict[str, Any] = {}
    exec(text.partition("```python\n")[2].partition("```")[0], found)
    made = provider_of(found["PROVIDER"])
    assert made.headers["key_prefix"] == "Token "
    rows = re.findall(r"^\| (`.*?) \|", text, re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert named == set(Provider.__dataclass_fields__)
    for provider in (tasks(), batches()):
        assert all(f"`{name}`" in text for name in provider.fields)
