"""A run over many jobs in the viewer, as its readers meet it."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cluster_runs import World, collected, finish, world

from browsers import chromium
from palestra.cluster import ledger
from palestra.viewer import Catalog, Viewer, find_places
from palestra.viewer.pages.clusters import cluster
from palestra.viewer.reads import ReadStop
from palestra.viewer.replies.clusters import ClusterPage
from palestra.viewer.requests import PageRequest
from viewed_runs import viewing
from viewer_pages import opened

MOST_CLICKS = 3
SAME_IN_BOTH = ("name", "standing", "reason", "job", "job_id", "restarts")
COUNTED = ("expected", "scored", "failed", "left")


def status_of(folder: Path) -> Any:
    """What `palestra cluster status --json` prints."""
    command = [sys.executable, "-m", "palestra", "cluster", "status", str(folder), "--json"]
    done = subprocess.run(command, capture_output=True, check=False, timeout=60, env=os.environ)
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_the_numbers_of_the_cluster_page_are_those_of_cluster_status(tmp_path: Path) -> None:
    made = world(tmp_path, tasks=6, seeds=(0, 1), chunks=2)
    whole, failing, partial, _missing = [shard.name for shard in made.run.shards]
    collected(made, whole)
    finish(made, whole)
    collected(made, failing, failed=1)
    finish(made, failing)
    collected(made, partial, but=1)
    folder = tmp_path / "out"
    with viewing(folder, cache=tmp_path / "cache") as viewer:
        [link] = viewer.ask("/api/session")["clusters"]
        page = viewer.ask(f"/api/k/{link['id']}")

    status = status_of(folder)
    assert (page["name"], page["output_dir"]) == (status["run"], status["output_dir"])
    assert {c["name"]: c["count"] for c in page["counts"]} == status["counts"]
    assert {c["name"]: c["count"] for c in page["rollouts"]} == status["rollouts"]
    for shown, unit in zip(page["units"], status["units"], strict=True):
        assert {n: shown[n] for n in SAME_IN_BOTH} == {n: unit[n] for n in SAME_IN_BOTH}
        assert {n: shown[n] for n in COUNTED} == {n: unit["rollouts"].get(n) for n in COUNTED}
    assert [unit["failed"] for unit in page["units"] if unit["name"] == failing] == [1]


def ended(made: World, reason: str) -> None:
    """The last shard's job failed for that reason."""
    task = len(made.run.shards) - 1
    event = {"event": "started", "time": 1.0, "submission": "0001", "job": "shards", "task": task}
    ledger.append(made.files.ledger, {**event, "shard": made.run.shards[-1].name, "job_id": "7"})
    result = made.submission.job("shards", task).result
    result.parent.mkdir(parents=True, exist_ok=True)
    result.write_text(json.dumps({"status": "failed", "reason": reason}))


def page_of(folder: Path, cache: Path) -> ClusterPage:
    with Catalog(find_places([str(folder)]), cache=cache) as catalog:
        [place] = catalog.clusters
        return cluster(PageRequest(Viewer(catalog), {"cluster": place.id}, {}, ReadStop()))


def test_shards_are_named_by_the_numbers_of_the_table(tmp_path: Path) -> None:
    world(tmp_path, tasks=4, seeds=(3, 5), chunks=2)
    page = page_of(tmp_path / "out", tmp_path / "cache")
    shards = [unit for unit in page.units if unit.seed]
    assert {unit.label for unit in shards} == {
        f"seed {seed}, chunk {chunk}" for seed in (3, 5) for chunk in (0, 1)
    }
    assert all(unit.label == f"seed {unit.seed}, chunk {unit.chunk}" for unit in shards)


@pytest.mark.parametrize("reason", ["TIMEOUT: ended by SIGTERM", "the time limit", "TIMEOUT"])
def test_the_command_after_a_time_limit_gives_more_time(tmp_path: Path, reason: str) -> None:
    made = world(tmp_path, chunks=2)
    made.write(jobs=(replace(made.run.jobs[0], time_limit="1:40:00"), *made.run.jobs[1:]))
    ended(made, reason)
    page = page_of(tmp_path / "out", tmp_path / "cache")
    assert page.command.endswith("out --time 3:20:00")
    assert "--time" in "".join(unit.next for unit in page.units)


def test_the_command_after_a_merge_at_its_time_limit_does_not_set_that_of_shards(
    tmp_path: Path,
) -> None:
    made = world(tmp_path, chunks=1)
    made.write(jobs=tuple(replace(job, time_limit="0:30:00") for job in made.run.jobs))
    whole = made.run.shards[0].name
    collected(made, whole)
    finish(made, whole)
    event = {"event": "started", "time": 1.0, "submission": "0001", "job": "merge", "task": None}
    ledger.append(made.files.ledger, {**event, "job_id": "8"})
    result = made.submission.job("merge").result
    result.parent.mkdir(parents=True, exist_ok=True)
    result.write_text(json.dumps({"status": "failed", "reason": "TIMEOUT"}))
    page = page_of(tmp_path / "out", tmp_path / "cache")

    assert [unit.name for unit in page.units if unit.standing == "failed"] == ["merge"]
    assert page.command.endswith("retry-failed " + str(tmp_path / "out"))


def test_the_command_after_another_failure_says_which_options_it_has(tmp_path: Path) -> None:
    made = world(tmp_path, chunks=2)
    ended(made, "server exited with 1: CUDA out of memory")
    page = page_of(tmp_path / "out", tmp_path / "cache")
    assert page.command.endswith("retry-failed " + str(tmp_path / "out"))
    assert "palestra cluster rollouts" in page.command_note


def test_a_run_that_was_moved_has_the_name_of_its_folder_and_no_command(tmp_path: Path) -> None:
    made = world(tmp_path, chunks=2)
    ended(made, "server exited with 1")
    moved = made.files.output_dir.rename(tmp_path / "moved-run")
    page = page_of(moved, tmp_path / "cache")
    assert (page.folder_name, page.output_dir) == ("moved-run", str(moved))
    assert page.command == ""
    assert str(tmp_path / "out") in page.command_note


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_10_which_shard_is_missing_and_why_did_its_job_end(tmp_path: Path) -> None:
    made = world(tmp_path, tasks=6, seeds=(0, 1), chunks=2)
    *whole, missing = [shard.name for shard in made.run.shards]
    for name in whole:
        collected(made, name)
        finish(made, name)
    with (
        chromium() as browser,
        viewing(tmp_path / "out", cache=tmp_path / "cache") as viewer,
        opened(browser, viewer) as shown,
    ):
        shown.click(".clusters a")

        assert shown.page.locator(".grid-table td.good a").count() == len(whole)
        assert shown.page.locator(".grid-table td a").count() == len(whole) + 1
        assert missing in shown.text(".units")
        assert shown.violations() == []
        assert shown.clicks <= MOST_CLICKS
