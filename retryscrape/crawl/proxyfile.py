"""Opens what ``RETRYSCRAPE_PROXIES`` or ``scrapy proxies check`` names: a file, or a list.

How a line is read is ``policy.proxies``; what the exits are for is no matter here.
"""

from __future__ import annotations

from pathlib import Path

from retryscrape.policy.proxies import ProxyList, parse_proxies


class ProxiesError(ValueError):
    """There is nothing to read. The message is the rest of a sentence."""


def read_proxies(given: str | tuple[str, ...]) -> ProxyList:
    """The proxies of a file, of ``A,B`` in one text, or of a list.

    Raises :class:`ProxiesError` if there is no such file or it cannot be read.
    """
    if not isinstance(given, str):
        return parse_proxies(given, "RETRYSCRAPE_PROXIES")
    path = Path(given).expanduser()
    if path.is_file():
        return parse_proxies(_text(path, given).split("\n"), given)
    if "://" in given or "," in given:
        return parse_proxies(given.split(","), "RETRYSCRAPE_PROXIES")
    if path.exists():
        raise ProxiesError(f"{given} is no file.")
    raise ProxiesError(f"no such file: {given} (tried {path.absolute()}).")


def _text(path: Path, given: str) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        return path.read_text(encoding="latin-1")
    except OSError as error:
        raise ProxiesError(f"{given} cannot be read: {error.strerror}.") from None
