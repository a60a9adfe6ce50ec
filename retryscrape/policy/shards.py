"""Which process of several a host belongs to (``shard=K/N``). Pure.

By host, so that pauses, politeness and what is learned of a host stay in one process.
"""

from __future__ import annotations

import zlib


def in_shard(host: str, shard: tuple[int, int] | None) -> bool:
    """Whether ``host`` belongs to shard (K, N), K from 1; everything does if there is none.

    Rejected lines have no host (``""``): the first shard has them.
    """
    return shard is None or zlib.crc32(host.encode()) % shard[1] == shard[0] - 1
