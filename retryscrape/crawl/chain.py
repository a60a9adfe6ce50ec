"""The downloader middlewares of a request, called at a third of the cost.

What they mean is Scrapy's: order, results, exceptions. Its manager wraps each
result in a coroutine and each of its own hooks in a check of their arguments (36 steps a page on
2.19); here a hook is a plain call, and awaited only if it gave something to await.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from functools import partial
from typing import Any

from scrapy import Request
from scrapy.core.downloader.middleware import DownloaderMiddlewareManager
from scrapy.http import Response
from scrapy.utils.defer import ensure_awaitable
from scrapy.utils.python import global_object_name

Hook = Callable[..., Any]
Fetch = Callable[[Request], Coroutine[Any, Any, Response]]


class Chain:
    """The way of a request through the hooks of Scrapy's manager, down and up again."""

    def __init__(self, manager: DownloaderMiddlewareManager) -> None:
        self._manager = manager
        self._begun = False

    def _hooks(self, name: str) -> list[Hook]:
        manager = self._manager
        return [
            partial(method, spider=manager._spider)
            if method in manager._mw_methods_requiring_spider
            else unwrapped(method)
            for method in manager.methods[name]
            if method is not None
        ]

    def _begin(self) -> None:
        """Look the hooks up, once: the spider is known by the first request."""
        self._begun = True
        self._requests = self._hooks("process_request")
        self._responses = self._hooks("process_response")
        self._exceptions = self._hooks("process_exception")

    async def download(self, download_func: Fetch, request: Request) -> Response | Request:
        """What Scrapy's ``download_async`` gives."""
        if not self._begun:
            self._begin()
        try:
            result = await self._asked(request, download_func)
        except Exception as error:
            # as Scrapy: what the sockets have to say comes first
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            answer = await _first(self._exceptions, request=request, exception=error)
            if answer is None:
                raise
            result = answer
        return result if isinstance(result, Request) else await self._answered(request, result)

    async def _answered(self, request: Request, response: Response) -> Response | Request:
        for hook in self._responses:
            given = hook(request=request, response=response)
            if not isinstance(given, Response):
                given = await _awaited(given, hook)
                if isinstance(given, Request):
                    return given
                if not isinstance(given, Response):
                    raise TypeError(_wrong(hook, "Response or Request", given))
            response = given
        return response

    async def _asked(self, request: Request, download_func: Fetch) -> Response | Request:
        early = await _first(self._requests, request=request)
        return await download_func(request) if early is None else early


async def _first(hooks: Iterable[Hook], **known: Any) -> Response | Request | None:
    """The first answer that a hook gives in the place of going on."""
    for hook in hooks:
        given = hook(**known)
        if given is None:
            continue
        given = await _awaited(given, hook)
        if isinstance(given, Response | Request):
            return given
        if given is not None:
            raise TypeError(_wrong(hook, "None, Response or Request", given))
    return None


async def _awaited(given: Any, hook: Hook) -> Any:
    if isinstance(given, Response | Request) or not isinstance(given, Awaitable):
        return given
    return await ensure_awaitable(given, _warn=_name(hook))


def _wrong(hook: Hook, wanted: str, given: object) -> str:
    return f"Middleware {_name(hook)} must return {wanted}, got {type(given)}"


def _name(hook: Hook) -> str:
    return global_object_name(hook.func if isinstance(hook, partial) else hook)


def unwrapped(method: Hook) -> Hook:
    """One of Scrapy's own hooks without its check for a deprecated ``spider`` argument,
    which we do not pass (two thirds of the cost of a short hook)."""
    function = getattr(method, "__func__", None)
    inner = getattr(function, "__wrapped__", None)
    owner = getattr(method, "__self__", None)
    if inner is None or owner is None or not function.__module__.startswith("scrapy."):
        return method
    if "spider" not in inspect.signature(inner).parameters:
        return method
    bound: Hook = inner.__get__(owner)
    return bound
