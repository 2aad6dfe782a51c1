"""The result of loading a configuration: typed instances over one resolved tree.

Reprs contain names but never settings: a repr is often logged, and settings hold secrets.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any

from palestra.config.paths import PACKAGE_ROOT
from palestra.config.problems import did_you_mean, located
from palestra.config.redact import is_secret_name, redact, secrets_in
from palestra.config.tree import ConfigTree
from palestra.config.yaml_text import lines_at, write_yaml
from palestra.errors import ConfigError, Problem
from palestra.system import file_and_line


class ServerType(StrEnum):
    """The three types of servers. The values are also their folder names and config keys."""

    MODEL = "responses_api_models"
    """A model server: it turns Responses API requests into calls of an inference endpoint."""
    AGENT = "responses_api_agents"
    """An agent: it runs the loop of model calls and tool calls of one rollout."""
    RESOURCES = "resources_servers"
    """A resources server: it holds an environment's state and tools, and verifies."""

    @property
    def noun(self) -> str:
        """What messages call one server of this type."""
        match self:
            case ServerType.MODEL:
                return "a model server"
            case ServerType.AGENT:
                return "an agent"
            case ServerType.RESOURCES:
                return "a resources server"


@dataclass(frozen=True)
class ServerRef:
    """A reference `{type: …, name: …}` in settings to another instance of the same configuration."""

    type: str
    name: str


@dataclass(frozen=True, slots=True)
class SettingOrigin:
    """Where a setting is written: its key, and the file with the path of keys there. Without a file,
    it is on the command line.
    """

    key: str
    file: Path | None
    steps: Sequence[Any]


def origin_texts(origins: Sequence[SettingOrigin]) -> list[str]:
    """Return the origins for messages, such as `policy_api_key (env.yaml:2)`. Each file is read once,
    for the lines.
    """
    keys_in: dict[Path, list[Sequence[Any]]] = {}
    for origin in origins:
        if origin.file is not None:
            keys_in.setdefault(origin.file, []).append(origin.steps)
    lines = {file: iter(lines_at(file, keys)) for file, keys in keys_in.items()}
    return [
        f"{origin.key} (command line)"
        if origin.file is None
        else f"{origin.key} ({file_and_line(origin.file, next(lines[origin.file]))})"
        for origin in origins
    ]


@dataclass(frozen=True)
class InstanceConfig:
    """One server instance: its type and implementation, its address, and its own settings."""

    name: str
    type: ServerType
    implementation: str
    """The name of the server's folder, `<server type>/<implementation>/`."""
    settings: ConfigTree = field(repr=False)
    """The server's own settings: the whole block except the fleet's keys."""
    host: str
    port: int | None
    """The configured port. None: a port is allocated when the server is started."""
    entrypoint: str = "app.py"
    """The file that holds the server, relative to the server's folder."""
    num_workers: int = 1
    """The number of processes that share the load."""
    domain: str | None = None
    description: str | None = None
    verified: bool = False
    value: str | None = None
    datasets: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)
    placement: str | None = None
    """`embedded`, `process` or `remote`; None leaves the choice to the fleet."""
    refs: tuple[ServerRef, ...] = ()
    """Every server reference in the settings, each once, in order."""
    folder: Path | None = None
    """The folder that holds the entrypoint; None for a remote instance."""
    setting_files: Mapping[str, Path] = field(default_factory=dict, repr=False, compare=False)
    """The config file that each key of the server's block comes from, where it is known."""
    setting_references: Mapping[str, tuple[str, str]] = field(
        default_factory=dict, repr=False, compare=False
    )
    """The file and the key in it that a setting refers to, such as `env.yaml` and `policy_api_key`,
    where its whole value is that reference. The file is empty when the command line sets that key.
    """
    file: Path | None = field(default=None, repr=False, compare=False)
    """The config file with the server's block, the last one of several; None when no file has it."""

    @property
    def address(self) -> str:
        """The configured `host:port`. The port is `auto` until one is allocated."""
        return f"{self.host}:{'auto' if self.port is None else self.port}"

    def located(self, problem: Problem, *steps: Any) -> Problem:
        """Return a problem of the setting at a path of keys with its file and line, with which its
        message begins. Unchanged where no file has the setting.
        """
        path = self.setting_files.get(steps[0]) if steps else self.file
        return self._located_in(path, problem, steps)

    def located_in_block(self, problem: Problem, key: Any) -> Problem:
        """Return a problem of a missing setting with the file and line of the block that lacks it."""
        return self._located_in(self.file, problem, (key,))

    def _located_in(self, path: Path | None, problem: Problem, steps: Sequence[Any]) -> Problem:
        return located(problem, path, (self.name, self.type, self.implementation, *steps))

    def referenced(self, server_type: ServerType) -> tuple[str, ...]:
        """Return the names of the instances of `server_type` that the settings refer to."""
        return tuple(ref.name for ref in self.refs if ref.type == server_type)

    def secret_origins(self) -> list[SettingOrigin]:
        """Return where the secrets among the settings come from, as far as it is known."""
        keys = [key for key, value in self.settings.items() if value and is_secret_name(key)]
        return [origin for key in keys if (origin := self._origin_of(key)) is not None]

    def _origin_of(self, key: str) -> SettingOrigin | None:
        if key in self.setting_references:
            file, referenced = self.setting_references[key]
            return SettingOrigin(referenced, Path(file) if file else None, referenced.split("."))
        path = self.setting_files.get(key)
        if path is None or path.is_relative_to(PACKAGE_ROOT):
            return None
        return SettingOrigin(key, path, (self.name, self.type, self.implementation, key))

    @property
    def is_shipped(self) -> bool:
        """Whether the server's code is part of Palestra."""
        return self.folder is not None and self.folder.is_relative_to(PACKAGE_ROOT)


@dataclass(frozen=True)
class ResolvedConfig:
    """The final configuration. Treat `tree` as read-only."""

    tree: ConfigTree = field(repr=False)
    """The merged, composed and interpolated tree, in plain dicts, lists and scalars."""
    instances: Mapping[str, InstanceConfig]
    sources: tuple[Path, ...] = ()
    """The files that were read, from lowest to highest precedence."""
    warnings: tuple[str, ...] = ()
    """Messages for the user about settings that are suspicious but allowed."""
    command_keys: frozenset[str] = frozenset()
    """The top-level keys that the command line sets, by overrides or by flags."""
    takers: Mapping[str, str] = field(default_factory=dict)
    """The blocks of the first level that are gone since another one inherits from them, each with the
    place of the `_inherit_from` that took it.
    """

    def instance(self, name: str) -> InstanceConfig:
        """Return the instance named `name`. Raises ConfigError: it does not exist; the error lists
        all names.
        """
        instance = self.instances.get(name)
        if instance is None:
            raise ConfigError(
                f"there is no server instance {name!r}{did_you_mean(name, self.instances)}",
                hint=f"instances: {', '.join(self.instances) or 'none'}",
            )
        return instance

    def instances_of(self, server_type: ServerType | str) -> tuple[InstanceConfig, ...]:
        """Return the instances of `server_type`, in the order of the configuration."""
        return tuple(i for i in self.instances.values() if i.type == server_type)

    def origins_of_secrets(self, name: str) -> Sequence[str]:
        """Return where the secrets of the instance `name` come from, for messages; nothing where it
        is not known.
        """
        instance = self.instances.get(name)
        return origin_texts(instance.secret_origins()) if instance is not None else ()

    @cached_property
    def secrets(self) -> frozenset[str]:
        """Every secret value in the tree, as input for a `Redactor`."""
        return secrets_in(self.tree, os.environ)


def dump_yaml(config: ResolvedConfig) -> str:
    """Return the resolved configuration as YAML for people, with secrets masked."""
    return write_yaml(redact(config.tree, config.secrets))
