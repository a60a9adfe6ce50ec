"""Opening a ledger: foreign, damaged, newer, locked, read-only; and what a power cut keeps."""

from __future__ import annotations

import errno
import multiprocessing
import os
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from ledger_makers import NOW, failure, fill, success
from sqlalchemy import inspect, select

from retryscrape.ledger import dialect as dialect_module
from retryscrape.ledger import migrations
from retryscrape.ledger.dialect import Dialect, LedgerError
from retryscrape.ledger.migrations import MIGRATIONS
from retryscrape.ledger.schema import batches, schema_version
from retryscrape.ledger.store import Ledger
from retryscrape.policy.outcomes import Outcome, Status

pytest_plugins = ["ledger_fixtures"]


def sentence(target: object, **values) -> str:
    with pytest.raises(LedgerError) as caught:
        Ledger.open(str(target), **values)
    return str(caught.value)


def test_a_path_or_a_url_names_the_same_ledger(tmp_path) -> None:
    path = tmp_path / "deep" / "ledger.db"
    with Ledger.open(str(path)) as ledger:
        fill(ledger, ["http://h.test/1"])
    with Ledger.open(f"sqlite:///{path}", create=False) as ledger:
        assert [batch["batch_id"] for batch in ledger.batches()] == ["b"]


def test_a_missing_ledger_is_not_made_by_those_who_only_read(tmp_path) -> None:
    path = tmp_path / "ledger.db"
    assert sentence(path, create=False) == f"no ledger at {path}: crawl something first"
    assert not path.exists()


def test_a_foreign_file(tmp_path) -> None:
    path = tmp_path / "ledger.db"
    path.write_bytes(b"PNG and other things " * 100)
    assert sentence(path) == f"ledger {path} is not a ledger: the file is no SQLite database"
    assert path.read_bytes().startswith(b"PNG")


def test_a_foreign_database(tmp_path) -> None:
    path = tmp_path / "ledger.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE customers (name)")
    assert "is not a ledger: the database holds other tables" in sentence(path)
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("customers",)]


def test_a_damaged_ledger(tmp_path) -> None:
    path = tmp_path / "ledger.db"
    with Ledger.open(str(path)) as ledger:
        fill(ledger, [f"http://h.test/{n}" for n in range(500)])
    body = bytearray(path.read_bytes())
    body[4096:] = b"\xff" * (len(body) - 4096)
    path.write_bytes(bytes(body))
    with pytest.raises(LedgerError, match="is damaged"), Ledger.open(str(path)) as ledger:
        ledger.counts("b")


def test_a_ledger_that_lost_a_table(tmp_path) -> None:
    path = tmp_path / "ledger.db"
    Ledger.open(str(path)).close()
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TABLE hosts")
    assert sentence(path) == f"ledger {path} is damaged: table hosts is missing"


def test_a_newer_ledger_is_refused(ledger, ledger_url) -> None:
    with ledger.writing() as connection:
        newer = schema_version.insert().values(version=len(MIGRATIONS) + 1, name="later")
        connection.execute(newer)
    assert "was written by a newer retryscrape" in sentence(ledger_url)


def test_an_older_ledger_is_brought_up(ledger, ledger_url, monkeypatch) -> None:
    fill(ledger, ["http://h.test/1"])

    def add_note(connection) -> None:
        connection.exec_driver_sql("ALTER TABLE batches ADD COLUMN note TEXT")

    monkeypatch.setattr(migrations, "MIGRATIONS", (*MIGRATIONS, ("add a note", add_note)))
    for _ in range(2):  # the second time there is nothing to do
        with Ledger.open(ledger_url) as opened, opened.reading() as connection:
            assert connection.exec_driver_sql("SELECT note FROM batches").all() == [(None,)]
            names = connection.execute(select(schema_version.c.name)).scalars().all()
            assert names == [*(name for name, _ in MIGRATIONS), "add a note"]


def test_a_ledger_that_counts_by_an_index_of_its_own_is_brought_up(ledger, ledger_url) -> None:
    """As version 4 left it: another index of open rows, and one of all rows' words."""
    fill(ledger, ["http://h.test/1", "http://h.test/2", "http://h.test/3"])
    ledger.write([success(), failure("http://h.test/2")])
    counted = ledger.counts("b")
    with ledger.writing() as connection:
        for statement in (
            "DROP INDEX entries_unresolved",
            "CREATE INDEX entries_open ON entries (batch_id, line, url) WHERE status <> 'success'",
            "CREATE INDEX entries_counts ON entries (batch_id, status, outcome, error_class)",
            "DELETE FROM schema_version WHERE version > 4",
        ):
            connection.exec_driver_sql(statement)
    for _ in range(2):
        with Ledger.open(ledger_url) as opened, opened.reading() as connection:
            names = {index["name"] for index in inspect(connection).get_indexes("entries")}
            assert names == {"entries_unresolved", "entries_parked", "entries_same_as"}
            assert opened.counts("b") == counted
            assert counted.by_status == dict.fromkeys(Status, 1)


def test_a_migration_that_fails_leaves_the_ledger_as_it_was(
    ledger, ledger_url, monkeypatch
) -> None:
    def half(connection) -> None:
        connection.exec_driver_sql("ALTER TABLE batches ADD COLUMN note TEXT")
        connection.exec_driver_sql("ALTER TABLE no_such_table ADD COLUMN note TEXT")

    with monkeypatch.context() as patched:
        patched.setattr(migrations, "MIGRATIONS", (*MIGRATIONS, ("half", half)))
        assert "no_such_table" in sentence(ledger_url)
    with Ledger.open(ledger_url) as opened, opened.reading() as connection:
        assert "note" not in connection.execute(select(batches)).keys()  # noqa: SIM118


def _open_new_ledgers(folder: str, together: Any, errors: Any) -> None:
    for number in range(40):
        together.wait(60)
        try:
            Ledger.open(f"{folder}/{number}.db").close()
        except LedgerError as error:
            errors.put(str(error))
    errors.put(None)


def test_many_processes_may_open_a_new_ledger_at_the_same_moment(tmp_path) -> None:
    spawn = multiprocessing.get_context("spawn")
    together, errors = spawn.Barrier(3), spawn.Queue()
    words = (str(tmp_path), together, errors)
    running = [spawn.Process(target=_open_new_ledgers, args=words) for _ in range(3)]
    for process in running:
        process.start()
    assert [errors.get(timeout=100) for _ in running] == [None] * 3
    for process in running:
        process.join(60)


def test_a_folder_in_the_place_of_the_ledger(tmp_path) -> None:
    assert sentence(tmp_path) == f"ledger {tmp_path} is a folder, not a file"


def test_a_file_in_the_place_of_the_folder(tmp_path) -> None:
    (tmp_path / "out").write_text("")
    assert "cannot be made" in sentence(tmp_path / "out" / "ledger.db")


def test_a_locked_ledger_is_named(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(dialect_module, "_PRAGMAS", ("PRAGMA busy_timeout=50",))
    path = tmp_path / "ledger.db"
    with Ledger.open(str(path)) as ledger:
        fill(ledger, ["http://h.test/1"])
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LedgerError, match="is locked by another process") as caught:
            ledger.write([success()])
        assert caught.value.retryable
        assert ledger.counts("b").total == 1  # reading goes on
        other.close()
        ledger.write([success()])
        assert ledger.counts("b").by_outcome == {Outcome.OK: 1}


@pytest.mark.parametrize(
    ("name", "words", "retryable"),
    [
        ("SQLITE_FULL", "the disk is full", True),
        ("SQLITE_READONLY_DBMOVED", "is read-only", False),
        ("SQLITE_IOERR_WRITE", "the disk is full or broken", True),
        ("SQLITE_CORRUPT_INDEX", "is damaged", False),
        ("SQLITE_CANTOPEN", "cannot be opened", True),
    ],
)
def test_sentences_for_what_sqlite_says(name: str, words: str, retryable: bool) -> None:
    error = sqlite3.OperationalError("as SQLite words it")
    error.sqlite_errorcode = getattr(sqlite3, name)
    found = Dialect("out/ledger.db").error(error)
    assert str(found).startswith("ledger out/ledger.db ")
    assert words in str(found)
    assert found.retryable is retryable


def test_a_full_disk(tmp_path) -> None:
    """A quota on the file's size stands for the disk: the ledger still opens afterwards."""
    path = tmp_path / "ledger.db"
    with Ledger.open(str(path)) as ledger:
        fill(ledger, ["http://h.test/1"])
    code = (
        "import resource, sys; sys.path.insert(0, sys.argv[2])\n"
        "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "from ledger_makers import fill\n"
        "from retryscrape.ledger.store import Ledger\n"
        "from retryscrape.ledger.dialect import LedgerError\n"
        "ledger = Ledger.open(sys.argv[1])\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))\n"
        "try:\n"
        "    fill(ledger, [f'http://h.test/{n}' for n in range(9000)])\n"
        "except LedgerError as error:\n"
        "    print(error)\n"
    )
    here = str(Path(__file__).parent)
    done = subprocess.run(
        [sys.executable, "-c", code, str(path), here], capture_output=True, text=True, timeout=60
    )
    assert "the disk is full" in done.stdout, done.stderr
    with Ledger.open(str(path)) as ledger:
        assert ledger.counts("b").total == 1


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("mysql://u:hunter2@db/x", "must start with sqlite:// or postgresql://, not mysql://"),
        ("sqlite://", "cannot live in memory"),
        ("sqlite:///:memory:", "cannot live in memory"),
        ("postgresql://u:hunter2@[::1/x", "cannot be read"),
        ("postgresql://u:hunter2@127.0.0.1:99999999/x", ""),
    ],
)
def test_urls_that_are_no_ledger_show_no_password(url: str, words: str) -> None:
    found = sentence(url)
    assert words in found
    assert "hunter2" not in found


def test_an_unreachable_server_is_a_sentence_without_password() -> None:
    found = sentence(
        "postgresql://user:hunter2@127.0.0.1:1/x?connect_timeout=2&sslpassword=hunter3"
    )
    assert found.startswith("ledger postgresql+psycopg://user:***@127.0.0.1:1/x: ")
    assert "hunter" not in found


def test_threads_share_a_ledger(ledger) -> None:
    urls = [f"http://h.test/{n}" for n in range(40)]
    fill(ledger, urls)
    threads = [
        threading.Thread(target=lambda url=url: ledger.write([success(url)])) for url in urls
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert ledger.counts("b").by_outcome == {Outcome.OK: 40}


def test_two_processes_do_not_lose_each_others_rows(tmp_path) -> None:
    path = str(tmp_path / "ledger.db")
    code = (
        "import sys; sys.path.insert(0, sys.argv[3])\n"
        "from ledger_makers import fill, success\n"
        "from retryscrape.ledger.store import Ledger\n"
        "ledger = Ledger.open(sys.argv[1])\n"
        "fill(ledger, [f'http://h.test/{n}' for n in range(200)], batch_id=sys.argv[2])\n"
        "for n in range(200): ledger.write([success(f'http://h.test/{n}', batch_id=sys.argv[2])])\n"
    )
    here = os.path.dirname(__file__)
    running = [
        subprocess.Popen([sys.executable, "-c", code, path, name, here], stderr=subprocess.PIPE)
        for name in ("b", "c")
    ]
    errors = [process.communicate(timeout=100)[1] for process in running]
    assert errors == [b"", b""]
    with Ledger.open(path) as ledger:
        for name in ("b", "c"):
            assert ledger.counts(name).by_outcome == {Outcome.OK: 200}


def test_a_killed_process_loses_nothing_that_was_committed(tmp_path) -> None:
    path = str(tmp_path / "ledger.db")
    code = (
        "import os, sys; sys.path.insert(0, sys.argv[2])\n"
        "from ledger_makers import fill, success\n"
        "from retryscrape.ledger.store import Ledger\n"
        "ledger = Ledger.open(sys.argv[1])\n"
        "fill(ledger, ['http://h.test/1', 'http://h.test/2'])\n"
        "ledger.write([success('http://h.test/2')])\n"
        "os.kill(os.getpid(), 9)\n"
    )
    here = os.path.dirname(__file__)
    done = subprocess.run([sys.executable, "-c", code, path, here], timeout=60, check=False)
    assert done.returncode == -9
    with Ledger.open(path) as ledger:
        assert ledger.counts("b").by_outcome == {Outcome.OK: 1, None: 1}
        assert ledger.open_batch("b", "m.txt", "digest", now=NOW).read_to == 2


def test_a_folder_that_may_not_be_entered(tmp_path, monkeypatch) -> None:
    def denied(path: Path) -> bool:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr(Path, "is_dir", denied)
    path = tmp_path / "ledger.db"
    assert sentence(path) == f"ledger {path} cannot be opened: Permission denied"
