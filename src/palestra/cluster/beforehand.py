"""What can be told before anything is submitted: options without use there, and what is missing."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from palestra.cluster.configs import ClusterConfig
from palestra.cluster.options import RolloutOptions

HERE: Final = frozenset({"local", "none"})
"""Executors whose jobs have this machine's files and this command's environment."""


def missing_here(
    options: RolloutOptions, cluster: ClusterConfig, environ: Mapping[str, str], cwd: Path
) -> list[str]:
    """What the jobs would look for in vain; empty where they may have something else.

    After a dry run the jobs are started by hand, perhaps with other variables.
    """
    if cluster.executor not in HERE:
        return []
    problems = []
    key = options.policy_api_key_env
    if key and not environ.get(key) and not options.dry_run:
        problems.append(
            f"--policy-api-key-env: the variable {key} is not set or empty; export it first"
        )
    path = options.gym_path
    if path and cluster.runtime == "none" and not (cwd / path).is_dir():
        problems.append(f"--gym-path {path}: there is no such folder; give that of a checkout")
    return problems


def unused_options(options: RolloutOptions, cluster: ClusterConfig) -> list[str]:
    """Options that would change nothing on that cluster: an option is used or refused."""
    for_queue = {
        "--partition": options.partition is not None,
        "--account": options.account is not None,
        "--qos": options.qos is not None,
        "--time-min": options.time_min is not None,
        "--exclusive": options.exclusive is not None,
        "--sbatch": bool(options.sbatch),
    }
    for_containers = {
        "--mounts": bool(options.mounts),
        "--check-mounted-paths": options.check_mounted_paths,
    }
    problems = []
    if cluster.executor in HERE and (given := _given(for_queue)):
        problems.append(f"{given}: executor {cluster.executor} has no queue to pass it to")
    if cluster.runtime == "none" and (given := _given(for_containers)):
        problems.append(f"{given}: this cluster runs no containers (`runtime` of its config)")
    return problems


def _given(there: Mapping[str, bool]) -> str:
    return ", ".join(name for name, given in there.items() if given)
