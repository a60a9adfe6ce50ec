"""The spider arguments of every ``ManifestSpider``, checked once.

What they mean is documented in docs/reference/arguments.md, which a test holds
together with the table here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from cssselect import SelectorError
from msgspec import Struct
from parsel.csstranslator import HTMLTranslator

from retryscrape.manifest.names import batch_name, check_batch_name
from retryscrape.policy.outcomes import Checks


class ArgumentError(ValueError):
    """A spider argument has a wrong value. The message is one sentence that names it."""


class Arguments(Struct, frozen=True, kw_only=True):
    """What was given after ``-a``; None where nothing was."""

    manifest: str | None = None
    urls: str | None = None
    batch: str | None = None
    require: str | None = None
    min_text: int = 500
    final_host: str | None = None
    default_scheme: str | None = None
    url_field: str | None = None
    include_permanent: bool = False
    shard: tuple[int, int] | None = None
    work: str | None = None
    job: str | None = None
    #: rows with as many passes are left alone; given by ``redrive`` (``_passes``)
    passes: int | None = None
    unknown: tuple[str, ...] = ()

    @classmethod
    def from_kwargs(cls, kwargs: Mapping[str, Any]) -> Arguments:
        """Check the arguments of a spider. Raises :class:`ArgumentError`."""
        values: dict[str, Any] = {"job": kwargs.get("_job")}
        if "_passes" in kwargs:
            values["passes"] = _count(kwargs["_passes"])
        unknown = []
        for name, raw in kwargs.items():
            if name in _PARSERS:
                try:
                    values[name] = None if raw is None else _PARSERS[name](raw)
                except ValueError as error:
                    raise ArgumentError(f"Argument {name} {error} (it is {raw!r}).") from None
            elif not name.startswith("_"):
                unknown.append(name)
        given = {name: value for name, value in values.items() if value is not None}
        return cls(**given, unknown=tuple(sorted(unknown)))._whole()

    def _whole(self) -> Arguments:
        if self.work:
            if not self.batch:
                raise ArgumentError("Argument work=ledger needs batch=NAME.")
            if self.manifest or self.urls is not None or self.shard:
                raise ArgumentError(
                    "Argument work=ledger takes rows that scrapy load has made: give no manifest=,"
                    " urls= or shard= with it."
                )
            return self
        if self.manifest and self.urls:
            raise ArgumentError("Give either manifest= or urls=, not both.")
        if not self.manifest and self.urls is None:
            raise ArgumentError("Argument manifest is missing: -a manifest=FILE (or urls=...).")
        if self.manifest == "-" and not self.batch:
            raise ArgumentError("Argument batch is missing: manifest=- needs -a batch=NAME.")
        if self.urls is not None and not self.batch:
            raise ArgumentError("Argument batch is missing: urls= needs -a batch=NAME.")
        if self.manifest and not self.batch:
            name = batch_name(self.manifest)
            if complaint := check_batch_name(name):
                raise ArgumentError(
                    f"The manifest's name makes no batch: {name!r} {complaint};"
                    " give one with -a batch=NAME."
                )
        return self

    @property
    def checks(self) -> Checks:
        """What a good page must show."""
        return Checks(require=self.require, min_text=self.min_text, final_host=self.final_host)


def _text(value: Any) -> str:
    text = str(value).strip()
    if not text:
        raise ValueError("is empty")
    return text


def _batch(value: Any) -> str:
    text = _text(value)
    if complaint := check_batch_name(text):
        raise ValueError(complaint)
    return text


def _any_text(value: Any) -> str:
    return str(value)


def _selector(value: Any) -> str:
    text = _text(value)
    try:
        HTMLTranslator().css_to_xpath(text)
    except SelectorError as error:
        raise ValueError(f"must be a CSS selector: {error}") from None
    return text


def _count(value: Any) -> int:
    try:
        number = int(str(value).strip())
    except ValueError:
        raise ValueError("must be a whole number") from None
    if number < 0:
        raise ValueError("must not be negative")
    return number


def _scheme(value: Any) -> str:
    text = _text(value).lower().removesuffix("://").removesuffix(":")
    if text not in {"http", "https"}:
        raise ValueError("must be http or https")
    return text


def _host(value: Any) -> str:
    text = _text(value).lower().strip(".")
    if "/" in text or "@" in text or any(c.isspace() for c in text):
        raise ValueError("must be a host's name, such as www.example.com")
    return text


def _flag(value: Any) -> bool:
    word = str(value).strip().lower()
    if word in {"1", "true", "yes", "on"}:
        return True
    if word in {"0", "false", "no", "off", ""}:
        return False
    raise ValueError("must be 1 or 0")


def _shard(value: Any) -> tuple[int, int]:
    first, slash, second = str(value).partition("/")
    try:
        shard, shards = int(first), int(second)
    except ValueError:
        shard, shards = 0, 0
    if not slash or not 1 <= shard <= shards:
        raise ValueError("must be K/N with K from 1 to N, such as 2/4")
    return shard, shards


def _work(value: Any) -> str:
    if str(value) != "ledger":
        raise ValueError("must be ledger")
    return "ledger"


_PARSERS: Mapping[str, Callable[[Any], Any]] = {
    "manifest": _text,
    "urls": _any_text,
    "batch": _batch,
    "require": _selector,
    "min_text": _count,
    "final_host": _host,
    "default_scheme": _scheme,
    "url_field": _text,
    "include_permanent": _flag,
    "shard": _shard,
    "work": _work,
}


def parse_argument(name: str, raw: Any) -> Any:
    """One value as the argument ``name`` has it. Raises ValueError, part of a sentence."""
    return _PARSERS[name](raw)


#: The names, for the documentation's test.
NAMES = tuple(_PARSERS)
