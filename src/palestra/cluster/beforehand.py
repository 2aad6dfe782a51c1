"""What can be told before anything is submitted: options without use there, and what is missing."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from palestra.cluster.configs import ClusterConfig
from palestra.errors import ConfigError
from palestra.settings import JobOptions, RolloutOptions

HERE: Final = frozenset({"local", "none"})
"""Executors whose jobs have this machine's files."""
EXPORTS: Final = frozenset({"export", "export-file"})
"""Directives that say which variables jobs have."""


KEY_OPTION: Final = "--policy-api-key-env"
INHERITED: Final = "inherit_env of the cluster config"


def unset_variables(
    options: JobOptions, cluster: ClusterConfig, environ: Mapping[str, str]
) -> list[str]:
    """Variables that the jobs are to have from here, and that are not set or empty.

    None where a directive says what jobs have of this environment.
    """
    key = options.key_variable
    wanted = dict.fromkeys(cluster.inherit_env, INHERITED)
    wanted.update({key: KEY_OPTION} if key else {})
    directives = {**cluster.sbatch, **options.sbatch_settings}
    return [] if EXPORTS & set(directives) else unset(wanted, environ)


def unset(wanted: Mapping[str, str], environ: Mapping[str, str]) -> list[str]:
    """Of variables, with who asks for each: those without a value, in words."""
    return [
        f"{where} names the variable {name}, which is not set or empty here"
        for name, where in wanted.items()
        if not environ.get(name)
    ]


def raise_unset(problems: Sequence[str]) -> None:
    """Raise ConfigError when a variable that the jobs need has no value."""
    if problems:
        raise ConfigError(
            "; ".join(problems),
            hint="export it before you submit: jobs have the environment of this command",
        )


def missing_here(options: RolloutOptions, cluster: ClusterConfig, cwd: Path) -> list[str]:
    """Files that the jobs would look for in vain; empty where they may have other files."""
    if cluster.executor not in HERE:
        return []
    problems = []
    path = options.gym_path
    if path and cluster.runtime == "none" and not (cwd / path).is_dir():
        problems.append(f"--gym-path {path}: there is no such folder; give that of a checkout")
    return problems


def unused_here(options: JobOptions, cluster: ClusterConfig) -> list[str]:
    """Options that have no effect without a queue, and may stand in a call that is tried here."""
    for_queue = {
        "--partition": options.partition is not None,
        "--exclusive": options.exclusive is not None,
        "--array-cap": isinstance(options, RolloutOptions) and options.array_cap is not None,
    }
    if cluster.executor in HERE and (given := _given(for_queue)):
        return [f"{given}: no effect, since executor {cluster.executor} has no queue"]
    return []


def unused_options(options: JobOptions, cluster: ClusterConfig) -> list[str]:
    """Options that would change nothing on that cluster, where a user counts on them."""
    for_queue = {
        "--account": options.account is not None,
        "--qos": options.qos is not None,
        "--time-min": options.time_min is not None,
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
