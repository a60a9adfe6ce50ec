"""Disks that are full, read-only, broken or busy: a clear line, an exit code, a whole ledger."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from ledger_makers import fill, success

from retryscrape.ledger.dialect import LedgerError
from retryscrape.ledger.pages import page_path
from retryscrape.ledger.store import Ledger
from retryscrape.policy.outcomes import Outcome
from tests.commandline import *  # noqa: F403
from tests.commandline import Done, Project
from tests.hostile_fixture import *  # noqa: F403


class Disk:
    """A disk of 600 kB: a tmpfs where that is allowed, else a limit on every file's size."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.prefix: list[str] = []
        folder.mkdir()
        if not self._mount("size=600k"):
            self.prefix = ["prlimit", "--fsize=500000"]

    def _mount(self, options: str) -> bool:
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(self.folder)]
        done = subprocess.run(command, capture_output=True, check=False)
        return done.returncode == 0

    def change(self, options: str) -> None:
        """Make it larger, or read-only."""
        if not self.prefix:
            subprocess.run(["mount", "-o", f"remount,{options}", str(self.folder)], check=True)
        elif options == "ro":
            os.chmod(self.folder, 0o555)
        else:
            self.prefix = []

    def close(self) -> None:
        if not self.prefix:
            subprocess.run(["umount", str(self.folder)], capture_output=True, check=False)
        os.chmod(self.folder, 0o755)


class OnDisk(Project):
    """A project whose OUT lies on a disk of its own."""

    def __init__(self, folder: Path, disk: Disk) -> None:
        super().__init__(folder)
        self.disk, self.out = disk, disk.folder / "out"

    def words(self, *words: str, settings: dict[str, str] | None = None) -> list[str]:
        return [*self.disk.prefix, *super().words(*words, settings=settings)]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    disk = Disk(tmp_path / "disk")
    yield disk
    disk.close()


@pytest.fixture
def small(tmp_path: Path, disk: Disk) -> Iterator[OnDisk]:
    project = OnDisk(tmp_path, disk)
    yield project
    project.close()


def is_clear(done: Done) -> None:
    """No traceback for what a disk may do."""
    assert "Traceback" not in done.err, done.err
    assert "Traceback" not in done.out


def test_a_full_disk_ends_the_run_with_a_line_and_the_same_command_goes_on(
    web, small: OnDisk
) -> None:
    urls = [web.url(f"/ok/{n}") for n in range(200)]
    manifest = small.manifest("m.txt", urls)

    done = small.crawl(manifest)

    assert done.code == 1
    is_clear(done)
    (said,) = [line for line in done.err.splitlines() if "The run stops: " in line]
    assert "full" in said or "No space left on device" in said
    assert small.sql("PRAGMA integrity_check") == [("ok",)]
    had = {url for (url,) in small.sql("SELECT url FROM entries WHERE status = 'success'")}
    assert 0 < len(had) < 200

    small.disk.change("size=50m")
    web.reset()
    again = small.crawl(manifest)
    assert again.code == 0, again.err
    assert small.sql("SELECT status, count(*) FROM entries GROUP BY 1") == [("success", 200)]
    asked = {web.url(request["path"]) for request in web.requests()}
    assert asked == set(urls) - had


def test_a_read_only_folder_is_named_before_any_request(web, small: OnDisk) -> None:
    small.disk.change("ro")
    done = small.crawl(small.manifest("m.txt", [web.url("/ok/1")]))
    if small.disk.prefix and os.geteuid() == 0:
        pytest.fail("root could not mount: this machine can show nothing here")
    assert done.code == 2
    is_clear(done)
    assert str(small.out) in done.err
    assert web.requests() == []


def test_a_ledger_on_a_disk_that_has_become_read_only(web, small: OnDisk) -> None:
    manifest = small.manifest("m.txt", [web.url("/ok/1")])
    small.crawl(manifest)
    small.disk.change("ro")
    done = small.crawl(manifest, "-a", "batch=second")
    assert done.code == 2
    is_clear(done)
    assert "ledger" in done.err
    assert small.scrapy("report", "m").code == 0  # what only reads can do so


def _filled(disk: Disk) -> Path:
    path = disk.folder / "ledger.db"
    with Ledger.open(str(path)) as ledger:
        fill(ledger, ["http://h.test/1", "http://h.test/2"])
    return path


def test_a_read_only_ledger_can_be_read(disk: Disk) -> None:
    path = _filled(disk)
    disk.change("ro")
    with pytest.raises(LedgerError):
        Ledger.open(str(path))
    with Ledger.open_to_read(str(path)) as ledger:
        assert ledger.counts("b").total == 2
        with pytest.raises(LedgerError, match="is read-only"):
            ledger.write([success()])


def test_a_read_only_ledger_is_read_with_its_journal(disk: Disk, tmp_path: Path) -> None:
    """As a killed process left it."""
    with Ledger.open(str(_filled(disk))) as ledger:
        ledger.write([success()])
        shutil.copytree(disk.folder, tmp_path / "copy")
    shutil.copytree(tmp_path / "copy", disk.folder, dirs_exist_ok=True)
    disk.change("ro")
    with Ledger.open_to_read(str(disk.folder / "ledger.db")) as ledger:
        assert ledger.counts("b").by_outcome == {Outcome.OK: 1, None: 1}


def test_an_older_read_only_ledger_is_refused(disk: Disk) -> None:
    path = _filled(disk)
    with Ledger.open(str(path)) as ledger, ledger.writing() as connection:
        connection.exec_driver_sql("DELETE FROM schema_version WHERE version = 5")
    disk.change("ro")
    with pytest.raises(LedgerError, match=r"older retryscrape \(schema 4\).*read-only"):
        Ledger.open_to_read(str(path))


def test_a_page_that_cannot_be_written_costs_only_its_own_row(web, project: Project) -> None:
    # of as many folders: the port is another one each time, and with it are the pages' names
    folders = {page_path("m", url, "")[:11]: url for n in range(9) if (url := web.url(f"/ok/{n}"))}
    urls = list(folders.values())[:3]
    manifest = project.manifest("m.txt", urls)
    blocked = project.out / page_path("m", urls[1], "text/html")
    blocked.parent.parent.mkdir(parents=True)
    blocked.parent.write_text("a file in the place of the folder")

    done = project.crawl(manifest)

    assert done.code == 1
    is_clear(done)
    (row,) = project.feed("m")
    assert (row["url"], row["outcome"], row["error_class"]) == (urls[1], "no_result", "retryable")
    assert row["reason"].startswith("the page could not be written: ")
    blocked.parent.unlink()
    assert project.crawl(manifest).code == 0


def test_a_ledger_that_another_program_has_locked_for_a_moment_is_waited_for(
    web, project: Project
) -> None:
    manifest = project.manifest("m.txt", [web.url(f"/ok/{n}?ms=200") for n in range(4)])
    project.crawl(project.manifest("first.txt", []))
    lock = sqlite3.connect(project.out / "ledger.db", check_same_thread=False, isolation_level=None)
    lock.execute("BEGIN EXCLUSIVE")
    timer = threading.Timer(4.0, lock.rollback)
    timer.start()
    try:
        done = project.crawl(manifest)
    finally:
        timer.join()
        lock.close()
    assert done.code == 0, done.err


@pytest.mark.parametrize(
    "content", [b"<html>this is no database</html>" * 50, b"SQLite format 3\0 and no more" * 300]
)
def test_a_damaged_ledger_is_refused_and_left_as_it_is(
    web, project: Project, content: bytes
) -> None:
    project.out.mkdir()
    ledger = project.out / "ledger.db"
    ledger.write_bytes(content)
    done = project.crawl(project.manifest("m.txt", [web.url("/ok/1")]))
    assert done.code == 2
    is_clear(done)
    assert str(ledger) in done.err
    assert ledger.read_bytes() == content
    assert web.requests() == []


def test_a_ledger_with_a_hole_in_it_ends_in_a_sentence(web, project: Project) -> None:
    manifest = project.manifest("m.txt", [web.url(f"/ok/{n}") for n in range(30)])
    assert project.crawl(manifest).code == 0
    ledger = project.out / "ledger.db"
    size = ledger.stat().st_size
    with ledger.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (size - 4096))
    for command in (
        ["crawl", "pages", "-a", f"manifest={manifest}"],
        ["reconcile", "m"],
        ["redrive", "m"],
    ):
        done = project.scrapy(*command)
        assert done.code in (1, 2)
        is_clear(done)
        assert "damaged" in done.err, done.err


def test_an_older_ledger_is_brought_up_to_date_by_any_command(web, project: Project) -> None:
    manifest = project.manifest("m.txt", [web.url("/ok/1")])
    assert project.crawl(manifest).code == 0
    _make_old(project)
    done = project.scrapy("reconcile", "m")
    assert done.code == 0, done.err
    assert project.sql("SELECT max(version) FROM schema_version")[0][0] >= 2
    assert project.sql("SELECT count(*) FROM redrives") == [(0,)]
    assert project.crawl(manifest).code == 0


def test_a_newer_ledger_is_refused_and_not_touched(web, project: Project) -> None:
    manifest = project.manifest("m.txt", [web.url("/ok/1")])
    assert project.crawl(manifest).code == 0
    project.sql("INSERT INTO schema_version VALUES (999, 'from the future')")
    before = shutil.copy(project.out / "ledger.db", project.folder / "copy.db")
    done = project.crawl(manifest)
    assert done.code == 2
    is_clear(done)
    assert "newer retryscrape" in done.err
    assert (project.out / "ledger.db").read_bytes() == Path(before).read_bytes()


def _make_old(project: Project) -> None:
    """The ledger as version 1 made it."""
    project.sql("DROP TABLE redrives")
    for column in ("spider", "arguments", "settings"):
        project.sql(f"ALTER TABLE jobs DROP COLUMN {column}")
    project.sql("DELETE FROM schema_version WHERE version > 1")
