"""How the value of a setting is read: text from ``-s``, or what it already is.

Each reader takes the raw value and raises ValueError with what it should be, worded to
follow the setting's name. Which setting is read how is config.py's table.
"""

from __future__ import annotations

import importlib
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from retryscrape.policy.budget import parse_run_budget
from retryscrape.policy.ladder import MODES
from retryscrape.policy.shares import StopRule, parse_stop

if TYPE_CHECKING:
    from retryscrape.policy.api_provider import Provider


def text(value: Any) -> str:
    """A text that is not empty."""
    if not isinstance(value, str) or not value.strip():
        raise ValueError("must be a text")
    return value.strip()


def optional(parse: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The same, or nothing (``none``, or empty)."""

    def parsed(value: Any) -> Any:
        if value is None or (isinstance(value, str) and value.strip().lower() in {"", "none"}):
            return None
        return parse(value)

    return parsed


def number(low: float = 0.0, *, whole: bool = False) -> Callable[[Any], Any]:
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


def choice(*words: str) -> Callable[[Any], str]:
    """One of these words."""

    def parsed(value: Any) -> str:
        word = str(value).strip().lower()
        if word not in words:
            raise ValueError(f"must be one of {', '.join(words)}")
        return word

    return parsed


def flag(value: Any) -> bool:
    """On or off, in any of the usual words."""
    word = str(value).strip().lower()
    if word in {"1", "true", "on", "yes"}:
        return True
    if word in {"0", "false", "off", "no"}:
        return False
    raise ValueError("must be on or off")


def words(value: Any) -> tuple[str, ...]:
    """A list, or words with commas between them."""
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


def mapping(value: Any) -> dict[str, Any]:
    """A dict, or a JSON object."""
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


def ladder(value: Any) -> tuple[str, ...]:
    """Rungs, each once, each of a kind that exists."""
    rungs = words(value)
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


def cost(value: Any) -> dict[str, float]:
    """Prices over the defaults, in price units per attempt."""
    prices: dict[str, float] = {"http": 2.0, "browser": 5.0}
    for rung, price in mapping(value).items():
        if rung.split(":")[0] not in RUNGS:
            raise ValueError(f"has a price for {rung!r}, and there are only {', '.join(RUNGS)}")
        try:
            prices[rung] = number()(price)
        except ValueError as error:
            raise ValueError(f"has a wrong price for {rung!r}: it {error}") from None
    return prices


def pair(low: float = 0.0) -> Callable[[Any], tuple[float, float]]:
    """Two numbers, neither below ``low``."""

    def parsed(value: Any) -> tuple[float, float]:
        parts = words(value)
        if len(parts) != 2:
            raise ValueError("must be two numbers with a comma between them")
        first, second = (number(low)(part) for part in parts)
        return first, second

    return parsed


def jitter(value: Any) -> tuple[float, float]:
    """Two numbers of seconds."""
    first, second = pair()(value)
    if first > second:
        raise ValueError("must be two numbers, the smaller one first")
    return first, second


def retry_budget(value: Any) -> tuple[float, float] | None:
    """``EARNED,CAP``, or ``off`` (None)."""
    if value is None or str(value).strip().lower() == "off":
        return None
    try:
        return pair()(value)
    except ValueError:
        raise ValueError('must be "EARNED,CAP" (such as 0.1,10) or off') from None


def run_budget(value: Any) -> str:
    """As text: what it says in numbers is counted anew in each run."""
    if isinstance(value, bool):
        raise ValueError("must be price units, or bytes")
    if isinstance(value, int | float) and math.isfinite(value):
        value = format(value, "f")
    text = ",".join(words(value))
    parse_run_budget(text)
    return text


def stop(value: Any) -> StopRule:
    """The percent stops."""
    return parse_stop(mapping(value))


def proxies(value: Any) -> str | tuple[str, ...]:
    """A file, or a list of entries."""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, Iterable) and not isinstance(value, Mapping | bytes):
        return tuple(str(item) for item in value)
    raise ValueError("must be a file's path or a list of proxies")


def progress(value: Any) -> str:
    """``auto``, ``on`` or ``off``."""
    word = str(value).strip().lower()
    if word in {"auto", ""}:
        return "auto"
    return "on" if flag(value) else "off"


def api(value: Any) -> Provider:
    """A dict, its JSON, or where in code it is: ``package.module.NAME``."""
    if isinstance(value, str) and not value.lstrip().startswith("{"):
        value = _imported(value.strip())
    # read by those who buy, and by nobody else
    from retryscrape.policy.api_declaration import provider_of
    from retryscrape.policy.api_provider import Provider

    return value if isinstance(value, Provider) else provider_of(mapping(value))


def _imported(path: str) -> Any:
    module, _, name = path.replace(":", ".").rpartition(".")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError):
        raise ValueError("must be a dict, or say where one is: package.module.NAME") from None


#: What a ledger's URL begins with; a driver's name may follow after a plus.
_DATABASES = frozenset({"sqlite", "postgres", "postgresql"})
_ANY_URL = re.compile(r"([A-Za-z][A-Za-z0-9]+)(?:\+[A-Za-z0-9]+)?:")


def database(value: Any) -> str:
    """A database URL, or the path of an SQLite file. ``postgresql:user:password@host`` is no
    path: a file of that name would hold the ledger, and show the password."""
    address = text(value)
    found = _ANY_URL.match(address)
    known = found is not None and found[1].lower() in _DATABASES and "://" in address
    if not known and (found is not None or "@" in address):
        raise ValueError("must be sqlite:///PATH or postgresql://USER:PASSWORD@HOST/NAME")
    return address


def web_address(value: Any) -> str:
    """An http or https URL."""
    address = text(value)
    if not address.lower().startswith(("http://", "https://")):
        raise ValueError("must be an http or https URL")
    return address
