"""Writes docs/reference/settings.md from the table in retryscrape/config.py.

``python scripts/reference_docs.py`` writes, ``--check`` fails if the file is not
what would be written (a test does the same).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from retryscrape.config import PREFIX, SETTINGS

PATH = Path(__file__).parent.parent / "docs" / "reference" / "settings.md"

HEAD = """# Settings

Generated from `retryscrape/config.py` by `python scripts/reference_docs.py`; a test holds both
together. All names begin with `RETRYSCRAPE_`. They are set in `settings.py`, with `-s` on the
command line, or as a spider's `custom_settings`. List settings take commas, dict settings JSON.
A value of the wrong kind ends the run before any request, with exit code 2 and a sentence that
names the setting; a name that does not exist is a warning with the nearest right one.

Scrapy's own settings keep their meaning: `CONCURRENT_REQUESTS`,
`CONCURRENT_REQUESTS_PER_DOMAIN`, `DOWNLOAD_DELAY`, `DOWNLOAD_TIMEOUT`, `DOWNLOAD_MAXSIZE`,
`ROBOTSTXT_OBEY`, `USER_AGENT` and so on. This project's choices are in
`retryscrape/settings.py`, each with its reason.

| setting | default | meaning |
|---|---|---|
"""


def shown(default: Any) -> str:
    """A default as one would type it after ``-s``."""
    if default is None:
        return "none"
    if isinstance(default, bool):
        return "on" if default else "off"
    if isinstance(default, dict):
        return f"`{json.dumps(default)}`"
    if isinstance(default, tuple):
        return f"`{','.join(f'{x:g}' if isinstance(x, float) else str(x) for x in default)}`"
    return f"`{default:g}`" if isinstance(default, int | float) else f"`{default}`"


def text() -> str:
    """The whole file."""
    rows = [
        f"| `{PREFIX}{setting.name}` | {shown(setting.default)} | {setting.doc} |"
        for setting in SETTINGS
    ]
    return HEAD + "\n".join(rows) + "\n"


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(PATH.read_text(encoding="utf-8") != text())
    PATH.write_text(text(), encoding="utf-8")
