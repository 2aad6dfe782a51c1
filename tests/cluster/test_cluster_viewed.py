"""A run over many jobs in the viewer, as its readers meet it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cluster_runs import collected, finish, world

from browsers import chromium
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
