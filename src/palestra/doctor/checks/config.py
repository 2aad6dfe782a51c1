"""Config checks: can the configuration be loaded, and can its servers be created?"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel

from palestra.config import InstanceConfig, ResolvedConfig, ServerType
from palestra.doctor.checking import Looked
from palestra.doctor.faults import finding_of
from palestra.doctor.findings import Finding
from palestra.doctor.quoting import quote_named, quote_places
from palestra.doctor.tabled import tabled
from palestra.errors import ConfigError, PalestraError
from palestra.fleet import (
    build_server,
    requirements_of,
    requirements_place,
    server_client,
    start_timeout_of,
    starting_within,
    unsatisfied,
)
from palestra.sandbox import SandboxSettings
from palestra.server import Server

Part = TypeVar("Part", bound=BaseModel)


def findings_of_load(error: ConfigError, sources: Collection[Path]) -> tuple[Finding, ...]:
    """Return a finding, with its config line, for each problem of a configuration that cannot be
    loaded.
    """
    errors = (
        ConfigError(
            p.message.split("\n")[0], hint=p.hint or error.hint, cause=p.cause, problems=(p,)
        )
        for p in error.problems
    )
    return tuple(_with_lines(only, sources) for only in errors)


def _with_lines(error: PalestraError, sources: Collection[Path]) -> Finding:
    """Return the finding of an error with the lines of config files that have its problems."""
    return finding_of(error, evidence=quote_places(error) or quote_named(error.message, sources))


@dataclass(frozen=True, slots=True)
class UnstartedServers:
    """The servers of a configuration, as objects that are never started."""

    servers: Mapping[str, Server]
    looked: Looked


def make_servers(config: ResolvedConfig) -> UnstartedServers:
    """Create every server whose requirements this interpreter meets: import its code, read its
    settings.
    """
    servers: dict[str, Server] = {}
    findings: list[Finding] = []
    elsewhere: list[str] = []
    client = server_client({}, config.tree)
    for instance in config.instances.values():
        requirements = requirements_place(instance)
        if requirements is None or unsatisfied(requirements_of(requirements)):
            elsewhere.append(instance.name)
            continue
        try:
            with starting_within(start_timeout_of(config.tree)):
                servers[instance.name] = build_server(instance, client)
        except PalestraError as error:
            findings.append(_not_made(instance, config, error))
        except Exception as error:  # an author's class may raise anything when it is made
            failure = ConfigError(
                f"the server {instance.name} cannot be created: {type(error).__name__}: {error}"
            )
            findings.append(_not_made(instance, config, failure))
    summary = f"{len(servers)} of {len(config.instances)} servers can be made"
    if elsewhere:
        summary += f"; not in this process: {', '.join(elsewhere)}"
    return UnstartedServers(servers, Looked(summary, tuple(findings)))


def _not_made(instance: InstanceConfig, config: ResolvedConfig, error: PalestraError) -> Finding:
    finding = _with_lines(error, config.sources)
    if instance.name in finding.symptom:
        return finding
    return replace(finding, symptom=f"{instance.name}: {finding.symptom}")


def sandboxes_of(servers: Mapping[str, Server]) -> list[tuple[str, SandboxSettings]]:
    """Return the sandbox settings of every server that has any, with the server's name."""
    return [
        (name, sandbox_settings)
        for name, server in servers.items()
        for sandbox_settings in parts_of(server.config, SandboxSettings)
    ]


def parts_of(config: BaseModel, kind: type[Part]) -> Iterable[Part]:
    """Yield the settings of type `kind` in a server's `config`: the config itself and its fields."""
    if isinstance(config, kind):
        yield config
    for name in type(config).model_fields:
        part = getattr(config, name, None)
        if isinstance(part, kind):
            yield part


def check_agents(config: ResolvedConfig) -> Looked:
    """Check whether the configuration has an agent that can run rows."""
    agents = config.instances_of(ServerType.AGENT)
    if agents:
        return Looked(", ".join(agent.name for agent in agents))
    return Looked("no agent", (tabled("config.no-agent", "the configuration has no agent"),))
