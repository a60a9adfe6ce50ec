"""What happens next, rule by rule of the outcome table."""

from __future__ import annotations

import random

import pytest

from retryscrape.policy.decide import Action, Decision, Limits, Scene, decide
from retryscrape.policy.outcomes import At, ErrorClass, Kind, Outcome, Verdict
from retryscrape.policy.ticket import Past, Ticket

NOW = 1_000_000.0


def verdict(outcome: str, **given: object) -> Verdict:
    return Verdict(outcome=Outcome(outcome), **given)  # type: ignore[arg-type]


def decided(
    *verdicts: Verdict,
    rungs: tuple[str, ...] | None = None,
    ladder: tuple[str, ...] = ("http", "browser"),
    prior: str | None = None,
    escalate: bool = False,
    avoid: frozenset[str] = frozenset(),
    counts: bool = True,
    **scene: object,
) -> Decision:
    """The decision after these attempts, the last of which is the one in question."""
    rungs = rungs or ("http",) * len(verdicts)
    history = tuple(
        Past(
            rung=rung,
            exit=f"exit{n}",
            outcome=v.outcome,
            http_code=v.http_code,
            kind=v.kind,
            reason=v.reason,
            cost=0.0
            if v.outcome is Outcome.PROXY_ERROR
            else {"http": 2.0, "browser": 5.0, "api": 1.0}[rung],
            html=v.html,
            own_wait=v.outcome is Outcome.THROTTLED,
            counts=counts and v.outcome is not Outcome.PROXY_ERROR,
        )
        for n, (v, rung) in enumerate(zip(verdicts, rungs, strict=True))
    )
    ticket = Ticket(
        url="http://h.test/",
        host="h.test",
        batch="b",
        rung=rungs[-1],
        history=history,
        prior_outcome=Outcome(prior) if prior else None,
        escalate=escalate,
        avoid=avoid,
    )
    above = ladder[ladder.index(rungs[-1]) + 1 :] if rungs[-1] in ladder else ()
    scene.setdefault("next_rung", above[0] if above else None)
    return decide(
        Scene(
            ticket=ticket,
            verdict=verdicts[-1],
            limits=Limits(),
            now=NOW,
            rng=random.Random(1),
            price={"http": 2.0, "browser": 5.0},
            **scene,  # type: ignore[arg-type]
        )
    )


CHALLENGE = verdict("blocked", http_code=403, kind=Kind.CHALLENGE, vendor="cloudflare")
DENIAL = verdict("blocked", http_code=403, kind=Kind.DENIAL)
BARE_403 = verdict("blocked", http_code=403)
JSON_403 = verdict("blocked", http_code=403, html=False)
PROXY = verdict("proxy_error", reason="proxy: connect", html=False, at=At.PROXY)


@pytest.mark.parametrize("outcome", ["gone", "refused", "unexpected", "rejected"])
def test_what_nobody_can_get_ends_at_once(outcome: str) -> None:
    decision = decided(verdict(outcome), exits=5)
    assert decision.action is Action.FAIL
    assert decision.error_class is ErrorClass.PERMANENT


def test_a_good_page_is_done() -> None:
    assert decided(verdict("ok", http_code=200)).action is Action.DONE


def test_a_challenge_goes_to_the_next_rung_and_not_to_another_exit() -> None:
    decision = decided(CHALLENGE, exits=5)
    assert (decision.action, decision.rung) == (Action.RETRY, "browser")


@pytest.mark.parametrize("page", [DENIAL, BARE_403])
def test_a_denial_tries_one_other_exit_and_then_the_next_rung(page: Verdict) -> None:
    first, second = decided(page, exits=5), decided(page, page, exits=4)
    assert (first.action, first.rung) == (Action.RETRY, "http")
    assert (second.action, second.rung) == (Action.RETRY, "browser")


def test_a_denial_without_another_exit_is_not_asked_again_on_this_rung() -> None:
    assert decided(DENIAL, exits=0).rung == "browser"
    assert decided(DENIAL, exits=None).rung == "browser"


def test_a_denial_without_exits_and_without_a_next_rung_ends() -> None:
    decision = decided(DENIAL, exits=None, ladder=("http",))
    assert decision.action is Action.FAIL
    assert decision.error_class is ErrorClass.RETRYABLE
    assert decision.counts_block
    assert decision.escalate


def test_json_and_images_never_start_a_browser() -> None:
    assert decided(JSON_403, exits=5).rung == "http"
    assert decided(JSON_403, exits=0).action is Action.FAIL
    assert decided(JSON_403, JSON_403, JSON_403, exits=5).action is Action.FAIL


def test_on_the_last_rung_the_attempts_that_are_left_go_through_other_exits() -> None:
    rungs = ("http", "browser")
    decision = decided(CHALLENGE, CHALLENGE, rungs=rungs, exits=3)
    # 2 + 5 + 5 = 12 price units: just within the URL's budget
    assert (decision.action, decision.rung) == (Action.RETRY, "browser")
    assert decided(CHALLENGE, CHALLENGE, rungs=rungs, exits=0).action is Action.FAIL


def test_blocked_in_two_passes_the_second_of_which_changed_something_is_permanent() -> None:
    again = decided(CHALLENGE, rungs=("browser",), prior="blocked", escalate=True, exits=0)
    same = decided(CHALLENGE, rungs=("browser",), prior="blocked", escalate=False, exits=0)
    assert again.error_class is ErrorClass.PERMANENT
    assert same.error_class is ErrorClass.RETRYABLE


def test_the_same_request_from_the_same_address_changes_nothing() -> None:
    """The same command typed twice, without proxies and browser: the block may be over in an hour."""
    again = {"ladder": ("http",), "prior": "blocked", "escalate": True, "exits": 0}
    known = decided(DENIAL, avoid=frozenset({"exit0"}), **again)
    other = decided(DENIAL, avoid=frozenset({"exit1"}), **again)
    assert known.error_class is ErrorClass.RETRYABLE
    assert other.error_class is ErrorClass.PERMANENT


def test_without_a_browser_a_challenge_stays_retryable_and_says_why() -> None:
    decision = decided(
        CHALLENGE, next_rung=None, render_unavailable=True, prior="blocked", escalate=True
    )
    assert decision.action is Action.FAIL
    assert decision.error_class is ErrorClass.RETRYABLE
    assert decision.reason == "render unavailable"
    assert not decision.counts_block


def test_a_throttled_url_waits_twice_and_is_parked_the_third_time() -> None:
    page = verdict("throttled", http_code=429)
    first = decided(page, pause_until=NOW + 7)
    third = decided(page, page, page, pause_until=NOW + 7)
    assert (first.action, first.not_before, first.rung) == (Action.RETRY, NOW + 7, "http")
    assert (third.action, third.not_before) == (Action.PARK, NOW + 7)
    assert third.error_class is ErrorClass.BACKOFF_REQUIRED


def test_a_wait_longer_than_max_wait_is_parked_with_what_was_sent() -> None:
    page = verdict("throttled", http_code=429)
    decision = decided(page, pause_until=NOW + 3600, owed_until=NOW + 86400)
    assert (decision.action, decision.not_before) == (Action.PARK, NOW + 86400)


@pytest.mark.parametrize("outcome", ["empty", "invalid"])
def test_a_page_that_lacks_something_is_rendered_once(outcome: str) -> None:
    first = decided(verdict(outcome, http_code=200))
    rendered = decided(
        verdict(outcome, http_code=200), verdict(outcome, http_code=200), rungs=("http", "browser")
    )
    assert (first.action, first.rung) == (Action.RETRY, "browser")
    assert rendered.action is Action.FAIL
    assert rendered.error_class is ErrorClass.PERMANENT


def test_json_that_does_not_parse_is_never_rendered() -> None:
    decision = decided(verdict("invalid", http_code=200, html=False))
    assert decision.action is Action.FAIL


def test_a_fault_is_tried_three_times_with_a_backoff() -> None:
    page = verdict("target_error", http_code=500)
    first = decided(page)
    assert first.action is Action.RETRY
    assert NOW <= first.not_before <= NOW + 1 or first.not_before == 0.0
    assert decided(page, page).action is Action.RETRY
    assert decided(page, page, page).action is Action.FAIL


def test_503_that_stands_asks_for_a_backoff() -> None:
    page = verdict("target_error", http_code=503)
    assert decided(page, page, page).error_class is ErrorClass.BACKOFF_REQUIRED


def test_dns_is_tried_at_most_twice() -> None:
    fault = verdict("network_error", reason="dns", html=False)
    assert decided(fault).action is Action.RETRY
    assert decided(fault, fault).action is Action.FAIL


def test_a_body_that_cannot_be_decoded_is_asked_for_once_without_compression() -> None:
    fault = verdict("network_error", reason="decode", html=False)
    first = decided(fault)
    assert first.action is Action.RETRY
    assert first.identity
    assert decided(fault, fault).action is Action.FAIL


def test_an_empty_retry_budget_lets_the_outcome_stand() -> None:
    page = verdict("target_error", http_code=500)
    assert decided(page, spend=lambda: False).action is Action.FAIL
    assert decided(page, spend=lambda: False, free_retry=True).action is Action.RETRY


def test_faults_never_start_a_browser() -> None:
    page = verdict("target_error", http_code=500)
    assert decided(page, exits=3).rung == "http"


def test_a_fault_that_an_exit_is_to_blame_for_uses_no_attempt() -> None:
    fault = verdict("network_error", reason="timeout", html=False)
    assert decided(fault, fault, fault, exits=3, counts=False).action is Action.RETRY


def test_an_exits_own_fault_costs_nothing_and_another_exit_is_tried_at_once() -> None:
    decision = decided(PROXY, PROXY, PROXY, PROXY, exits=3)
    assert (decision.action, decision.not_before) == (Action.RETRY, 0.0)


def test_ten_attempts_lost_to_exits_end_the_url() -> None:
    decision = decided(*[PROXY] * 10, exits=3)
    assert (decision.action, decision.outcome) == (Action.FAIL, Outcome.PROXY_ERROR)
    assert decision.error_class is ErrorClass.RETRYABLE


def test_without_any_exit_left_the_url_ends() -> None:
    assert decided(PROXY, exits=0, no_exit="no usable proxy left").action is Action.FAIL


def test_an_attempt_over_the_urls_budget_is_not_made() -> None:
    page = verdict("blocked", http_code=403, kind=Kind.CHALLENGE, reason="why")
    decision = decided(page, page, page, rungs=("http", "http", "browser"), exits=5)
    assert (decision.action, decision.outcome) == (Action.FAIL, Outcome.OVER_BUDGET)
    assert decision.error_class is ErrorClass.RETRYABLE
    assert decision.reason == "why"


def test_an_attempt_over_the_runs_budget_is_not_made() -> None:
    decision = decided(verdict("target_error", http_code=500), run_over="spent")
    assert decision.outcome is Outcome.OVER_BUDGET


@pytest.mark.parametrize("outcome", [str(o) for o in Outcome])
def test_an_attempt_that_never_left_is_decided_too(outcome: str) -> None:
    """No history (no exit could be had, the run ended first): still a decision, no error."""
    ticket = Ticket(url="http://h.test/", host="h.test", batch="b", rung="http")
    scene = Scene(
        ticket=ticket,
        verdict=verdict(outcome, reason="no exit is left"),
        limits=Limits(),
        now=NOW,
        rng=random.Random(1),
    )
    assert decide(scene).outcome is Outcome(outcome)


# --- scraping APIs ---------------------------------------------------------------------


def test_an_apis_own_failure_is_tried_three_times_and_costs_no_retry_budget() -> None:
    failed = verdict("api_error", reason="timeout at exit")
    rungs = ("http", "api", "api", "api")
    first = verdict("blocked", http_code=403)
    spend = {"spend": lambda: False, "host_down": True}
    again = decided(first, failed, failed, rungs=rungs[:3], **spend)
    assert (again.action, again.rung) == (Action.RETRY, "api")
    assert again.not_before >= 0
    end = decided(first, failed, failed, failed, rungs=rungs, **spend)
    assert (end.action, end.outcome, end.error_class) == (
        Action.FAIL, Outcome.API_ERROR, ErrorClass.RETRYABLE,
    )  # fmt: skip


def test_an_api_that_takes_no_orders_is_not_asked_again_in_this_pass() -> None:
    refused = verdict("api_error", reason="refused: 10 times, 503")
    assert decided(refused, rungs=("api",)).action is Action.FAIL


def test_a_blocked_answer_that_is_no_page_goes_past_the_browser_to_an_api() -> None:
    blocked = verdict("blocked", http_code=403, html=False)
    made = decided(blocked, ladder=("http", "browser", "api"), bought_rung="api")
    assert (made.action, made.rung) == (Action.RETRY, "api")
    assert decided(blocked, ladder=("http", "browser")).action is Action.FAIL
