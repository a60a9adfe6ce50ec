"""Settings: typed, checked once, and a clear sentence when wrong."""

from __future__ import annotations

from typing import Any

import pytest
from scrapy.settings import Settings

from retryscrape.config import Config, ConfigError, unknown_names


def config(**given: Any) -> Config:
    return Config.from_settings({f"RETRYSCRAPE_{name}": value for name, value in given.items()})


def test_defaults_are_those_of_the_contract() -> None:
    made = config()
    assert made.ladder == ("http", "browser")
    assert (made.attempts, made.url_budget, made.max_wait) == (3, 12.0, 300.0)
    assert made.price("http") == 2.0
    assert made.price("browser") == 5.0
    assert made.retry_budget == (0.1, 10.0)


@pytest.mark.parametrize(
    ("name", "raw", "attribute", "value"),
    [
        ("LADDER", "http", "ladder", ("http",)),
        ("LADDER", '["http", "http:residential"]', "ladder", ("http", "http:residential")),
        ("COST", '{"http": 1}', "cost", {"http": 1.0, "browser": 5.0}),
        ("RETRY_BUDGET", "off", "retry_budget", None),
        ("REDRIVE_JITTER", "0,1", "redrive_jitter", (0.0, 1.0)),
        ("RUN_BUDGET", "100", "run_budget", "100"),
        ("RUN_BUDGET", "none", "run_budget", None),
        ("PROGRESS", "0", "progress", "off"),
        ("KEEP_BLOCKED", "0", "keep_blocked", False),
        ("FLOOR", 0, "floor", 0),
        ("THROTTLE_SCOPE", "Exit", "throttle_scope", "exit"),
        ("PROXIES", ["a:1", "b:2"], "proxies", ("a:1", "b:2")),
    ],
)
def test_values_from_the_command_line_and_from_python(
    name: str, raw: Any, attribute: str, value: Any
) -> None:
    assert getattr(config(**{name: raw}), attribute) == value


@pytest.mark.parametrize(
    ("name", "raw"),
    [
        ("MAX_WAIT", "soon"),
        ("MAX_WAIT", "nan"),
        ("MAX_WAIT", "-1"),
        ("ATTEMPTS", "0"),
        ("ATTEMPTS", "1.5"),
        ("ATTEMPTS", True),
        ("LADDER", "http,teleport"),
        ("LADDER", ""),
        ("LADDER", "http,http"),
        ("COST", "2"),
        ("COST", '{"http": "x"}'),
        ("COST", '{"htttp": 1}'),
        ("LEDGER", "mysql://u:p@h/db"),
        ("LEDGER", "postgresql:u:p@h/db"),
        ("LEDGER", "u:p@h/db"),
        ("RETRY_BUDGET", "0.1"),
        ("REDRIVE_JITTER", "9,1"),
        ("BACKOFF", "linear"),
        ("FAIL_ON", "sometimes"),
        ("KEEP_BLOCKED", "perhaps"),
        ("OUT", ""),
    ],
)
def test_a_wrong_value_is_one_sentence_that_names_the_setting(name: str, raw: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        config(**{name: raw})
    sentence = str(caught.value)
    assert sentence.startswith(f"Setting RETRYSCRAPE_{name} ")
    assert "\n" not in sentence


def test_secrets_of_a_wrong_setting_are_not_shown() -> None:
    with pytest.raises(ConfigError) as caught:
        config(PROXIES={"http://u:s3cr3t@h:1": 1})
    assert "s3cr3t" not in str(caught.value)


def test_an_unknown_name_is_a_warning_with_the_nearest_right_one() -> None:
    settings = Settings({"RETRYSCRAPE_PROXIS": "x", "RETRYSCRAPE_OUT": "o", "OTHER": 1})
    (sentence,) = unknown_names(settings)
    assert "RETRYSCRAPE_PROXIS" in sentence
    assert "did you mean RETRYSCRAPE_PROXIES?" in sentence
