"""Scenarios of bodies: empty, short, compressed well, compressed badly."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable

import brotli
import zstandard

from retryscrape.hostile.blockpages import BLOCK_PAGES
from retryscrape.hostile.scene import Scenario, Scene
from retryscrape.hostile.text import article, page
from retryscrape.hostile.wire import Reply, answer

#: Size of the pages that are cut, so that half of them is still a lot of text. Bytes.
LONG = 16_000

ENCODERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": lambda data: gzip.compress(data, mtime=0),
    "deflate": zlib.compress,
    "br": brotli.compress,
    "zstd": lambda data: zstandard.ZstdCompressor().compress(data),
}


def _encoded(scene: Scene) -> Reply:
    """``/encoded/NAME/...``: compressed as it says, whatever the client accepts."""
    name = scene.rest.partition("/")[0]
    body = article(scene.seed, LONG).encode()
    encode = ENCODERS.get(name)
    return answer(encode(body), headers={"Content-Encoding": name}) if encode else answer(body)


def _negotiated(scene: Scene) -> Reply:
    """Compressed by what the client accepts, as sites do."""
    accepts = scene.request.header("accept-encoding")
    name = next((name for name in ("br", "zstd", "gzip") if name in accepts), "")
    body = article(scene.seed, LONG).encode()
    if not name:
        return answer(body)
    return answer(ENCODERS[name](body), headers={"Content-Encoding": name})


def _cut(scene: Scene) -> Reply:
    """Half of a gzip stream with a Content-Length that matches the half."""
    whole = gzip.compress(article(scene.seed, LONG).encode(), mtime=0)
    return answer(whole[: len(whole) // 2], headers={"Content-Encoding": "gzip"})


def _fake(scene: Scene) -> Reply:
    """Says gzip and is none, to everybody who accepts gzip."""
    accepts = "gzip" in scene.request.header("accept-encoding")
    return answer(article(scene.seed), headers={"Content-Encoding": "gzip"} if accepts else ())


def _always_fake(scene: Scene) -> Reply:
    return answer(article(scene.seed), headers={"Content-Encoding": "gzip"})


def _head_only(scene: Scene) -> Reply:
    return answer(b"", headers={"Content-Encoding": "gzip"})


def _unknown(scene: Scene) -> Reply:
    return answer(article(scene.seed), headers={"Content-Encoding": "snappy"})


def _hidden_block(scene: Scene) -> Reply:
    """``/hiddenblock/NAME``: a challenge page behind a compression."""
    name = scene.rest.partition("/")[0]
    row = BLOCK_PAGES["cloudflare-body"]
    encode = ENCODERS.get(name, ENCODERS["gzip"])
    headers = [*row.headers, ("Content-Encoding", name if name in ENCODERS else "gzip")]
    return answer(encode(row.body.encode()), row.status, headers=headers)


def _scripts(scene: Scene) -> Reply:
    code = "var settings = {" + ",".join(f"k{n}: 'value {n}'" for n in range(600)) + "};"
    return answer(page("Shop", f"<script>{code}</script>"))


BODIES = (
    Scenario("empty", "200 without a body", lambda _: answer("")),
    Scenario("blank", "200 with white space only", lambda _: answer(" \r\n\t\n  ")),
    Scenario("shell", "200 with <html></html>", lambda _: answer("<html></html>")),
    Scenario("short", "200 with one sentence", lambda s: answer(page("Hi", "<p>Come back.</p>"))),
    Scenario("scripts", "200 with 10 KB of script and no text", _scripts),
    Scenario("nocontent", "204", lambda _: answer("", 204)),
    Scenario(
        "encoded", "compressed: /encoded/gzip, br, zstd, deflate", _encoded, "/encoded/gzip/1"
    ),
    Scenario("negotiated", "compressed by Accept-Encoding", _negotiated),
    Scenario("cutgzip", "half of a gzip stream, with a matching length", _cut),
    Scenario("fakegzip", "says gzip, is plain text; fine for who accepts no gzip", _fake),
    Scenario("alwaysfakegzip", "says gzip, is plain text, to everybody", _always_fake),
    Scenario("nogzip", "says gzip and sends nothing", _head_only),
    Scenario("oddencoding", "says an encoding that nobody knows", _unknown),
    Scenario("hiddenblock", "a challenge page, compressed", _hidden_block, "/hiddenblock/br"),
)
