"""What loading a configuration gives: typed instances over one resolved tree.

Reprs show names, never settings: a repr ends up in logs, and settings hold secrets.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any

from palestra.config.paths import PACKAGE_ROOT
from palestra.config.problems import did_you_mean
from palestra.config.redact import redact, secrets_in
from palestra.config.tree import ConfigTree
from palestra.config.yaml_text import write_yaml
from palestra.errors import ConfigError


class ServerType(StrEnum):
    """The three kinds of servers; also the names of their folders and config keys."""

    MODEL = "responses_api_models"
    """Turns Responses API requests into calls of a real endpoint."""
    AGENT = "responses_api_agents"
    """Runs the loop of model calls and tool calls of one rollout."""
    RESOURCES = "resources_servers"
    """Holds state and tools of an environment, and verifies."""


@dataclass(frozen=True)
class ServerRef:
    """`{type: …, name: …}` in settings: another instance of the same configuration."""

    type: str
    name: str


@dataclass(frozen=True)
class InstanceConfig:
    """One server instance: what it is, where it lives, and its own settings."""

    name: str
    type: ServerType
    implementation: str
    """Names the folder `<server type>/<implementation>/`."""
    settings: ConfigTree = field(repr=False)
    """The server's own settings: all of the block except the fleet's keys."""
    host: str
    port: int | None
    """None: a port is allocated when the server is started."""
    entrypoint: str = "app.py"
    """The file in the folder that holds the server, relative to it."""
    num_workers: int = 1
    """Processes that share the load."""
    domain: str | None = None
    description: str | None = None
    verified: bool = False
    value: str | None = None
    datasets: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)
    placement: str | None = None
    """`embedded`, `process` or `remote`; None leaves the choice to the fleet."""
    refs: tuple[ServerRef, ...] = ()
    """Every reference found anywhere in the settings, each once, in order."""
    folder: Path | None = None
    """The folder that holds the entrypoint; None when remote."""

    @property
    def address(self) -> str:
        """`host:port` as configured; the port is `auto` until one is allocated."""
        return f"{self.host}:{'auto' if self.port is None else self.port}"

    def referenced(self, server_type: ServerType) -> tuple[str, ...]:
        """The names of the instances of that type that the settings refer to."""
        return tuple(ref.name for ref in self.refs if ref.type == server_type)

    @property
    def is_shipped(self) -> bool:
        """Whether its code came with Palestra."""
        return self.folder is not None and self.folder.is_relative_to(PACKAGE_ROOT)


@dataclass(frozen=True)
class ResolvedConfig:
    """The configuration as the system sees it. Treat `tree` as read-only."""

    tree: ConfigTree = field(repr=False)
    """Plain dicts, lists and scalars; merged, composed and interpolated."""
    instances: Mapping[str, InstanceConfig]
    sources: tuple[Path, ...] = ()
    """The files that were read, from lowest to highest precedence."""
    warnings: tuple[str, ...] = ()
    """Sentences for the user about what is suspicious but allowed."""

    def instance(self, name: str) -> InstanceConfig:
        """The instance of that name; a `ConfigError` lists those that exist."""
        instance = self.instances.get(name)
        if instance is None:
            raise ConfigError(
                f"there is no server instance {name!r}{did_you_mean(name, self.instances)}",
                hint=f"instances: {', '.join(self.instances) or 'none'}",
            )
        return instance

    def instances_of(self, server_type: ServerType | str) -> tuple[InstanceConfig, ...]:
        """The instances of one type, in the order of the configuration."""
        return tuple(i for i in self.instances.values() if i.type == server_type)

    @cached_property
    def secrets(self) -> frozenset[str]:
        """Every secret value in the tree; give them to a `Redactor`."""
        return secrets_in(self.tree, os.environ)


def dump_yaml(config: ResolvedConfig) -> str:
    """The resolved configuration as YAML for people, exactly as the system sees it, secrets masked."""
    return write_yaml(redact(config.tree, config.secrets))
