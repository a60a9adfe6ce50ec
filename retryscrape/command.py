"""What the commands that read a ledger share: opening it, and clear errors.

Not in ``commands``: Scrapy takes every command class that it finds there for a command.
"""

from __future__ import annotations

import argparse
import gc
import sys
from pathlib import Path
from typing import ClassVar

from scrapy.commands import ScrapyCommand
from scrapy.exceptions import UsageError

from retryscrape.config import Config, ConfigError
from retryscrape.ledger.dialect import LedgerError
from retryscrape.ledger.store import Ledger


class LedgerCommand(ScrapyCommand):
    """A command over the ledger of this project; ``work`` returns the exit code."""

    requires_project = True
    requires_crawler_process = False
    default_settings: ClassVar[dict[str, object]] = {"LOG_ENABLED": False}

    #: whether a ledger that is not there yet is made
    create: ClassVar[bool] = False

    config: Config
    ledger: Ledger

    @property
    def out(self) -> Path:
        return Path(self.config.out)

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        assert self.settings is not None
        gc.freeze()  # what the imports made: a tenth of a long command went into looking at it
        gc.set_threshold(20_000, 20, 20)
        try:
            self.config = Config.from_settings(self.settings)
            self.ledger = self._open(opts)
        except (ConfigError, LedgerError) as error:
            self.exitcode = self.complain(str(error))
            return
        try:
            self.exitcode = self.work(args, opts)
        except LedgerError as error:
            self.exitcode = self.complain(str(error))
        except BrokenPipeError:
            self.exitcode = 1
        except OSError as error:
            self.exitcode = self.complain(unusable(error, self.out))
        except KeyboardInterrupt:
            self.complain("interrupted; the same command may be typed again")
            self.exitcode = 130
        finally:
            self.ledger.close()

    def _open(self, opts: argparse.Namespace) -> Ledger:
        url = self.config.ledger or str(self.out / "ledger.db")
        if self.only_reads(opts):
            return Ledger.open_to_read(url)
        return Ledger.open(url, create=self.create)

    def only_reads(self, opts: argparse.Namespace) -> bool:
        """Whether a ledger that cannot be written will do."""
        return False

    def work(self, args: list[str], opts: argparse.Namespace) -> int:
        """Do it, print, and return the exit code."""
        raise NotImplementedError

    def batch(self, args: list[str]) -> str:
        """The one argument, a batch that the ledger knows."""
        if len(args) != 1:
            raise UsageError(f"give one batch; the ledger has: {self._names()}", print_help=False)
        return self.known(args[0])

    def known(self, batch: str) -> str:
        """``batch``, if the ledger has it. Raises LedgerError."""
        if batch not in self._batches():
            raise LedgerError(f"There is no batch {batch!r}; the ledger has: {self._names()}.")
        return batch

    def _batches(self) -> list[str]:
        return [row["batch_id"] for row in self.ledger.batches()]

    def _names(self) -> str:
        names = self._batches()
        shown = ", ".join(names[-10:])
        return (f"..., {shown}" if len(names) > 10 else shown) or "none"

    @staticmethod
    def complain(sentence: str) -> int:
        """One sentence on standard error; returns the exit code of a usage error."""
        print(f"scrapy: {sentence}", file=sys.stderr)
        return 2


def unusable(error: OSError, out: Path) -> str:
    """One sentence for a file or folder that cannot be used; ``out`` if the error names none."""
    name = error.filename2 or error.filename or out  # the second is what the first was to become
    return f"{name} cannot be used: {error.strerror or error}."
