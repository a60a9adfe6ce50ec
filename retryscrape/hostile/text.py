"""Text and pages out of a seed: the same URL always gives the same page, no two URLs share one.

Pure. A page costs microseconds, because benchmarks serve it thousands of times a second.
"""

from __future__ import annotations

import random
from html import escape
from zlib import crc32

_WORDS = (
    "harbour kettle morning timber window gentle copper garden market silver bridge letter "
    "orange winter paper river stone candle meadow cotton pepper basket lantern violet "
    "ferry bakery walnut saddle mirror pocket ribbon thunder velvet anchor blanket "
    "cellar dragon engine feather glacier hammer island jacket keeper ladder marble"
)
_PARAGRAPHS = 251
_NAMES = ("Kettle", "Lantern", "Basket", "Mirror", "Blanket", "Saddle", "Ladder", "Candle")


def _paragraph(rng: random.Random) -> str:
    sentences = []
    for _ in range(5):
        words = rng.choices(_WORDS.split(), k=rng.randint(9, 14))
        sentences.append(" ".join(words).capitalize() + ".")
    return "<p>" + " ".join(sentences) + "</p>\n"


def _pool() -> list[str]:
    rng = random.Random(20)
    return [_paragraph(rng) for _ in range(_PARAGRAPHS)]


_POOL = _pool()


def prose(seed: str, size: int = 2000) -> str:
    """About ``size`` characters of paragraphs, chosen by ``seed``."""
    state = crc32(seed.encode())
    start, step = state % _PARAGRAPHS, 1 + (state >> 8) % (_PARAGRAPHS - 1)
    count = max(3, round(size / 435))
    return "".join([_POOL[(start + n * step) % _PARAGRAPHS] for n in range(count)])


def page(title: str, body: str, head: str = "") -> str:
    """A whole HTML document; ``title`` is escaped, the rest is taken as it is."""
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}'
        f"</title>{head}</head>\n<body>\n{body}\n</body></html>\n"
    )


def article(seed: str, size: int = 3000, head: str = "") -> str:
    """An ordinary page about ``seed``, of about ``size`` bytes."""
    name = escape(seed)
    return page(
        f"Article {seed}",
        f'<h1 class="title">Article {name}</h1>\n<main id="content">{prose(seed, size - 300)}'
        f'</main>\n<footer><a href="/">Home</a></footer>',
        head,
    )


def product(seed: str, *, priced: bool = True) -> str:
    """A shop's page with a name, and with or without a price."""
    state = crc32(seed.encode())
    name = f"{_NAMES[state % len(_NAMES)]} {state % 1000}"
    price = f"{5 + state % 195}.{state % 100:02}"
    tag = f'<span class="price" itemprop="price" content="{price}">EUR {price}</span>'
    return page(
        f"{name} - Shop",
        f'<div class="product" itemscope itemtype="https://schema.org/Product">'
        f'<h1 class="name" itemprop="name">{name}</h1>'
        f"{tag if priced else '<span>Not available</span>'}</div>\n{prose(seed, 1500)}",
    )
