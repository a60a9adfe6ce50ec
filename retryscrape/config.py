"""Every ``RETRYSCRAPE_*`` setting: its type, its default and its reason, checked once.

Nothing else reads these settings by name. ``docs/reference/settings.md`` is
checked against the table below by a test. No Scrapy here: ``from_settings``
takes anything with ``get`` and iteration over names.
"""

from __future__ import annotations

import difflib
import importlib
import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Protocol

from retryscrape.policy.api_declaration import provider_of
from retryscrape.policy.api_provider import MODES, Provider
from retryscrape.policy.budget import parse_run_budget
from retryscrape.policy.shares import StopRule, parse_stop

PREFIX = "RETRYSCRAPE_"


class ConfigError(ValueError):
    """A setting has a wrong value. The message is one sentence that names it."""


class SettingsLike(Protocol):
    """As much of Scrapy's Settings as is needed here."""

    def get(self, name: str, default: Any = None) -> Any: ...
    def __iter__(self) -> Any: ...


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting: ``parse`` takes the raw value and raises ValueError with what it should be."""

    name: str
    default: Any
    parse: Callable[[Any], Any]
    doc: str


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("must be a text")
    return value.strip()


def _optional(parse: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def parsed(value: Any) -> Any:
        if value is None or (isinstance(value, str) and value.strip().lower() in {"", "none"}):
            return None
        return parse(value)

    return parsed


def _number(low: float = 0.0, *, whole: bool = False) -> Callable[[Any], Any]:
    kind = "whole number" if whole else "number"

    def parsed(value: Any) -> Any:
        try:
            number = int(value) if whole and not isinstance(value, float) else float(value)
        except (TypeError, ValueError):
            raise ValueError(f"must be a {kind}") from None
        wrong = isinstance(value, bool) or not math.isfinite(number) or number < low
        if wrong or (whole and number != int(number)):
            raise ValueError(f"must be a {kind} of at least {low:g}")
        return int(number) if whole else number

    return parsed


def _choice(*words: str) -> Callable[[Any], str]:
    def parsed(value: Any) -> str:
        word = str(value).strip().lower()
        if word not in words:
            raise ValueError(f"must be one of {', '.join(words)}")
        return word

    return parsed


def _flag(value: Any) -> bool:
    word = str(value).strip().lower()
    if word in {"1", "true", "on", "yes"}:
        return True
    if word in {"0", "false", "off", "no"}:
        return False
    raise ValueError("must be on or off")


def _list(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        text = value.strip()
        if text.startswith("["):
            try:
                value = json.loads(text)
            except ValueError:
                raise ValueError("must be a list, or words with commas between them") from None
        else:
            value = text.split(",")
    if not isinstance(value, Iterable) or isinstance(value, Mapping):
        raise ValueError("must be a list, or words with commas between them")
    return tuple(word for word in (str(item).strip() for item in value) if word)


def _dict(value: Any) -> dict[str, Any]:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            raise ValueError("must be a JSON object") from None
    if not isinstance(value, Mapping):
        raise ValueError("must be a dict, or a JSON object")
    return {str(key): item for key, item in value.items()}


#: The ways of fetching that exist; a rung's name may go on with ``:tier:country``.
RUNGS = ("http", "browser", "api")


def _is_mode(rung: str) -> bool:
    """``api``, ``api:MODE``, ``api:MODE:COUNTRY``: a scraping API has modes, not tiers of exits."""
    base, _, more = rung.partition(":")
    return base != "api" or not more or more.partition(":")[0].strip() in (*MODES, "")


def _ladder(value: Any) -> tuple[str, ...]:
    rungs = _list(value)
    if not rungs:
        raise ValueError("must name at least one rung")
    for rung in rungs:
        if rung.split(":")[0] not in RUNGS:
            raise ValueError(f"has the rung {rung!r}, and there are only {', '.join(RUNGS)}")
        if not _is_mode(rung):
            raise ValueError(f"has the rung {rung!r}: after 'api:' comes {' or '.join(MODES)}")
    if len(set(rungs)) != len(rungs):
        raise ValueError("names a rung twice")
    return rungs


def _cost(value: Any) -> dict[str, float]:
    prices: dict[str, float] = {"http": 2.0, "browser": 5.0}
    for rung, price in _dict(value).items():
        try:
            prices[rung] = _number()(price)
        except ValueError as error:
            raise ValueError(f"has a wrong price for {rung!r}: it {error}") from None
    return prices


def _pair(low: float = 0.0) -> Callable[[Any], tuple[float, float]]:
    def parsed(value: Any) -> tuple[float, float]:
        parts = _list(value)
        if len(parts) != 2:
            raise ValueError("must be two numbers with a comma between them")
        first, second = (_number(low)(part) for part in parts)
        return first, second

    return parsed


def _jitter(value: Any) -> tuple[float, float]:
    first, second = _pair()(value)
    if first > second:
        raise ValueError("must be two numbers, the smaller one first")
    return first, second


def _retry_budget(value: Any) -> tuple[float, float] | None:
    if value is None or str(value).strip().lower() == "off":
        return None
    try:
        return _pair()(value)
    except ValueError:
        raise ValueError('must be "EARNED,CAP" (such as 0.1,10) or off') from None


def _run_budget(value: Any) -> str:
    """As text: what it says in numbers is counted anew in each run."""
    if isinstance(value, bool):
        raise ValueError("must be price units, or bytes")
    if isinstance(value, int | float) and math.isfinite(value):
        value = format(value, "f")
    text = ",".join(_list(value))
    parse_run_budget(text)
    return text


def _stop(value: Any) -> StopRule:
    return parse_stop(_dict(value))


def _proxies(value: Any) -> str | tuple[str, ...]:
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, Iterable) and not isinstance(value, Mapping | bytes):
        return tuple(str(item) for item in value)
    raise ValueError("must be a file's path or a list of proxies")


def _progress(value: Any) -> str:
    word = str(value).strip().lower()
    if word in {"auto", ""}:
        return "auto"
    return "on" if _flag(value) else "off"


def _api(value: Any) -> Provider:
    """A dict, its JSON, or where in code it is: ``package.module.NAME``."""
    if isinstance(value, str) and not value.lstrip().startswith("{"):
        value = _imported(value.strip())
    return value if isinstance(value, Provider) else provider_of(_dict(value))


def _imported(path: str) -> Any:
    module, _, name = path.replace(":", ".").rpartition(".")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError):
        raise ValueError("must be a dict, or say where one is: package.module.NAME") from None


def _web_address(value: Any) -> str:
    text = _text(value)
    if not text.lower().startswith(("http://", "https://")):
        raise ValueError("must be an http or https URL")
    return text


SETTINGS: tuple[Setting, ...] = (
    Setting("OUT", "out", _text, "folder of ledger, pages and feeds"),
    Setting("LEDGER", None, _optional(_text), "database URL of the ledger; SQLite in OUT if unset"),
    Setting(
        "PROXIES",
        None,
        _optional(_proxies),
        "file or list of proxies; with it nothing ever goes direct",
    ),
    Setting("LADDER", ("http", "browser"), _ladder, "rungs, cheapest first"),
    Setting("ATTEMPTS", 3, _number(1, whole=True), "attempts per rung and pass"),
    Setting(
        "COST",
        {"http": 2.0, "browser": 5.0},
        _cost,
        "price units per attempt; a rendered page holds a core about 2.5 times as long",
    ),
    Setting("URL_BUDGET", 12.0, _number(), "price units per URL and pass"),
    Setting(
        "RUN_BUDGET",
        None,
        _optional(_run_budget),
        "what a run may spend: price units (`500`), bytes (`2GB`), bytes of a tier of exits "
        "(`residential=1.5GB`), or several with commas; then it stops, exit code 1, and all that "
        "is open is left to a re-drive as `over_budget`",
    ),
    Setting(
        "STOP",
        None,
        _optional(_stop),
        'percent stops, such as `{"blocked": 0.5, "window": 200}`: when that share of the last '
        "attempts came to that outcome, a host is paused for HOST_PAUSE, and the run as a whole "
        "is stopped, exit code 1: it only burns money",
    ),
    Setting(
        "EXIT_CONCURRENCY",
        8,
        _number(1, whole=True),
        "an exit's share of requests at once, kept while others are free: a good exit that "
        "carries everything is soon a banned one",
    ),
    Setting(
        "EXIT_INTERVAL",
        0.0,
        _number(),
        "least seconds between two requests of one exit to one host; what a site counts is "
        "an address's rate",
    ),
    Setting(
        "RETRY_BUDGET",
        (0.1, 10.0),
        _retry_budget,
        "retries earned per first attempt, and the most that is kept; or off. "
        "A tenth is what Finagle, gRPC and linkerd give: an outage must not double the load",
    ),
    Setting("BACKOFF", "full", _choice("full", "decorrelated"), "jitter of the backoff"),
    Setting("BACKOFF_BASE", 1.0, _number(), "first backoff, seconds"),
    Setting("BACKOFF_CAP", 60.0, _number(), "longest backoff, seconds"),
    Setting("MAX_WAIT", 300.0, _number(), "longer waits are parked for a re-drive, seconds"),
    Setting("RETRY_AFTER_CAP", 3600.0, _number(), "longest pause of a host, seconds"),
    Setting("THROTTLE_BASE", 30.0, _number(), "pause after a 429 without Retry-After, seconds"),
    Setting(
        "THROTTLE_SCOPE",
        "host",
        _choice("host", "exit"),
        "what a 429 pauses: the host, or only the exit on that host",
    ),
    Setting("HOST_BLOCKS", 3, _number(1, whole=True), "blocked URLs in a row that pause a host"),
    Setting("HOST_PAUSE", 3600.0, _number(), "length of that pause, seconds"),
    Setting("LEARN", 86400.0, _number(), "how long a host's best rung is remembered, seconds"),
    Setting("PASSES", 3, _number(1, whole=True), "most passes of redrive"),
    Setting("DEADLINE", 2700.0, _number(), "longest time of redrive, seconds"),
    Setting("FLOOR", 10, _number(whole=True), "fewer rows than this end redrive after a pass"),
    Setting("REDRIVE_BASE", 30.0, _number(), "first wait between redrive passes, seconds"),
    Setting("REDRIVE_JITTER", (5.0, 15.0), _jitter, "added to that wait, seconds from,to"),
    Setting(
        "REDRIVE_PER_HOST", 5, _number(1, whole=True), "requests at once per host in a redrive"
    ),
    Setting(
        "FAIL_ON",
        "unresolved",
        _choice("unresolved", "redrivable", "any", "never"),
        "when the exit code is 1",
    ),
    Setting(
        "BROWSER_PAGES",
        4,
        _number(1, whole=True),
        "rendered pages at once; on 2 cores 8 were hardly faster than 4",
    ),
    Setting("BROWSER_RECYCLE", 500, _number(1, whole=True), "pages until the browser is renewed"),
    Setting(
        "API",
        None,
        _optional(_api),
        "the scraping API of the rung `api`, as a dict (the least is `kind` and `base`) or as the "
        "name of one in code, `package.module.NAME` (docs/how-to/scraping-api.md)",
    ),
    Setting(
        "API_KEY",
        None,
        _optional(_text),
        "its key; the environment variable of this name will do, and is better: settings are "
        "shown to whoever lists processes",
    ),
    Setting("KEEP_BLOCKED", True, _flag, "keep the last blocked or invalid body per URL"),
    Setting(
        "SUSPECT",
        "report",
        _choice("report", "fail", "off"),
        "same body under many URLs of a host: say so, count it as invalid, or nothing",
    ),
    Setting("LEASE", 60.0, _number(1), "seconds that a worker's claim on rows holds"),
    Setting(
        "LEDGER_WAIT",
        20.0,
        _number(0),
        "seconds for which a ledger that cannot be reached is tried again; results are kept meanwhile",
    ),
    Setting("PROGRESS", "auto", _progress, "live line on a terminal, else a log line a minute"),
    Setting(
        "HTTP_CLIENT",
        "auto",
        _choice("auto", "asyncio", "http11"),
        "client of the plain rung: the fastest that can run (auto), our own, or Scrapy's",
    ),
    Setting(
        "WEBHOOK",
        None,
        _optional(_web_address),
        "URL that gets `run.json` by POST when a run has ended (docs/scrapyd.md)",
    ),
    Setting(
        "WEBHOOK_SECRET",
        None,
        _optional(_text),
        "key of the webhook's HMAC-SHA256 signature; the environment variable of this name will "
        "do, and is better: Scrapyd logs settings",
    ),
    Setting(
        "METRICS",
        None,
        _optional(_text),
        "Prometheus: a text file (`/var/lib/node_exporter/shop.prom`) written once a minute, or "
        "`HOST:PORT` to serve them; needs the extra `metrics`",
    ),
)

_BY_NAME = {setting.name: setting for setting in SETTINGS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The checked settings, one attribute each, in lower case."""

    out: str
    ledger: str | None
    proxies: str | tuple[str, ...] | None
    ladder: tuple[str, ...]
    attempts: int
    cost: Mapping[str, float]
    url_budget: float
    run_budget: str | None
    stop: StopRule | None
    exit_concurrency: int
    exit_interval: float
    retry_budget: tuple[float, float] | None
    backoff: str
    backoff_base: float
    backoff_cap: float
    max_wait: float
    retry_after_cap: float
    throttle_base: float
    throttle_scope: str
    host_blocks: int
    host_pause: float
    learn: float
    passes: int
    deadline: float
    floor: int
    redrive_base: float
    redrive_jitter: tuple[float, float]
    redrive_per_host: int
    fail_on: str
    browser_pages: int
    browser_recycle: int
    api: Provider | None
    api_key: str | None
    keep_blocked: bool
    suspect: str
    lease: float
    ledger_wait: float
    progress: str
    http_client: str
    webhook: str | None
    webhook_secret: str | None
    metrics: str | None

    @classmethod
    def from_settings(cls, settings: SettingsLike) -> Config:
        """Read and check every setting.

        Raises :class:`ConfigError` with the name of the first wrong one.
        """
        values = {}
        for field in fields(cls):
            setting = _BY_NAME[field.name.upper()]
            raw = settings.get(PREFIX + setting.name)
            values[field.name] = setting.default if raw is None else _parse(setting, raw)
        return cls(**values)

    def price(self, rung: str) -> float:
        """Price units of one attempt on a rung (``http:residential`` costs what ``http`` does
        unless it has a price of its own; a scraping API declares its prices)."""
        price = self.cost.get(rung, self.cost.get(rung.split(":")[0]))
        if price is None:
            price = self.api.price_of(rung) if self.api and rung.startswith("api") else 0.0
        return float(price)


#: Settings whose values may hold a secret: no message shows them.
SECRET_NAMES = frozenset({"PROXIES", "LEDGER", "WEBHOOK", "WEBHOOK_SECRET", "API", "API_KEY"})


def parse_value(name: str, raw: Any) -> Any:
    """One value as the setting ``name`` has it. Raises ValueError, part of a sentence."""
    return _BY_NAME[name].parse(raw)


def _parse(setting: Setting, raw: Any) -> Any:
    try:
        return setting.parse(raw)
    except ValueError as error:
        shown = "" if setting.name in SECRET_NAMES else f" (it is {raw!r})"
        raise ConfigError(f"Setting {PREFIX}{setting.name} {error}{shown}.") from None


def unknown_names(settings: SettingsLike) -> list[str]:
    """A sentence for each ``RETRYSCRAPE_`` name that does not exist, with the nearest right one."""
    sentences = []
    for name in settings:
        if not isinstance(name, str) or not name.startswith(PREFIX):
            continue
        short = name.removeprefix(PREFIX)
        if short in _BY_NAME:
            continue
        near = difflib.get_close_matches(short, list(_BY_NAME), n=1, cutoff=0.0)
        hint = f", did you mean {PREFIX}{near[0]}?" if near else ""
        sentences.append(f"Setting {name} does not exist{hint or '.'}")
    return sentences
