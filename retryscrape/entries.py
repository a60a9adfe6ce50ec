"""What the ``scrapy.commands`` entry points name: our commands, for projects of others.

Scrapy loads every entry point at every command, ``scrapy version`` included: a
command's module (and SQLAlchemy with it, half a second) is loaded when it is used.
``crawl`` is not here: it would replace Scrapy's in every project of the environment.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, ClassVar


class _Late:
    """Stands for a command of ``retryscrape.commands`` until somebody asks it something."""

    module: ClassVar[str]

    def _command(self) -> Any:
        if "command" not in self.__dict__:
            module = import_module(f"retryscrape.commands.{self.module}")
            self.__dict__["command"] = module.Command()
        return self.__dict__["command"]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._command(), name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._command(), name, value)


class Classify(_Late):
    module = "classify"


class Demo(_Late):
    module = "demo"


class Explain(_Late):
    module = "explain"


class Failures(_Late):
    module = "failures"


class Load(_Late):
    module = "load"


class Proxies(_Late):
    module = "proxies"


class Reconcile(_Late):
    module = "reconcile"


class Redrive(_Late):
    module = "redrive"


class Replay(_Late):
    module = "replay"


class Report(_Late):
    module = "report"
