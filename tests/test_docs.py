"""The reference documents everything that users see, and nothing else."""

from __future__ import annotations

import re
import sys
from argparse import ArgumentParser
from importlib import import_module
from pathlib import Path

import pytest
from scrapy.settings import Settings
from scrapy.utils.misc import walk_modules_iter
from scrapy.utils.test import get_crawler

from retryscrape.config import PREFIX, SETTINGS
from retryscrape.crawl import arguments, keys
from retryscrape.crawl.runtime import Run
from retryscrape.crawl.status import RunStatus
from retryscrape.policy.outcomes import ERROR_CLASS, Outcome
from retryscrape.spiders.pages import PagesSpider

ROOT = Path(__file__).parent.parent
REFERENCE = ROOT / "docs" / "reference"
sys.path.insert(0, str(ROOT / "scripts"))

import reference_docs  # noqa: E402 - it lies beside the package


def first_cells(name: str) -> set[str]:
    """What stands in the first column of a reference page's tables."""
    text = (REFERENCE / name).read_text(encoding="utf-8")
    return set(re.findall(r"^\| `([^`]+)`", text, re.MULTILINE))


def test_the_settings_page_is_what_the_table_of_settings_says() -> None:
    written = (REFERENCE / "settings.md").read_text(encoding="utf-8")
    assert written == reference_docs.text(), "run: python scripts/reference_docs.py"
    assert first_cells("settings.md") == {PREFIX + setting.name for setting in SETTINGS}


def test_every_argument_is_documented() -> None:
    assert first_cells("arguments.md") == set(arguments.NAMES)


def test_every_outcome_is_documented_with_its_class() -> None:
    text = (REFERENCE / "outcomes.md").read_text(encoding="utf-8")
    rows = {row[1]: row[0] for row in re.findall(r"^(\| `(\w+)` .*)$", text, re.MULTILINE)}
    assert set(rows) == {str(outcome) for outcome in Outcome}
    for outcome, error_class in ERROR_CLASS.items():
        if error_class is not None and outcome is not Outcome.OVER_BUDGET:
            assert f"| {error_class}" in rows[outcome]


def test_every_field_and_reason_of_run_json_is_documented() -> None:
    text = (ROOT / "docs" / "scrapyd.md").read_text(encoding="utf-8").split("## `run.json`")[1]
    fields = {cell for row in re.findall(r"^\| (`[^|]*`) \|", text, re.M) for cell in _codes(row)}
    document = RunStatus(Run.of(get_crawler(PagesSpider))).document("b", None)
    assert set(document) <= fields
    [of_the_run] = re.findall(r"^\| `run` \|(.*)$", text, re.M)
    assert set(document["run"]) <= set(_codes(of_the_run))
    [of_the_paths] = re.findall(r"^\| `paths` \|(.*)$", text, re.M)
    assert set(document["paths"]) <= set(_codes(of_the_paths))
    sources = (path.read_text(encoding="utf-8") for path in (ROOT / "retryscrape").rglob("*.py"))
    given = {
        reason
        for source in sources
        for reason in re.findall(r"""\bstop(?:_from_thread)?\(\s*"(\w+)\"""", source)
    }
    assert len(given) >= 5
    assert given <= fields


def _codes(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def test_every_command_is_documented() -> None:
    names = {
        module.__name__.rsplit(".", 1)[1] for module in walk_modules_iter("retryscrape.commands")
    }
    names.discard("commands")
    shown = (re.match(r"scrapy (\w+)", cell) for cell in first_cells("commands.md"))
    assert {found[1] for found in shown if found} == names


def own_options(name: str) -> set[str]:
    """What a command's parser takes beyond the class of Scrapy's that it extends."""
    made = import_module(f"retryscrape.commands.{name}").Command()
    theirs = next(base for base in type(made).__mro__ if base.__module__.startswith("scrapy."))
    made.settings = Settings()
    parsers = ArgumentParser(), ArgumentParser()
    made.add_options(parsers[0])
    theirs.add_options(made, parsers[1])
    mine, known = ({word for a in p._actions for word in a.option_strings} for p in parsers)
    return mine - known


def test_every_option_of_every_command_is_documented() -> None:
    text = (REFERENCE / "commands.md").read_text(encoding="utf-8")
    parts = dict(
        re.findall(r"^### scrapy (\w+)\n(.*?)(?=^### |\Z)", text, re.MULTILINE | re.DOTALL)
    )
    for module in walk_modules_iter("retryscrape.commands"):
        name = module.__name__.rsplit(".", 1)[1]
        if name != "commands":
            shown = set(re.findall(r"^\| `(-[\w-]+)", parts.get(name, ""), re.MULTILINE))
            assert shown == own_options(name), name


def test_every_meta_key_is_documented() -> None:
    values = [value for name, value in vars(keys).items() if name.isupper()]
    ours = {key for key in values if isinstance(key, str) and key.startswith("retryscrape")}
    assert ours <= first_cells("meta.md")


@pytest.mark.parametrize("page", ["README.md", *(f"docs/{p}" for p in ("tutorial.md",))])
def test_links_between_the_documents_lead_somewhere(page: str) -> None:
    path = ROOT / page
    for target in re.findall(r"\]\(([^)#]+)\)", path.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (path.parent / target).exists(), f"{page} links to {target}"
