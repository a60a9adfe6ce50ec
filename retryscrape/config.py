"""Every ``RETRYSCRAPE_*`` setting: its type, its default and its reason, checked once.

Nothing else reads these settings by name. ``docs/reference/settings.md`` is
checked against the table below by a test. No Scrapy here: ``from_settings``
takes anything with ``get`` and iteration over names.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from retryscrape import values
from retryscrape.policy.shares import StopRule

if TYPE_CHECKING:
    from retryscrape.policy.api_provider import Provider

PREFIX = "RETRYSCRAPE_"


class ConfigError(ValueError):
    """A setting has a wrong value. The message is one sentence that names it."""


class SettingsLike(Protocol):
    """As much of Scrapy's Settings as is needed here."""

    def get(self, name: str, default: Any = None) -> Any: ...
    def __iter__(self) -> Any: ...


class Setting(Struct, frozen=True):
    """One setting: ``parse`` takes the raw value and raises ValueError with what it should be."""

    name: str
    default: Any
    parse: Callable[[Any], Any]
    doc: str


SETTINGS: tuple[Setting, ...] = (
    Setting("OUT", "out", values.text, "folder of ledger, pages and feeds"),
    Setting(
        "LEDGER",
        None,
        values.optional(values.database),
        "database URL of the ledger; SQLite in OUT if unset",
    ),
    Setting(
        "PROXIES",
        None,
        values.optional(values.proxies),
        "file or list of proxies; with it nothing ever goes direct",
    ),
    Setting("LADDER", ("http", "browser"), values.ladder, "rungs, cheapest first"),
    Setting("ATTEMPTS", 3, values.number(1, whole=True), "attempts per rung and pass"),
    Setting(
        "COST",
        {"http": 2.0, "browser": 5.0},
        values.cost,
        "price units per attempt; a rendered page holds a core about 2.5 times as long",
    ),
    Setting("URL_BUDGET", 12.0, values.number(), "price units per URL and pass"),
    Setting(
        "RUN_BUDGET",
        None,
        values.optional(values.run_budget),
        "what a run may spend: price units (`500`), bytes (`2GB`), bytes of a tier of exits "
        "(`residential=1.5GB`), or several with commas; then it stops, exit code 1, and all that "
        "is open is left to a re-drive as `over_budget`",
    ),
    Setting(
        "STOP",
        None,
        values.optional(values.stop),
        'percent stops, such as `{"blocked": 0.5, "window": 200}`: when that share of the last '
        "attempts came to that outcome, a host is paused for HOST_PAUSE, and the run as a whole "
        "is stopped, exit code 1: it only burns money",
    ),
    Setting(
        "EXIT_CONCURRENCY",
        8,
        values.number(1, whole=True),
        "an exit's share of requests at once, kept while others are free: a good exit that "
        "carries everything is soon a banned one",
    ),
    Setting(
        "EXIT_INTERVAL",
        0.0,
        values.number(),
        "least seconds between two requests of one exit to one host; what a site counts is "
        "an address's rate",
    ),
    Setting(
        "RETRY_BUDGET",
        (0.1, 10.0),
        values.retry_budget,
        "retries earned per first attempt, and the most that is kept; or off. "
        "A tenth is what Finagle, gRPC and linkerd give: an outage must not double the load",
    ),
    Setting("BACKOFF", "full", values.choice("full", "decorrelated"), "jitter of the backoff"),
    Setting("BACKOFF_BASE", 1.0, values.number(), "first backoff, seconds"),
    Setting("BACKOFF_CAP", 60.0, values.number(), "longest backoff, seconds"),
    Setting("MAX_WAIT", 300.0, values.number(), "longer waits are parked for a re-drive, seconds"),
    Setting("RETRY_AFTER_CAP", 3600.0, values.number(), "longest pause of a host, seconds"),
    Setting(
        "THROTTLE_BASE", 30.0, values.number(), "pause after a 429 without Retry-After, seconds"
    ),
    Setting(
        "THROTTLE_SCOPE",
        "host",
        values.choice("host", "exit"),
        "what a 429 pauses: the host, or only the exit on that host",
    ),
    Setting(
        "HOST_BLOCKS", 3, values.number(1, whole=True), "blocked URLs in a row that pause a host"
    ),
    Setting("HOST_PAUSE", 3600.0, values.number(), "length of that pause, seconds"),
    Setting(
        "LEARN", 86400.0, values.number(), "how long a host's best rung is remembered, seconds"
    ),
    Setting("PASSES", 3, values.number(1, whole=True), "most passes of redrive"),
    Setting("DEADLINE", 2700.0, values.number(), "longest time of redrive, seconds"),
    Setting(
        "FLOOR", 10, values.number(whole=True), "fewer rows than this end redrive after a pass"
    ),
    Setting("REDRIVE_BASE", 30.0, values.number(), "first wait between redrive passes, seconds"),
    Setting("REDRIVE_JITTER", (5.0, 15.0), values.jitter, "added to that wait, seconds from,to"),
    Setting(
        "REDRIVE_PER_HOST",
        5,
        values.number(1, whole=True),
        "requests at once per host in a redrive",
    ),
    Setting(
        "FAIL_ON",
        "unresolved",
        values.choice("unresolved", "redrivable", "any", "never"),
        "when the exit code is 1",
    ),
    Setting(
        "BROWSER_PAGES",
        4,
        values.number(1, whole=True),
        "rendered pages at once; on 2 cores 8 were hardly faster than 4",
    ),
    Setting(
        "BROWSER_RECYCLE", 500, values.number(1, whole=True), "pages until the browser is renewed"
    ),
    Setting(
        "API",
        None,
        values.optional(values.api),
        "the scraping API of the rung `api`, as a dict (the least is `kind` and `base`) or as the "
        "name of one in code, `package.module.NAME` (docs/how-to/scraping-api.md)",
    ),
    Setting(
        "API_KEY",
        None,
        values.optional(values.text),
        "its key; the environment variable of this name will do, and is better: settings are "
        "shown to whoever lists processes",
    ),
    Setting("KEEP_BLOCKED", True, values.flag, "keep the last blocked or invalid body per URL"),
    Setting(
        "SUSPECT",
        "report",
        values.choice("report", "fail", "off"),
        "same body under many URLs of a host: say so, count it as invalid, or nothing",
    ),
    Setting("LEASE", 60.0, values.number(1), "seconds that a worker's claim on rows holds"),
    Setting(
        "LEDGER_WAIT",
        20.0,
        values.number(0),
        "seconds for which a ledger that cannot be reached is tried again; results are kept meanwhile",
    ),
    Setting(
        "PROGRESS", "auto", values.progress, "live line on a terminal, else a log line a minute"
    ),
    Setting(
        "HTTP_CLIENT",
        "auto",
        values.choice("auto", "asyncio", "http11"),
        "client of the plain rung: the fastest that can run (auto), our own, or Scrapy's",
    ),
    Setting(
        "WEBHOOK",
        None,
        values.optional(values.web_address),
        "URL that gets `run.json` by POST when a run has ended (docs/scrapyd.md)",
    ),
    Setting(
        "WEBHOOK_SECRET",
        None,
        values.optional(values.text),
        "key of the webhook's HMAC-SHA256 signature; the environment variable of this name will "
        "do, and is better: Scrapyd logs settings",
    ),
    Setting(
        "METRICS",
        None,
        values.optional(values.text),
        "Prometheus: a text file (`/var/lib/node_exporter/shop.prom`) written once a minute, or "
        "`HOST:PORT` to serve them; needs the extra `metrics`",
    ),
)

_BY_NAME = {setting.name: setting for setting in SETTINGS}


class Config(Struct, frozen=True, kw_only=True):
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
        for name in cls.__struct_fields__:
            setting = _BY_NAME[name.upper()]
            raw = settings.get(PREFIX + setting.name)
            values[name] = setting.default if raw is None else _parse(setting, raw)
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
