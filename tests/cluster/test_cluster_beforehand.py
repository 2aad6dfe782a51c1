"""What is refused at submission, since it could only fail in the jobs."""

from pathlib import Path
from typing import Any

import pytest
from planning import PYXIS, cluster, options

from palestra.cluster.beforehand import missing_here, unused_options

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


@pytest.mark.parametrize(
    "given",
    [
        {"partition": "gpu"},
        {"account": "me"},
        {"qos": "high"},
        {"time_min": "1:00"},
        {"exclusive": False},
        {"sbatch": "reservation=r"},
        {"mounts": "/a:/a"},
        {"check_mounted_paths": True},
    ],
)
@pytest.mark.parametrize("executor", ["none", "local"])
def test_an_option_that_changes_nothing_here_is_refused_by_name(
    given: dict[str, Any], executor: str
) -> None:
    (said,) = unused_options(options(**given), cluster(executor=executor))

    assert said.startswith("--" + next(iter(given)).replace("_", "-"))


def test_options_of_a_queue_and_of_containers_are_used_where_there_are_some() -> None:
    queued = options(partition="gpu", sbatch="x=y", exclusive=True)

    assert unused_options(queued, cluster()) == []
    assert unused_options(options(mounts="/a:/a"), cluster(**PYXIS)) == []
    assert "--mounts" in unused_options(options(mounts="/a:/a"), cluster())[0]


def test_a_time_limit_and_a_cap_are_used_on_this_machine_too() -> None:
    asked = options(time="1:00", array_cap=2, num_chunks=2)

    assert unused_options(asked, cluster(executor="none")) == []
