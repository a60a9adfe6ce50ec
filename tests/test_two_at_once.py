"""Two processes on one ledger: the same batch is refused, anything else works side by side."""

from __future__ import annotations

import json

from tests.commandline import *  # noqa: F403
from tests.commandline import Project, until
from tests.hostile_fixture import *  # noqa: F403


def test_the_same_batch_twice_is_refused_with_the_running_jobs_name(web, project: Project) -> None:
    manifest = project.manifest("m.txt", [web.url("/ok/1?ms=600000")])
    first = project.start("crawl", "pages", "-a", f"manifest={manifest}", "-a", "_job=nightly-7")
    until(lambda: web.requests())

    second = project.crawl(manifest)

    assert second.code == 2
    assert f"Batch m is being crawled by job nightly-7 (process {first.pid}" in second.err
    assert "Traceback" not in second.err
    assert len(web.requests()) == 1  # the second one asked for nothing
    first.kill()


def test_two_batches_at_once_share_a_ledger_and_mix_nothing(web, project: Project) -> None:
    names = ("first", "second")
    runs = []
    for name in names:
        urls = [web.url(f"/ok/{n}?ms=20&{name}") for n in range(120)]
        manifest = project.manifest(f"{name}.txt", [*urls, web.url(f"/status/404?{name}")])
        runs.append(project.start("crawl", "pages", "-a", f"manifest={manifest}"))
    for run in runs:
        done = run.wait()
        assert done.code == 0, done.err
    for name in names:
        pages = project.sql(
            "SELECT url, page_path FROM entries WHERE batch_id = ? AND status = 'success'", name
        )
        assert len(pages) == 120
        assert all(name in url and path.startswith(f"{name}/pages/") for url, path in pages)
        on_disk = list((project.out / name / "pages").glob("*/*"))
        assert {str(path.relative_to(project.out)) for path in on_disk} == {p for _, p in pages}
        assert [row["url"] for row in project.feed(name)] == [web.url(f"/status/404?{name}")]
    assert len(web.requests()) == 242


def test_two_shards_of_one_batch_at_once_ask_for_each_url_once(web, project: Project) -> None:
    hosts = [f"127.0.0.{n}" for n in (1, 2, 3, 4)]
    urls = [web.url(f"/ok/{n}?ms=20", host) for host in hosts for n in range(30)]
    manifest = project.manifest("m.txt", urls)
    runs = [
        project.start("crawl", "pages", "-a", f"manifest={manifest}", "-a", f"shard={n}/2")
        for n in (1, 2)
    ]
    for run in runs:
        done = run.wait()
        assert done.code == 0, done.err
    assert project.sql("SELECT status, count(*) FROM entries GROUP BY 1") == [("success", 120)]
    assert len(web.requests()) == 120
    assert len((project.out / "m" / "index.tsv").read_text().splitlines()) == 120
    assert project.feed("m") == []


def test_the_lock_of_a_dead_process_locks_nothing(web, project: Project) -> None:
    manifest = project.manifest("m.txt", [web.url("/ok/1")])
    (project.out / "m").mkdir(parents=True)
    owner = {"pid": 1, "job_id": "dead", "host": "here"}
    (project.out / "m" / ".lock").write_text(json.dumps(owner))
    assert project.crawl(manifest).code == 0
