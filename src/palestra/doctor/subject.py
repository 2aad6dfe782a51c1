"""The run that is examined, and the facts that the checks find out and share."""

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from palestra.config import InstanceConfig, ResolvedConfig, ServerType
from palestra.doctor.checks.data import Planned
from palestra.doctor.checks.model import ModelEndpoint
from palestra.doctor.findings import has_errors
from palestra.doctor.forecast import RequestPace
from palestra.doctor.survey import AgentRows
from palestra.schema import JsonObject
from palestra.server import Server
from palestra.settings import CollectSettings
from palestra.transport import ServerClient

UNBOUNDED: Final = 16_384
"""Concurrent rollouts assumed for the memory check when the run has no limit."""


@dataclass(frozen=True, slots=True)
class ExaminedRun:
    """The run to examine."""

    config: ResolvedConfig
    """The configuration of the fleet that the run would use."""
    own: ResolvedConfig
    """The command's own configuration, which has the prices."""
    settings: CollectSettings
    semantics: JsonObject
    version: str
    open: Callable[[], contextlib.AbstractAsyncContextManager[ServerClient]]
    """Opens the fleet: starts it for the examination, or connects to a running one."""
    descriptors: Callable[[ServerClient, int], str]
    """Checks whether the open-file limit suffices for this many rollouts: collect's
    `check_descriptors`."""
    most_in_flight: Callable[[ServerClient], int]
    """Returns how many concurrent rollouts the open-file limit allows."""


@dataclass(slots=True)
class SharedFacts:
    """Facts that one check finds out and other checks need."""

    servers: Mapping[str, Server] = field(default_factory=dict)
    """The servers as objects that are never started."""
    planned: Planned | None = None
    endpoints: dict[str, ModelEndpoint] = field(default_factory=dict)
    paces: dict[str, RequestPace] = field(default_factory=dict)
    """For each agent, the measured pace with the bytes per token of its own prompts."""
    in_flight: int = UNBOUNDED
    complete: bool = True

    @property
    def remaining(self) -> int:
        """The number of rollouts still to run; 0 when nothing could be planned."""
        planned = self.planned
        return planned.run.remaining if planned is not None and planned.run is not None else 0

    @property
    def rows(self) -> list[AgentRows]:
        """The rows of each agent."""
        surveyed = self.planned.survey if self.planned is not None else None
        return list(surveyed.agents.values()) if surveyed is not None else []

    def environments(self, config: ResolvedConfig) -> dict[str, list[AgentRows]]:
        """Return for each environment the rows of the agents that use it."""
        rows_of_environment: dict[str, list[AgentRows]] = {}
        for rows in self.rows:
            for name in config.instance(rows.agent).referenced(ServerType.RESOURCES):
                rows_of_environment.setdefault(name, []).append(rows)
        return rows_of_environment

    def endpoint_of(self, agent: InstanceConfig) -> ModelEndpoint | None:
        """Return the facts about the endpoint of an agent's first model; None when there are none."""
        names = agent.referenced(ServerType.MODEL)
        return next((self.endpoints[name] for name in names if name in self.endpoints), None)

    def judges(self, environment: InstanceConfig) -> bool:
        """Whether the environment calls a working model. Faults of its models are already reported."""
        return any(not has_errors(e.looked.findings) for e in self._models_of(environment))

    def broken_models(self, environment: InstanceConfig) -> tuple[str, ...]:
        """Return the models that the environment calls and that have errors."""
        models = self._models_of(environment)
        return tuple(model.name for model in models if has_errors(model.looked.findings))

    def _models_of(self, environment: InstanceConfig) -> list[ModelEndpoint]:
        models = environment.referenced(ServerType.MODEL)
        return [self.endpoints[name] for name in models if name in self.endpoints]
