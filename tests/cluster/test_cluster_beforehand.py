"""What is refused at submission, since it could only fail in the jobs."""

from pathlib import Path
from typing import Any

import pytest
from planning import PYXIS, cluster, options

from palestra.cluster.options import missing_here, unset_variables, unused_here, unused_options

KEY: dict[str, Any] = {
    "server_address": "http://host/v1",
    "model": "m",
    "policy_api_key_env": "MY_KEY",
}


@pytest.mark.parametrize("executor", ["none", "local", "slurm"])
@pytest.mark.parametrize("environ", [{}, {"MY_KEY": ""}])
def test_a_key_that_has_no_value_here_is_missing_in_the_jobs(
    executor: str, environ: dict[str, str]
) -> None:
    problems = unset_variables(options(**KEY), cluster(executor=executor), environ)

    assert [("--policy-api-key-env" in text, "MY_KEY" in text) for text in problems] == [
        (True, True)
    ]


def test_variables_that_have_a_value_are_not_missing() -> None:
    on = cluster(inherit_env=["HF_TOKEN"])

    assert unset_variables(options(**KEY), on, {"MY_KEY": "k", "HF_TOKEN": "t"}) == []


def test_what_the_clusters_file_passes_on_must_have_a_value_too() -> None:
    problems = unset_variables(options(), cluster(inherit_env=["HF_TOKEN", "HOME"]), {"HOME": "/"})

    assert len(problems) == 1
    assert "inherit_env of the cluster config names the variable HF_TOKEN" in problems[0]


@pytest.mark.parametrize(
    ("on", "asked"), [({"sbatch": {"export": "NONE"}}, {}), ({}, {"sbatch": ("export-file=env",)})]
)
def test_where_jobs_have_other_variables_than_these_none_is_missing(
    on: dict[str, Any], asked: dict[str, Any]
) -> None:
    assert unset_variables(options(**KEY, **asked), cluster(**on), {}) == []


def test_a_checkout_that_is_nowhere_is_refused_where_jobs_run_here(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    here = cluster(executor="none")

    assert "--gym-path gone" in missing_here(options(gym_path="gone"), here, tmp_path)[0]
    assert missing_here(options(gym_path="there"), here, tmp_path) == []


@pytest.mark.parametrize(
    "given",
    [
        {"account": "me"},
        {"qos": "high"},
        {"time_min": "1:00"},
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


@pytest.mark.parametrize("given", [{"partition": "gpu"}, {"exclusive": True}])
def test_a_call_for_a_cluster_is_tried_without_one_with_a_warning(given: dict[str, Any]) -> None:
    asked = options(**given)

    assert unused_options(asked, cluster(executor="none")) == []
    assert f"--{next(iter(given))}" in unused_here(asked, cluster(executor="none"))[0]
    assert unused_here(asked, cluster()) == []


def test_options_of_a_queue_and_of_containers_are_used_where_there_are_some() -> None:
    queued = options(partition="gpu", sbatch="x=y", exclusive=True)

    assert unused_options(queued, cluster()) == []
    assert unused_options(options(mounts="/a:/a"), cluster(**PYXIS)) == []
    assert "--mounts" in unused_options(options(mounts="/a:/a"), cluster())[0]


def test_a_time_limit_is_used_on_this_machine_too_and_a_cap_has_no_effect() -> None:
    asked = options(time="1:00", array_cap=2, num_chunks=2)

    assert unused_options(asked, cluster(executor="none")) == []
    (notice,) = unused_here(asked, cluster(executor="none"))
    assert notice.startswith("--array-cap:")
