"""Tools that crawl through bad proxies, side by side in the same hostile worlds, on real sockets.

worlds: what is broken; tools: how each is run; rivals: the others' crawls; count: what the
proxies saw. Run: ``make bench-exits`` (``python -m benchmarks.exits --quick`` for a minute).
"""
