"""JSON lines: objects with ``url``, bare strings, and our own failures feed.

Tolerant line by line: a crash may have cut the last one, a hand may have
edited any (field case A9).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from retryscrape.manifest.judge import judge, printable, rejected
from retryscrape.manifest.lines import Cut
from retryscrape.manifest.names import check_batch_name
from retryscrape.manifest.prior import read_prior
from retryscrape.manifest.rows import Continue, Item, Options, Rejected, Row
from retryscrape.policy.outcomes import Outcome

#: Characters a line may have: ``fields`` travel with the URL.
MAX_LINE = 1_048_576

#: Deeper values parse, but would overrun whoever writes them again from a deeper stack.
_MAX_DEPTH = 50


def _finite(text: str) -> float | None:
    number = float(text)
    return number if math.isfinite(number) else None


#: NaN and 1e999 are no JSON: the feed could not be read by others if they were handed on.
_DECODER = json.JSONDecoder(parse_constant=lambda _: None, parse_float=_finite)


def read_jsonlines(lines: Iterable[tuple[int, str]], options: Options) -> Iterator[Item]:
    """Rows, rejected lines and the feed's pointer to read on, in order."""
    for number, text in lines:
        if number < options.from_line:
            continue
        if isinstance(text, Cut):
            yield rejected(text, number, "line over 1 MB")
            continue
        stripped = text.strip().strip("\ufeff")
        if stripped and not stripped.startswith("#"):
            yield _item(stripped, number, options)


def _item(text: str, line: int, options: Options) -> Item:
    try:
        value = _parse(text)
    except (ValueError, RecursionError):
        return rejected(text, line, "no valid JSON")
    if isinstance(value, str):
        return judge(value.strip(), line, options.default_scheme, raw=text)
    if not isinstance(value, dict):
        return rejected(text, line, "neither a JSON object nor a string")
    if _too_deep(value, text):
        return rejected(text, line, "JSON nested too deeply")
    if "url" not in value and {"manifest", "from_line"} <= value.keys():
        return _continue(value, text, line)
    return _record(value, text, line, options)


def _parse(text: str) -> Any:
    try:
        return _DECODER.decode(text)
    except ValueError:
        # One element a line, cut out of an array by hand.
        if text.endswith(","):
            return _DECODER.decode(text[:-1])
        raise


def _record(value: dict[str, Any], text: str, line: int, options: Options) -> Row | Rejected:
    feed = "error_class" in value
    name = _url_name(value, options.url_field, feed=feed)
    if name is None:
        return rejected(text, line, f'no "{options.url_field or "url"}"')
    url = value[name]
    if not isinstance(url, str):
        return rejected(text, line, f'"{name}" is not text')
    if feed:
        return _failure(url, value, text, line, options)
    others = {key: item for key, item in value.items() if key != name}
    fields = _fields(others, text)
    return judge(url.strip(), line, options.default_scheme, raw=text, fields=fields)


def _failure(
    url: str, value: Mapping[str, Any], text: str, line: int, options: Options
) -> Row | Rejected:
    prior = read_prior(value)
    batch = _name(value.get("batch_id"))
    if batch and (complaint := check_batch_name(batch)):
        return rejected(text, line, f'"batch_id" {complaint}')
    if prior.get("outcome") is Outcome.REJECTED and not options.include_permanent:
        # Rejected stays rejected, whatever default_scheme says today, until somebody asks for it.
        reason = prior.get("reason") or "rejected before"
        return rejected(url, line, reason, raw=text, batch=batch, prior=prior)
    return judge(
        url.strip(),
        line,
        options.default_scheme,
        raw=text,
        fields=_fields(value.get("fields"), text),
        batch=batch,
        prior=prior,
    )


def _continue(value: Mapping[str, Any], text: str, line: int) -> Continue | Rejected:
    manifest, start = _name(value["manifest"]), value["from_line"]
    if manifest is None or type(start) is not int or start < 1:
        return rejected(text, line, '"manifest" or "from_line" of the wrong type')
    batch = _name(value.get("batch_id"))
    if batch and (complaint := check_batch_name(batch)):
        return rejected(text, line, f'"batch_id" {complaint}')
    return Continue(manifest=manifest, from_line=start, line=line, batch=batch)


def _name(value: Any) -> str | None:
    return printable(value) if isinstance(value, str) and value else None


def _url_name(value: Mapping[str, Any], url_field: str | None, *, feed: bool) -> str | None:
    """The key that holds the URL: as asked for, ``url`` in a feed, else any case of it."""
    wanted = "url" if feed and "url" in value else url_field or "url"
    if wanted in value:
        return wanted
    folded = wanted.casefold()
    return next((name for name in value if name.strip().casefold() == folded), None)


def _too_deep(value: Any, text: str) -> bool:
    if text.count("[") + text.count("{") <= _MAX_DEPTH:
        return False
    level = [value]
    for _ in range(_MAX_DEPTH):
        level = [inner for item in level for inner in _inside(item)]
        if not level:
            return False
    return True


def _inside(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _fields(value: Any, text: str) -> dict[str, Any] | None:
    """A non-empty object whose texts a database can store; only odd lines are walked."""
    if not isinstance(value, dict) or not value:
        return None
    if "\\u" not in text and text.isascii():
        return value
    return {printable(key): _storable(item) for key, item in value.items()}


def _storable(value: Any) -> Any:
    # The depth is bounded by now.
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, dict):
        return {printable(key): _storable(item) for key, item in value.items()}
    return [_storable(item) for item in value] if isinstance(value, list) else value
