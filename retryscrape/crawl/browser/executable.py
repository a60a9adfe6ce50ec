"""Which browser there is: found on disk, never launched to find out. No playwright import."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
INSTALL = "Install one with: apt-get install chromium, or: playwright install chromium"
_MODULES = ("playwright", "scrapy_playwright")


def executable(settings: BaseSettings) -> str | None:
    """The browser's path: the user's own, else the first name on PATH, else None."""
    chosen = settings.getdict("PLAYWRIGHT_LAUNCH_OPTIONS").get("executable_path")
    if chosen:
        return str(chosen)
    return next((path for path in map(shutil.which, NAMES) if path), None)


def unavailable(settings: BaseSettings) -> str | None:
    """Why nothing can be rendered, in one sentence, or None."""
    missing = [name for name in _MODULES if find_spec(name) is None]
    if missing:
        return f"Nothing can be rendered: {' and '.join(missing)} is not installed."
    kind = settings.get("PLAYWRIGHT_BROWSER_TYPE") or "chromium"
    if kind != "chromium":
        return f"Nothing can be rendered: PLAYWRIGHT_BROWSER_TYPE is {kind!r}, not 'chromium'."
    if settings.get("PLAYWRIGHT_CDP_URL") or settings.get("PLAYWRIGHT_BROWSER_PROVIDER"):
        return None
    if settings.get("PLAYWRIGHT_CONNECT_URL"):
        return None
    path = executable(settings)
    if path is None:
        own = any(_playwright_browsers())
        return None if own else f"Nothing can be rendered: no browser was found. {INSTALL}"
    if shutil.which(path) is None:
        return f"Nothing can be rendered: {path} (executable_path) cannot be run. {INSTALL}"
    return None


def _playwright_browsers() -> Iterable[Path]:
    """Browsers that ``playwright install`` put where it puts them."""
    chosen = os.environ.get("PLAYWRIGHT_BROWSERS_PATH")
    home = Path.home()
    if chosen and chosen != "0":
        root = Path(chosen)
    elif sys.platform == "darwin":
        root = home / "Library" / "Caches" / "ms-playwright"
    else:
        root = Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache") / "ms-playwright"
    return root.glob("chromium*-*/*/*chrom*") if root.is_dir() else ()
