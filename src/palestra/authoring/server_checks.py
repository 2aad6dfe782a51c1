"""Check the servers of a configuration that is not started: settings, domains and datasets."""

from pathlib import Path

from palestra.config import InstanceConfig, ResolvedConfig, SearchPaths, domain_problems
from palestra.datasets import datasets_of_agents, locate, unavailable
from palestra.errors import ConfigError, Problem
from palestra.fleet import (
    check_settings,
    requirements_of,
    requirements_place,
    start_timeout_of,
    starting_within,
    unsatisfied,
)


def server_problems(config: ResolvedConfig, *, cwd: Path | None = None) -> tuple[Problem, ...]:
    """Return what is wrong with the servers of a configuration. Their code is imported.

    The settings of a server whose requirements are not installed here are not checked. `cwd`: the
    folder to which the paths of datasets are relative; None is the working directory.
    """
    problems = [*_dataset_problems(config, cwd), *domain_problems(config)]
    for instance in config.instances.values():
        try:
            if _is_importable(instance):
                with starting_within(start_timeout_of(config.tree)):
                    check_settings(instance)
        except ConfigError as error:
            problems += error.problems
    return tuple(problems)


def _dataset_problems(config: ResolvedConfig, cwd: Path | None) -> list[Problem]:
    try:
        datasets = datasets_of_agents(config.instances.values())
    except ConfigError as error:
        return list(error.problems)
    return list(unavailable(locate(datasets, SearchPaths.of(cwd).resolve)))


def _is_importable(instance: InstanceConfig) -> bool:
    requirements = requirements_place(instance)
    return (
        instance.folder is not None
        and requirements is not None
        and not unsatisfied(requirements_of(requirements))
    )
