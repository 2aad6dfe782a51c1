"""Compares the environments of a run with those that verify its rows again."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from palestra.analysis import resources_servers
from palestra.config import ENVIRONMENT_FILE, MASK, NamedFile, ResolvedConfig
from palestra.errors import InputDataError
from palestra.rollouts import read_manifest
from palestra.schema import JsonDict, RunPaths


def unlike_the_runs(rollouts: Path, config: ResolvedConfig, servers: Iterable[str]) -> str:
    """Return a warning when a server that verifies is of none of the run's environments; else nothing.

    A file may be a copy in another folder, and an instance may have another name: the name of the
    file, its class and the implementation count. Nothing is known of a run without its manifest.
    """
    of_run = [*_environments_of_run(RunPaths(rollouts).manifest)]
    instances = [config.instance(name) for name in sorted(servers)]
    verifying = [_environment(i.name, i.implementation, i.settings) for i in instances]
    foreign = [env for env in verifying if not any(_is_same(env, of) for of in of_run)]
    if not of_run or not foreign:
        return ""
    run_names, foreign_names = _listed(of_run), _listed(foreign)
    return (
        f"warning: the rollouts are of {run_names}, and {foreign_names} verifies them: name "
        f"{run_names} as the environment, unless {foreign_names} is a copy of it"
    )


def settings_of_run(rollouts: Path, verifying: NamedFile) -> Mapping[str, Any]:
    """Return the settings that the run gave to the environment in a file, which may be a copy in
    another folder; none of another environment, and no secrets.
    """
    file = NamedFile(Path(verifying.path).name, verifying.class_name)
    for name, server in _servers_of_run(RunPaths(rollouts).manifest).items():
        settings = server.get("settings") or {}
        if _is_same(file, _environment(name, server.get("implementation"), settings)):
            values: Mapping[str, Any] = settings.get("settings") or {}
            return {key: value for key, value in values.items() if value != MASK}
    return {}


def _environments_of_run(manifest: Path) -> Iterator[NamedFile]:
    for name, server in _servers_of_run(manifest).items():
        yield _environment(name, server.get("implementation"), server.get("settings") or {})


def _servers_of_run(manifest: Path) -> Mapping[str, JsonDict]:
    try:
        return resources_servers(read_manifest(manifest))
    except InputDataError:
        return {}


def _environment(name: str, implementation: Any, settings: Mapping[str, Any]) -> NamedFile:
    """Return the file's name with its class; an implementation stands for itself."""
    if implementation != ENVIRONMENT_FILE:
        return NamedFile(str(implementation or name))
    path = Path(str(settings.get("path") or name))
    return NamedFile(path.name, str(settings.get("class_name") or ""))


def _is_same(verifying: NamedFile, of_run: NamedFile) -> bool:
    """Whether both may be the same environment: a class that is not named is the only one."""
    classes = {verifying.class_name, of_run.class_name} - {""}
    return verifying.path == of_run.path and len(classes) <= 1


def _listed(environments: Iterable[NamedFile]) -> str:
    return " and ".join(dict.fromkeys(map(str, environments)))
