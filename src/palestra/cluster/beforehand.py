"""What can be told before anything is submitted, since the jobs run on this very machine."""

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
