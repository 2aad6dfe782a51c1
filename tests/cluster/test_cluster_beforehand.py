"""What is refused at submission, since it could only fail in the jobs."""

from pathlib import Path
from typing import Any

import pytest
from planning import cluster, options

from palestra.cluster.beforehand import missing_here

KEY: dict[str, Any] = {
    "server_address": "http://host/v1",
    "model": "m",
    "policy_api_key_env": "MY_KEY",
}


@pytest.mark.parametrize("executor", ["none", "local"])
def test_a_key_that_is_not_exported_is_missing_where_jobs_run_here(
    executor: str, tmp_path: Path
) -> None:
    on, asked = cluster(executor=executor), options(**KEY)

    assert "MY_KEY" in missing_here(asked, on, {"MY_KEY": ""}, tmp_path)[0]
    assert missing_here(asked, on, {"MY_KEY": "k"}, tmp_path) == []


def test_a_key_is_not_sought_where_jobs_may_have_another_environment(tmp_path: Path) -> None:
    assert missing_here(options(**KEY), cluster(), {}, tmp_path) == []
    here = cluster(executor="none")
    assert missing_here(options(**KEY, dry_run=True), here, {}, tmp_path) == []


def test_a_checkout_that_is_nowhere_is_refused_where_jobs_run_here(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    here = cluster(executor="none")

    assert "--gym-path gone" in missing_here(options(gym_path="gone"), here, {}, tmp_path)[0]
    assert missing_here(options(gym_path="there"), here, {}, tmp_path) == []
