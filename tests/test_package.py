"""What is published: a wheel and an sdist, installed into an environment of somebody else's."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

import retryscrape
from retryscrape import entries
from retryscrape.hostile.process import WebHandle
from tests.checkout import ROOT, bare_environment, checkout
from tests.hostile_fixture import hostile_session, web
from tests.scrapyd_fixture import clean_environment
from tests.test_addon import SHOP

__all__ = ["checkout", "hostile_session", "web"]

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
COMMANDS = {path.stem for path in (ROOT / "retryscrape" / "commands").glob("[a-z]*.py")}


@pytest.fixture(scope="module")
def built(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, and the wheel that was made of it."""
    folder = tmp_path_factory.mktemp("dist")
    done = subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder)],
        cwd=checkout,
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def names_of(folder: Path) -> tuple[set[str], set[str]]:
    """What the wheel holds, and what the sdist holds below its own folder."""
    [wheel], [source] = folder.glob("*.whl"), folder.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    return set(zipfile.ZipFile(wheel).namelist()), held


def test_the_wheel_holds_the_whole_package_and_nothing_else(built: Path, checkout: Path) -> None:
    wheel, source = names_of(built)
    package = {
        path.relative_to(checkout).as_posix()
        for path in (checkout / "retryscrape").rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    assert package <= wheel
    assert {"retryscrape/py.typed", "retryscrape/urls/sample.txt"} <= wheel
    assert {name.split("/")[0].split("-")[0] for name in wheel} == {"retryscrape"}
    wanted = {"docs/scrapyd.md", "scrapy.cfg", "tests/test_package.py", "constraints.txt"}
    assert package | wanted <= source


def test_a_fresh_environment_crawls_with_it_and_has_the_commands(
    built: Path, web: WebHandle, tmp_path: Path
) -> None:
    python = bare_environment(tmp_path / "venv")
    [wheel] = built.glob("*.whl")
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
    subprocess.run([*pip, "--no-deps", "--no-index", str(wheel)], check=True)

    def scrapy(*words: str) -> str:
        done = subprocess.run(
            [python, "-W", "ignore", "-m", "scrapy", *words],
            cwd=SHOP,
            env=clean_environment() | {"PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    out = ["-s", f"RETRYSCRAPE_OUT={tmp_path / 'out'}"]
    urls = f"urls={web.url('/ok/1')} {web.url('/gone/1')}"
    scrapy("crawl", "listed", *out, "-a", urls, "-a", "batch=b")
    assert "gone" in scrapy("report", "b", *out)
    listing = scrapy("--help")
    assert {name for name in COMMANDS if f"\n  {name} " in listing} >= COMMANDS - {"crawl"}
    where = [python, "-c", "import retryscrape; print(retryscrape.__file__)"]
    found = subprocess.check_output(where, cwd=tmp_path, env=clean_environment(), text=True)
    assert found.startswith(str(tmp_path / "venv"))


def test_every_command_but_crawl_is_an_entry_point() -> None:
    points = PROJECT["project"]["entry-points"]["scrapy.commands"]
    assert set(points) == COMMANDS - {"crawl"}
    for name, target in points.items():
        module, _, attribute = target.partition(":")
        assert module == "retryscrape.entries"
        assert getattr(entries, attribute).module == name


def test_an_entry_point_loads_its_command_when_it_is_used() -> None:
    code = (
        "import sys; from retryscrape.entries import Report; command = Report(); "
        "assert 'sqlalchemy' not in sys.modules; assert command.short_desc(); "
        "command.exitcode = 3; assert command.exitcode == 3; assert 'sqlalchemy' in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_only_documented_names_can_be_had_from_the_package() -> None:
    page = (ROOT / "docs" / "reference" / "api.md").read_text()
    documented = {line[4:-1] for line in page.splitlines() if line.startswith("## `")}
    assert documented == set(retryscrape.__all__)
    for name in retryscrape.__all__:
        assert getattr(retryscrape, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'Run'"):
        retryscrape.Run  # noqa: B018
    assert set(dir(retryscrape)) == set(retryscrape.__all__)


def test_the_package_loads_no_scrapy_by_itself() -> None:
    code = "import sys, retryscrape.policy.decide; assert 'scrapy' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
