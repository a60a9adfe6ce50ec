"""Manifests as people have them, crawled for real: each good line is had, each bad one said."""

from __future__ import annotations

import gzip
import json
import signal
import subprocess

import pytest

from tests.commandline import *  # noqa: F403
from tests.commandline import HOME, Project, environment, until
from tests.hostile_fixture import *  # noqa: F403

#: The most that the process may hold over a long manifest (measured: about 110 MB at any length).
MEMORY = 250e6


def asked(web) -> list[str]:
    return sorted(request["path"] for request in web.requests())


def test_one_of_each_kind_of_line(web, project: Project) -> None:
    """BOM, CRLF, quotes, brackets, comments, duplicates, what is no URL, what must not be read."""
    page = web.url
    lines = [
        f"\ufeff{page('/ok/bom')}",
        "",
        "   ",
        f"\t{page('/ok/tab')} ",
        "# a comment",
        f"{page('/ok/frag')}#frag",
        f"{page('/ok/note')} # note",
        f'"{page("/ok/quoted")}",',
        f"<{page('/ok/angle')}>",
        page("/ok/x y"),
        page("/ok/twice"),
        page("/ok/twice"),
        page("/ok/twice#other"),
        page("/ok/{{item}}"),
        "www.h.test/no-scheme",
        "//h.test/a",
        "localhost:8000/a",
        "http://h.test:99999/",
        "http://[::1",
        "https:/h.test/a",
        "http://" + "a" * 70 + ".test/",
        "mailto:a@b",
        "javascript:void(0)",
        "data:,x",
        "file:///etc/passwd",
        "ftp://127.0.0.1:1/x",
    ]
    manifest = project.folder / "m.txt"
    manifest.write_bytes("\r\n".join(lines).encode())

    done = project.crawl(manifest)

    assert done.code == 0  # rejected lines are nothing that anybody could still get
    assert "Traceback" not in done.err
    counted = dict(project.sql("SELECT outcome, count(*) FROM entries GROUP BY 1"))
    assert counted == {"ok": 10, "rejected": 12}
    assert "1 duplicate line skipped" in done.err
    rejected = project.sql("SELECT url, line, reason, attempts, error_class FROM entries"
                           " WHERE outcome = 'rejected' ORDER BY line")  # fmt: skip
    assert [row[1] for row in rejected] == list(range(15, 27))
    assert all(row[2] and row[3:] == (0, "permanent") for row in rejected)
    paths = asked(web)
    assert "/ok/x%20y" in paths
    assert not any("%0D" in path or "%EF" in path or "frag" in path[9:] for path in paths)
    assert (page("/ok/frag#frag"),) in project.sql("SELECT url FROM entries")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig", "latin-1"])
def test_encodings_that_editors_write(web, project: Project, encoding: str) -> None:
    manifest = project.folder / "m.txt"
    manifest.write_bytes(f"{web.url('/ok/1')}\r\n{web.url('/ok/2')}\r\n".encode(encoding))
    assert project.crawl(manifest).code == 0
    assert asked(web) == ["/ok/1", "/ok/2"]


def test_a_spreadsheets_csv_keeps_its_columns(web, project: Project) -> None:
    manifest = project.folder / "m.csv"
    text = f'id;URL ;note\r\n1;{web.url("/ok/1?x=1,2")};"two\r\nlines"\r\n2;;empty\r\n'
    manifest.write_text(text, encoding="utf-8-sig", newline="")
    done = project.crawl(manifest)
    assert done.code == 0  # the empty cell is rejected
    rows = project.sql("SELECT outcome, fields FROM entries ORDER BY line")
    assert [row[0] for row in rows] == ["ok", "rejected"]
    assert json.loads(rows[0][1]) == {"id": "1", "note": "two\r\nlines"} or json.loads(
        rows[0][1]
    ) == {"id": "1", "note": "two\nlines"}
    assert asked(web) == ["/ok/1?x=1,2"]


def test_json_lines_that_a_crash_cut_off(web, project: Project) -> None:
    manifest = project.folder / "m.jsonl"
    good = [json.dumps({"url": web.url("/ok/1")}), json.dumps(web.url("/ok/2"))]
    manifest.write_text("\n".join([good[0], '{"url": 5}', good[1], "[]", "", '{"url":"http://h/d']))
    done = project.crawl(manifest)
    assert done.code == 0
    assert "Traceback" not in done.err
    assert dict(project.sql("SELECT outcome, count(*) FROM entries GROUP BY 1")) == {
        "ok": 2, "rejected": 3,
    }  # fmt: skip


def test_urls_as_an_argument_standard_input_and_compressed_files(web, project: Project) -> None:
    two = f"{web.url('/ok/1')} {web.url('/ok/2')}"
    done = project.scrapy("crawl", "pages", "-a", f"urls={two}", "-a", "batch=a")
    assert done.code == 0, done.err
    packed = project.folder / "list.txt.gz"
    packed.write_bytes(gzip.compress(f"{web.url('/ok/3')}\n".encode()))
    assert project.crawl(packed).code == 0
    piped = subprocess.run(
        project.words("crawl", "pages", "-a", "manifest=-", "-a", "batch=b"),
        cwd=HOME, env=environment(), input=f"{web.url('/ok/4')}\n",
        text=True, capture_output=True, timeout=120, check=False,
    )  # fmt: skip
    assert piped.returncode == 0, piped.stderr
    assert asked(web) == [f"/ok/{n}" for n in (1, 2, 3, 4)]
    assert project.sql("SELECT batch_id, count(*) FROM entries GROUP BY 1 ORDER BY 1") == [
        ("a", 2), ("b", 1), ("list", 1),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["-a", "manifest=nope.txt"], "nope.txt"),
        ([], "manifest"),
        (["-a", "manifest=."], "."),
        (["-a", "urls=http://127.0.0.1/"], "batch"),
        (["-a", "manifest={m}", "-a", "min_text=many"], "min_text"),
        (["-a", "manifest={m}", "-a", "shard=3/2"], "shard"),
        (["-a", "manifest={m}", "-a", "require=a["], "require"),
        (["-a", "manifest={m}", "-s", "RETRYSCRAPE_ATTEMPTS=three"], "RETRYSCRAPE_ATTEMPTS"),
        (["-a", "manifest={m}", "-s", "RETRYSCRAPE_PROXIES=none.txt"], "none.txt"),
    ],
)
def test_usage_errors_are_one_sentence_and_write_nothing(web, project, words, says) -> None:
    manifest = project.manifest("m.txt", [web.url("/ok/1")])
    done = project.scrapy("crawl", "pages", *(w.replace("{m}", str(manifest)) for w in words))
    assert done.code == 2, done.err
    assert says in done.err
    assert "Traceback" not in done.err
    assert not (project.out / "ledger.db").exists()
    assert web.requests() == []


def test_a_remote_manifest_that_cannot_be_had_is_a_usage_error(web, project: Project) -> None:
    where = web.url("/status/404/list.txt")
    done = project.scrapy("crawl", "pages", "-a", f"manifest={where}")
    assert done.code == 2, done.err
    assert f"manifest {where}: cannot be opened: HTTPError (HTTP 404)" in done.err
    assert "Traceback" not in done.err


def test_a_list_without_urls_is_done_at_once(project: Project) -> None:
    done = project.crawl(project.manifest("m.txt", ["# nothing yet", ""]))
    assert done.code == 0
    assert "0 URLs" in done.err
    assert (project.out / "m" / "failures.jsonl").read_bytes() == b""
    again = project.scrapy("crawl", "pages", "-a", f"manifest={project.out}/m/failures.jsonl",
                           "-a", "batch=m")  # fmt: skip
    assert again.code == 0


def test_a_long_manifest_begins_at_once_and_needs_no_memory(web, project: Project) -> None:
    manifest = project.manifest("m.txt", (web.url(f"/ok/{n}?kb=1") for n in range(300_000)))
    run = project.start("crawl", "pages", "-a", f"manifest={manifest}", "-a", "min_text=1")
    log_opened = "Spider opened"
    until(lambda: log_opened in run.said())
    until(lambda: len(web.requests(path="/ok/1?kb=1")) == 1)
    until(lambda: len(web.requests(path="/ok/9*")) > 20)
    with open(f"/proc/{run.pid}/status", encoding="ascii") as status:
        peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
    run.send_signal(signal.SIGINT)
    ended = run.wait()
    assert peak * 1024 < MEMORY
    assert ended.code == 130, ended.err
    pointer = project.feed("m")[-1]
    assert pointer["manifest"] == str(manifest)
    assert 1 < pointer["from_line"] < 300_000
