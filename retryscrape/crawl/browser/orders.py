"""What goes between the crawl and the browser's process, and what cannot go: the user's code.

Values only. How they get there is ``link``'s.
"""

from __future__ import annotations

import io
import os
import pickle
import sys
from types import BuiltinFunctionType, FunctionType
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from scrapy import Request
from scrapy.http import Response
from scrapy.settings import BaseSettings, Settings

from retryscrape.crawl.browser.options import BrowserOptions, How
from retryscrape.crawl.keys import BYTES, INIT, METHODS

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Settings of scrapy-playwright's that may be code: the first is in the options, nobody here
#: reads the second.
_CODE = frozenset({"PLAYWRIGHT_ABORT_REQUEST", "PLAYWRIGHT_PROCESS_REQUEST_HEADERS"})


class Setup(Struct, frozen=True):
    """The first message: what the browser is told once. ``path`` is the crawl's PYTHONPATH."""

    options: BrowserOptions
    values: dict[str, tuple[Any, int]]
    path: str | None

    def settings(self) -> Settings:
        """Scrapy's settings, as far as a browser reads them."""
        settings = Settings()
        for name, (value, priority) in self.values.items():
            settings.set(name, value, priority)
        return settings


class Call(Struct):
    """A PageMethod without the user's object."""

    method: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    result: Any = None


class Order(Struct, frozen=True, kw_only=True):
    """A page to be rendered: what of its request a browser needs, and ``Browser.fetch``'s words."""

    id: int
    url: str
    method: str
    headers: dict[bytes, list[bytes]]
    body: bytes
    encoding: str
    meta: dict[str, Any]
    how: How

    def request(self) -> Request:
        """The request anew."""
        return Request(
            self.url,
            method=self.method,
            headers=self.headers,
            body=self.body,
            encoding=self.encoding,
            meta=self.meta,
            dont_filter=True,
        )


class Cancel(Struct, frozen=True):
    """Nobody waits for this page any more."""

    id: int


class Ready(Struct, frozen=True):
    """The process takes orders."""


class Counts(Struct, frozen=True):
    """What to do to the stats: a collector's method, and its arguments."""

    operations: list[tuple[str, str, Any]]


class Line(Struct, frozen=True):
    """A log record's attributes."""

    record: dict[str, Any]


class Answer(Struct, frozen=True, kw_only=True):
    """How a page ended, what was set in its meta, and what its methods gave."""

    id: int
    end: Response | Exception
    meta: dict[str, Any]
    results: list[Any]
    user_agent: str | None


class _Plain(pickle.Pickler):
    """Takes what the standard library makes, and nothing of the user's."""

    def reducer_override(self, obj: Any) -> Any:
        of = obj if isinstance(obj, type | FunctionType | BuiltinFunctionType) else type(obj)
        module = (of.__module__ or "builtins").partition(".")[0]
        if module not in sys.stdlib_module_names:
            raise pickle.PicklingError(f"{of.__qualname__} is not the standard library's")
        return NotImplemented


def plain(value: object) -> bool:
    """Whether this can go to another process and mean the same there."""
    try:
        _Plain(io.BytesIO(), pickle.HIGHEST_PROTOCOL).dump(value)
    except Exception:  # pickle raises whatever an object's own methods do
        return False
    return True


def setup_of(settings: BaseSettings, options: BrowserOptions) -> Setup | None:
    """None where rendering takes code of the user's."""
    if options.abort is not None or settings.get("PLAYWRIGHT_BROWSER_PROVIDER"):
        return None
    names = [str(name) for name in settings if str(name).startswith("PLAYWRIGHT_")]
    values = {
        name: (_value(settings, name), settings.getpriority(name) or 0)
        for name in (*names, "DOWNLOAD_VERIFY_CERTIFICATES")
        if name not in _CODE
    }
    if not plain((values, options.context_kwargs)):
        return None
    return Setup(options, values, os.environ.get("PYTHONPATH"))


def _value(settings: BaseSettings, name: str) -> Any:
    value = settings.get(name)
    return value.copy_to_dict() if isinstance(value, BaseSettings) else value


def methods_of(request: Request) -> list[Any]:
    """The page's PageMethods."""
    methods: Any = request.meta.get(METHODS) or ()
    return list(methods.values() if isinstance(methods, dict) else methods)


def calls_of(request: Request) -> list[Call] | None:
    """The page's methods; None where rendering it takes code of the user's, which is run in
    the crawl's own process: there it finds what it knows, and leaves what it changes."""
    given = request.meta.get(METHODS) or ()
    if request.meta.get(INIT) or not isinstance(given, dict | list | tuple):
        return None
    calls = [(method.method, method.args, method.kwargs) for method in methods_of(request)]
    return [Call(*call) for call in calls] if plain(calls) else None


def order_of(number: int, request: Request, calls: Iterable[Call], how: How) -> Order:
    """The order of a page."""
    meta: dict[str, Any] = {METHODS: list(calls)}
    if BYTES in request.meta:
        meta[BYTES] = request.meta[BYTES]
    return Order(
        id=number,
        url=request.url,
        method=request.method,
        headers={name: list(values) for name, values in request.headers.items()},
        body=request.body,
        encoding=request.encoding,
        meta=meta,
        how=how,
    )


def answer_of(
    order: Order, request: Request, end: Response | Exception, agent: str | None
) -> Answer:
    """A method's result that belongs to the page (an element's handle) is as dead as the page
    when it arrives: it comes as its text."""
    results = [call.result for call in methods_of(request)]
    return Answer(
        id=order.id,
        end=end,
        meta={key: value for key, value in request.meta.items() if key != METHODS},
        results=[result if plain(result) else repr(result) for result in results],
        user_agent=agent,
    )
