"""The browser's life: driver and browser started when first needed, renewed, ended.

Pages and contexts are not known here. Playwright is imported on the first start.
"""

from __future__ import annotations

import asyncio
import logging
import os
import stat
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from retryscrape.crawl.browser.errors import launch_sentence
from retryscrape.crawl.browser.executable import INSTALL, executable, unavailable
from retryscrape.crawl.browser.options import verify_tls
from retryscrape.crawl.browser.processes import Process, drivers, kill, tree
from retryscrape.crawl.faults import At, FetchError
from retryscrape.crawl.tasks import kept

if TYPE_CHECKING:
    from playwright.async_api import Browser as PlaywrightBrowser
    from scrapy.settings import BaseSettings

logger = logging.getLogger(__name__)

#: Launches in a row that may fail before the run renders no more: one alone may have been killed
#: for want of memory.
FAILED_LAUNCHES = 3
#: Seconds of one that took too long to be tried again, for a driver that hangs, between two.
LAUNCH_SECONDS, HUNG_SECONDS, _BETWEEN = 10.0, 40.0, 0.2
#: Seconds that closing a browser, and then the driver, may take before they are killed.
CLOSE_SECONDS = 3.0
#: Seconds that the pages of a browser that went away have to fail by themselves.
_GRACE = 1.0

#: Nothing may pass the exit by: no QUIC, no WebRTC over UDP, no early DNS look-ups. Without
#: site isolation a page is one process, and all its frames' traffic is counted and filtered.
ARGS = (
    "--disable-gpu",
    "--disable-quic",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--dns-prefetch-disable",
    "--disable-site-isolation-trials",
)
#: Playwright's own switches that we do without: they take from Chromium what it does against
#: pages that jump or open windows without end (two of them held up, and then ended, all others).
DROPPED_ARGS = ("--disable-ipc-flooding-protection", "--disable-popup-blocking")


class Session(Struct, eq=False):
    """One running browser. ``contexts`` are those still open in it."""

    browser: PlaywrightBrowser
    pages: int = 0
    contexts: int = 0
    retired: bool = False
    lost: bool = False
    #: tasks that render in it
    works: set[asyncio.Task[Any]] = field(default_factory=set)
    #: those of them that were ended because it went away
    dropped: set[asyncio.Task[Any]] = field(default_factory=set)

    def watch(self) -> None:
        """Have its pages fail soon after it went away. Playwright fails most calls by itself,
        but one that opens a page or a context then may never come back (measured: a page in
        two of ten kills waited for its whole time-out)."""

        def gone(_: object) -> None:  # a method would be given an attribute, and has no room for it
            self.lose()

        self.browser.on("disconnected", gone)

    def lose(self) -> None:
        """It is gone, or its driver is (of which Playwright tells it nothing)."""
        self.lost = True
        asyncio.get_running_loop().call_later(_GRACE, self._drop)

    def _drop(self) -> None:
        for work in self.works:
            self.dropped.add(work)
            work.cancel()

    @property
    def alive(self) -> bool:
        return not self.lost and self.browser.is_connected()

    @property
    def user_agent(self) -> str:
        """Chromium's own, without the word Headless; the version reduced as Chrome does."""
        major = self.browser.version.partition(".")[0]
        return (
            "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) "
            f"Chrome/{major}.0.0.0 Safari/537.36"
        )


class Engine:
    """Gives out the running browser, starting what is not there."""

    def __init__(self, settings: BaseSettings, *, recycle: int) -> None:
        self._settings = settings
        self._recycle = recycle
        self._provider: Any = None
        self._current: Session | None = None
        self._launching: asyncio.Task[Session] | None = None
        self._failed = 0
        self._sentence: str | None = None
        self._roots: set[Process] = set()
        self._ending: set[asyncio.Task[None]] = set()
        self.launches = 0

    def unavailable(self) -> str | None:
        """Why nothing can be rendered (one sentence), or None."""
        if self._failed >= FAILED_LAUNCHES:
            return self._sentence
        return unavailable(self._settings)

    async def session(self) -> Session:
        """The browser for the next page, counted; raises FetchError ``unavailable``."""
        if sentence := self.unavailable():
            raise _refusal(sentence)
        if (current := self._current) and (not current.alive or current.pages >= self._recycle):
            current.retired = True
            self._current = None
            self.settle(current)
        while self._current is None:
            if self._launching is None:
                self._launching = asyncio.create_task(self._launch())
                self._launching.add_done_callback(self._launched)
            # shielded: the others that wait for this launch must not lose it to one's time-out
            await asyncio.shield(self._launching)
        self._current.pages += 1
        return self._current

    def settle(self, session: Session) -> None:
        """Close a retired browser once its last context is gone."""
        if session.retired and not session.contexts:
            kept(_bounded(session.browser.close()), self._ending)

    def processes(self) -> list[Process]:
        """The driver, the browser and all below."""
        return tree(self._roots)

    def kill(self) -> None:
        """End the browser and its driver at once. Pages in flight fail with ``reset``, the
        next one gets new ones."""
        logger.warning("A page keeps the browser from closing it: the browser is renewed")
        kill(self.processes())

    async def close(self) -> None:
        """End everything; what does not go by itself is killed."""
        if self._launching:
            self._launching.cancel()
            await asyncio.wait({self._launching})
        group = self.processes()
        if self._current:
            await _bounded(self._current.browser.close())
            self._current = None
        await self._stop_driver()
        kill(group)

    def _launched(self, task: asyncio.Task[Session]) -> None:
        self._launching = None
        if not task.cancelled() and task.exception() is None:
            self._current = task.result()

    async def _launch(self) -> Session:
        began = time.monotonic()
        while True:
            try:
                browser = await self._browser()
                break
            except Exception as error:  # a driver that is killed raises one of no class of its own
                self._failed += 1
                self._sentence = launch_sentence(error, executable(self._settings))
                late = time.monotonic() - began > LAUNCH_SECONDS
                if late or self._failed >= FAILED_LAUNCHES:
                    raise _refusal(self._sentence) from None
            await asyncio.sleep(_BETWEEN)
        self._failed = 0
        self._sentence = None
        self.launches += 1
        session = Session(browser)
        session.watch()
        if end := _driver_error(self._provider):
            end.add_done_callback(lambda _: session.lose())
        return session

    async def _browser(self) -> PlaywrightBrowser:
        """Started by the driver, which is started first if there is none. Neither is waited for
        without end: Playwright's own time-out is the driver's, and that may hang."""
        own = self._settings.getdict("PLAYWRIGHT_LAUNCH_OPTIONS").get("timeout") or 0
        try:
            async with asyncio.timeout(max(HUNG_SECONDS, own / 1000 + LAUNCH_SECONDS)):
                if self._provider is None:
                    await self._start_driver()
                browser: PlaywrightBrowser = await self._provider.launch_browser()
                return browser
        except Exception:
            kill(self.processes())
            await self._stop_driver()  # it may be what is broken
            raise

    async def _start_driver(self) -> None:
        from scrapy.utils.misc import load_object
        from scrapy_playwright.handler import DEFAULT_BROWSER_PROVIDER, Config

        config = Config.from_settings(self._settings)
        config.launch_options = launch_options(self._settings)
        name = self._settings.get("PLAYWRIGHT_BROWSER_PROVIDER") or DEFAULT_BROWSER_PROVIDER
        provider = load_object(name)(config)
        before = drivers()
        try:
            with own_session():
                await provider.start()
        finally:
            self._roots |= drivers() - before
        self._provider = provider

    async def _stop_driver(self) -> None:
        if self._provider is not None:
            await _bounded(self._provider.close())
            _read(_driver_error(self._provider))
            self._provider = None


def _refusal(sentence: str) -> FetchError:
    return FetchError("unavailable", At.TARGET, detail=sentence)


def launch_options(settings: BaseSettings) -> dict[str, Any]:
    """The user's launch options over ours. Signals are left to Python: a Ctrl-C ends the run."""
    options = dict(settings.getdict("PLAYWRIGHT_LAUNCH_OPTIONS"))
    path = executable(settings)
    if path:
        options["executable_path"] = path
    for name in ("handle_sigint", "handle_sigterm", "handle_sighup"):
        options.setdefault(name, False)
    options.setdefault("ignore_default_args", list(DROPPED_ARGS))
    args = list(options.get("args") or ())
    # Playwright's own switch drops the first connection to each host, and makes another
    unchecked = () if verify_tls(settings) else ("--ignore-certificate-errors",)
    options["args"] = args + [arg for arg in (*ARGS, *unchecked) if arg not in args]
    return options


@contextmanager
def own_session() -> Iterator[None]:
    """Have the driver that is started within lead a session of its own.

    A signal to the process group (Ctrl-C, ``timeout``) would end it before Scrapy has
    finished its pages (probes.md, part A), and playwright offers no option for it but the
    path of node. The browser below it leads its own group already.
    """
    previous = os.environ.get("PLAYWRIGHT_NODEJS_PATH")
    try:
        node = previous or bundled_node()
        folder = tempfile.TemporaryDirectory(prefix="retryscrape-", ignore_cleanup_errors=True)
    except (ImportError, OSError):
        yield
        return
    with folder as name:
        wrapper = Path(name) / "node"
        code = "import os,sys;os.getpgid(0)==os.getpid() or os.setsid();os.execv(sys.argv[1],sys.argv[1:])"
        wrapper.write_text(f'#!/bin/sh\nexec "{sys.executable}" -ISc "{code}" "{node}" "$@"\n')
        wrapper.chmod(stat.S_IRWXU)
        if sys.platform != "win32" and os.access(wrapper, os.X_OK):
            os.environ["PLAYWRIGHT_NODEJS_PATH"] = str(wrapper)
        try:
            yield
        finally:
            if previous is None:
                os.environ.pop("PLAYWRIGHT_NODEJS_PATH", None)
            else:
                os.environ["PLAYWRIGHT_NODEJS_PATH"] = previous


def bundled_node() -> str:
    """The path of the node that playwright brings."""
    import playwright

    return str(Path(playwright.__file__).parent / "driver" / "node")


def _driver_error(provider: Any) -> asyncio.Future[Any] | None:
    """What playwright tells the end of a driver by that was killed. Nothing public leads there."""
    with suppress(AttributeError):
        future: asyncio.Future[Any] = (
            provider.playwright_context_manager._client._transport.on_error_future
        )
        return future
    return None


def _read(future: asyncio.Future[Any] | None) -> None:
    """Read an error that playwright leaves behind: asyncio would log it as never retrieved."""
    if future is not None and future.done() and not future.cancelled():
        future.exception()


async def _bounded(closing: Any) -> None:
    """Await a close that may hang or fail because the other side is gone."""
    with suppress(Exception):
        async with asyncio.timeout(CLOSE_SECONDS):
            await closing


__all__ = ["ARGS", "INSTALL", "Engine", "Session", "bundled_node", "launch_options", "own_session"]
