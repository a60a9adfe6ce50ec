"""A clean checkout, and Pythons that have the dependencies but not this project.

``checkout``: what git holds (and would hold), in a folder of its own. ``bare_python``: what a
Scrapyd host, or somebody else's environment, looks like before retryscrape is installed.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

__all__ = ["bare_python", "checkout"]

ROOT = Path(__file__).parent.parent

#: What .gitignore says, for where there is no git.
IGNORED = (".*", "out", "__pycache__", "*.egg-info", "build", "dist")


@pytest.fixture(scope="session")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh copy of the working tree, without anything that git ignores."""
    folder = tmp_path_factory.mktemp("checkout") / "retryscrape"
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if listed.returncode != 0:  # an unpacked sdist, or a copy without its history
        shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(*IGNORED))
        return folder
    for name in filter(None, listed.stdout.decode().split("\0")):
        source = ROOT / name
        if source.is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, folder / name)
    return folder


@pytest.fixture(scope="session")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a virtual environment with our dependencies and without ``retryscrape``.

    Dependencies are links to this environment's, so that no registry is asked.
    """
    return bare_environment(tmp_path_factory.mktemp("bare") / "venv")


def bare_environment(folder: Path) -> Path:
    """Make the environment; returns its Python."""
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    asked = [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    packages = Path(subprocess.check_output(asked, text=True).strip())
    for name in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}:
        for entry in Path(name).iterdir():
            if "retryscrape" not in entry.name and not (packages / entry.name).exists():
                (packages / entry.name).symlink_to(entry)
    return python


def script(name: str) -> str:
    """A console script of this environment."""
    return str(Path(sys.executable).parent / name)
