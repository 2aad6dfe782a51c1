"""A run over many jobs in the viewer, as its readers meet it."""

from pathlib import Path

import pytest
from cluster_runs import collected, finish, world

from browsers import chromium
from viewed_runs import viewing
from viewer_pages import opened

MOST_CLICKS = 3


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
