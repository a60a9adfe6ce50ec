"""``python -m retryscrape.hostile``: serve until SIGTERM, Ctrl-C, or the end of a piped stdin.

Prints one line of JSON with all addresses when it is ready. No logic of the web lives here.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import stat
import sys
from pathlib import Path

from retryscrape.hostile.web import HostileWeb


async def serve(log_file: Path | None) -> None:
    """Run a web until told to stop."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    if stat.S_ISFIFO(os.fstat(0).st_mode):
        # Whoever started us holds the other end: when it dies, however it dies, we end too.
        loop.add_reader(0, lambda: None if os.read(0, 4096) else stop.set())
    async with HostileWeb(log_file=log_file) as web:
        print(json.dumps({**web.describe(), "pid": os.getpid()}), flush=True)
        await stop.wait()


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m retryscrape.hostile", description=__doc__)
    parser.add_argument("--log", type=Path, help="write every request to FILE, as JSON lines")
    given = parser.parse_args()
    try:
        asyncio.run(serve(given.log))
    except OSError as error:
        sys.exit(f"the hostile web cannot start: {error}")


if __name__ == "__main__":
    main()
