"""The fields of a manifest that repeat the config: compare them, and write them anew."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from palestra.authoring.components import Component
from palestra.authoring.manifests import Manifest, manifest_of
from palestra.authoring.server_checks import server_problems
from palestra.authoring.yaml_lines import YamlDocument
from palestra.config import (
    InstanceConfig,
    OverrideRules,
    ResolvedConfig,
    ServerType,
    load_config,
    names_in_files,
    search_roots,
)
from palestra.errors import ConfigError, Problem
from palestra.schema import JsonDict
from palestra.settings import COMMAND_SETTINGS
from palestra.system import write_whole

Value = TypeVar("Value")
MIRRORED: Final = (
    "domain",
    "description",
    "resources_server",
    "agent_server",
    "model_server",
    "datasets",
)
DUMMY_MODEL: Final[JsonDict] = {
    "responses_api_models": {"dummy_model": {"placement": "remote", "host": "127.0.0.1", "port": 1}}
}
"""Stands for `policy_model`, so that a config without a model can be checked. Nothing calls it."""
_POLICY: Final[JsonDict] = {
    "policy_base_url": "http://policy.invalid/v1",
    "policy_api_key": "unknown",
    "policy_model_name": "unknown",
}
"""Values of a policy that nothing calls."""
_OF_A_DATASET: Final = ("name", "type", "jsonl_fpath")


def offline_config(
    config_paths: Sequence[str] = (), overrides: Sequence[str] = (), *, cwd: Path | None = None
) -> ResolvedConfig:
    """Return a configuration that is checked but never started. A dummy replaces the policy model
    when the files have none.

    Raises ConfigError, which lists all problems.
    """
    extra: JsonDict = dict(_POLICY)
    if "policy_model" not in names_in_files(overrides, config_paths, cwd=cwd):
        extra["policy_model"] = DUMMY_MODEL
    return load_config(
        overrides=overrides,
        config_paths=config_paths,
        extra=extra,
        cwd=cwd,
        rules=OverrideRules(strict_add=True, known=COMMAND_SETTINGS, refuse_unknown=False),
    )


def component_config(component: Component, overrides: Sequence[str] = ()) -> ResolvedConfig:
    """Return the offline configuration of a component.

    Raises ConfigError: its config is missing, or is wrong.
    """
    if not component.config.is_file():
        raise ConfigError(
            f"{component.config} does not exist",
            hint=f"an {component.kind}'s folder has a config.yaml with its servers and datasets",
        )
    return offline_config([str(component.config)], overrides, cwd=_folder_of(component))


def _folder_of(component: Component) -> Path | None:
    """Return the project to which a component's paths are relative; None for those of this one."""
    return None if component.root in search_roots() else component.root


def servers_of(
    config: ResolvedConfig,
    manifest: Mapping[str, Any] | None = None,
    component: Component | None = None,
) -> tuple[InstanceConfig | None, InstanceConfig | None]:
    """Return the resources server and the agent of a component; None for each that it lacks.

    Among several, the manifest's names decide; else the first agent with datasets, and its first
    resources server. An agent of the component's own file comes before those of included files.
    """
    names = manifest or {}
    agents = config.instances_of(ServerType.AGENT)
    declared = _bare(names.get("agent_server"))
    own_names = YamlDocument.read(component.config).tree if component is not None else {}
    ranked = sorted(
        agents,
        key=lambda agent: (
            not _is_called(agent, declared),
            agent.name not in own_names,
            not agent.datasets,
        ),
    )
    agent = ranked[0] if ranked else None
    servers = config.instances_of(ServerType.RESOURCES)
    of_agent = agent.referenced(ServerType.RESOURCES) if agent is not None else ()
    sought = _bare(names.get("resources_server"))
    by_rank = sorted(
        servers, key=lambda server: (not _is_called(server, sought), server.name not in of_agent)
    )
    return (by_rank[0] if by_rank else None), agent


def mirrored_values(
    component: Component, config: ResolvedConfig, manifest: Mapping[str, Any]
) -> JsonDict:
    """Return the values that the config has for fields of the manifest."""
    server, agent = servers_of(config, manifest, component)
    values: JsonDict = {}
    if server is not None:
        values["resources_server"] = server.implementation
        values["domain"] = server.domain
        values["description"] = _own_description(component, server)
    if agent is not None:
        values["agent_server"] = agent.implementation
        models = agent.referenced(ServerType.MODEL)
        if models and "model_server" in manifest:
            values["model_server"] = next(iter(models))
        values["datasets"] = [
            {key: dataset[key] for key in _OF_A_DATASET if key in dataset}
            for dataset in agent.datasets
        ]
        if _are_names(manifest.get("datasets")):
            values["datasets"] = [dataset.get("name") for dataset in values["datasets"]]
    return {name: values[name] for name in MIRRORED if values.get(name) is not None}


def differing_values(
    component: Component, config: ResolvedConfig, manifest: Mapping[str, Any]
) -> JsonDict:
    """Return the mirrored values that differ from the manifest's, as the config has them."""
    server, agent = servers_of(config, manifest, component)
    instances = {"resources_server": server, "agent_server": agent}

    def is_same(name: str, value: Any) -> bool:
        stated = manifest.get(name)
        instance = instances.get(name)
        if instance is not None:
            return _is_called(instance, _bare(stated))
        if name == "datasets":
            return _same_datasets(stated, value)
        return bool(stated == value)

    values = mirrored_values(component, config, manifest)
    return {name: value for name, value in values.items() if not is_same(name, value)}


@dataclass(frozen=True, slots=True)
class ManifestReport:
    """What a check of a component showed. `synced`: the manifest's fields that were rewritten."""

    component: Component
    problems: tuple[Problem, ...] = ()
    manifest: Manifest | None = None
    config: ResolvedConfig | None = None
    synced: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether there is no problem."""
        return not self.problems


def check_component(
    component: Component,
    *,
    overrides: Sequence[str] = (),
    sync: bool = False,
    needs_manifest: bool = False,
) -> ManifestReport:
    """Check a component's config and manifest, without starting anything.

    `sync`: first write the fields that repeat the config, where they differ. `needs_manifest`:
    whether a folder without a manifest is a problem.
    """
    problems: list[Problem] = []
    config = _collected(problems, lambda: component_config(component, overrides))
    if config is not None:
        problems += server_problems(config, cwd=_folder_of(component))
    if not component.manifest.is_file():
        if needs_manifest or sync:
            message = f"{component.manifest} does not exist"
            problems.append(Problem(message, file=str(component.manifest)))
        return ManifestReport(component, tuple(problems), config=config)
    document = _collected(problems, lambda: YamlDocument.read(component.manifest))
    if document is None:
        return ManifestReport(component, tuple(problems), config=config)
    synced: tuple[str, ...] = ()
    if config is not None:
        differing = differing_values(component, config, document.tree)
        if sync and differing:
            document = rewrite(document, differing)
            synced = tuple(differing)
        elif not sync:
            problems += [_drift(document, name, value) for name, value in differing.items()]
    manifest = _collected(problems, lambda: manifest_of(document))
    if manifest is not None:
        problems += _misplaced(component, document, manifest)
    return ManifestReport(component, _unique(problems), manifest, config, synced)


def rewrite(document: YamlDocument, values: Mapping[str, Any]) -> YamlDocument:
    """Write a document with other values for some top-level keys, and return it.

    Raises ConfigError: the file cannot be written; it is then as it was.
    """
    text = document.with_values(values)
    try:
        write_whole(document.path, text.encode())
    except OSError as error:
        raise ConfigError(f"{document.path}: {error.strerror}") from error
    return YamlDocument.parse(document.path, text)


def _collected(problems: list[Problem], load: Callable[[], Value]) -> Value | None:
    try:
        return load()
    except ConfigError as error:
        problems.extend(error.problems)
        return None


def _unique(problems: Sequence[Problem]) -> tuple[Problem, ...]:
    """Return the problems; of several about one key of one file, only the first."""
    by_place = {(p.file, p.key or p.message): p for p in reversed(problems)}
    return tuple(problem for problem in problems if problem in by_place.values())


def _drift(document: YamlDocument, name: str, value: Any) -> Problem:
    line = document.line_of((name,))
    where = f"{document.path}, line {line}: {name}"
    stated = f"is {document.tree[name]!r}" if name in document.tree else "is missing"
    hint = "--sync writes the config's values into the manifest"
    return Problem(
        f"{where}: {stated}, and the config has {value!r}",
        key=name,
        file=str(document.path),
        line=line,
        hint=hint,
    )


def _misplaced(
    component: Component, document: YamlDocument, manifest: Manifest
) -> Iterator[Problem]:
    """Yield a problem for a name or a kind that is not the folder's."""
    folders = {component.name, component.name.rpartition("/")[2], component.name.partition("/")[0]}
    if manifest.name not in folders:
        yield _misfit(document, "name", manifest.name, component.name)
    if manifest.kind != component.kind:
        yield _misfit(document, "kind", manifest.kind, component.kind)


def _misfit(document: YamlDocument, key: str, stated: str, expected: str) -> Problem:
    line = document.line_of((key,))
    message = (
        f"{document.path}, line {line}: {key}: is {stated!r}, and the folder is of {expected!r}"
    )
    return Problem(message, key=key, file=str(document.path), line=line)


def _own_description(component: Component, server: InstanceConfig) -> str | None:
    """Return the description that the component's own file gives its resources server; None when
    it comes from an included file.
    """
    value: Any = YamlDocument.read(component.config).tree
    for step in (server.name, server.type.value, server.implementation, "description"):
        value = value.get(step) if isinstance(value, Mapping) else None
    return value if isinstance(value, str) else None


def _bare(name: Any) -> str:
    """Return the name of a server's folder without its tree."""
    return str(name or "").rpartition("/")[2]


def _is_called(instance: InstanceConfig, name: str) -> bool:
    return name in {instance.implementation, instance.name}


def _are_names(datasets: Any) -> bool:
    return (
        bool(datasets) and isinstance(datasets, list) and all(isinstance(d, str) for d in datasets)
    )


def _same_datasets(stated: Any, values: Sequence[Any]) -> bool:
    """Whether a manifest lists these datasets. It may leave out fields of each, but not its name."""
    if not isinstance(stated, list) or len(stated) != len(values):
        return False
    return all(_same_dataset(*pair) for pair in zip(stated, values, strict=True))


def _same_dataset(stated: Any, value: Any) -> bool:
    if not isinstance(value, Mapping) or not isinstance(stated, Mapping):
        name = value.get("name") if isinstance(value, Mapping) else value
        return bool(stated == name)
    return all(stated.get(key, value[key]) == value[key] for key in value) and "name" in stated
