"""What is examined, and what checks learn of it on their way."""

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
"""Rollouts at once of a run without a bound, as far as memory is concerned."""


@dataclass(frozen=True, slots=True)
class ExaminedRun:
    """A run that is to be examined."""

    config: ResolvedConfig
    """Of the fleet that the run would use."""
    own: ResolvedConfig
    """Of the command: its prices."""
    settings: CollectSettings
    semantics: JsonObject
    version: str
    open: Callable[[], contextlib.AbstractAsyncContextManager[ServerClient]]
    """The fleet: started for the examination, or one that runs."""
    descriptors: Callable[[ServerClient, int], str]
    """Whether so many rollouts have the open files they need: `check_descriptors` of collect."""
    most_in_flight: Callable[[ServerClient], int]
    """How many fit into them."""


@dataclass(slots=True)
class SharedFacts:
    """What checks have learned that others need."""

    servers: Mapping[str, Server] = field(default_factory=dict)
    """As objects that were never started."""
    planned: Planned | None = None
    endpoints: dict[str, ModelEndpoint] = field(default_factory=dict)
    paces: dict[str, RequestPace] = field(default_factory=dict)
    """By agent: what a prompt of its rows costs."""
    in_flight: int = UNBOUNDED
    complete: bool = True

    @property
    def remaining(self) -> int:
        """Rollouts still to run; 0 when nothing could be planned."""
        planned = self.planned
        return planned.run.remaining if planned is not None and planned.run is not None else 0

    @property
    def rows(self) -> list[AgentRows]:
        """The rows of each agent."""
        surveyed = self.planned.survey if self.planned is not None else None
        return list(surveyed.agents.values()) if surveyed is not None else []

    def environments(self, config: ResolvedConfig) -> dict[str, list[AgentRows]]:
        """Each environment with the rows of the agents that bring them there."""
        rows_of_environment: dict[str, list[AgentRows]] = {}
        for rows in self.rows:
            for name in config.instance(rows.agent).referenced(ServerType.RESOURCES):
                rows_of_environment.setdefault(name, []).append(rows)
        return rows_of_environment

    def endpoint_of(self, agent: InstanceConfig) -> ModelEndpoint | None:
        """What was learned of the first model of an agent."""
        names = agent.referenced(ServerType.MODEL)
        return next((self.endpoints[name] for name in names if name in self.endpoints), None)

    def judges(self, environment: InstanceConfig) -> bool:
        """Whether it asks a model that can be asked: what is wrong with one is told already."""
        return any(not has_errors(e.looked.findings) for e in self._models_of(environment))

    def broken_models(self, environment: InstanceConfig) -> tuple[str, ...]:
        """The models that it asks and that something is wrong with."""
        models = self._models_of(environment)
        return tuple(model.name for model in models if has_errors(model.looked.findings))

    def _models_of(self, environment: InstanceConfig) -> list[ModelEndpoint]:
        models = environment.referenced(ServerType.MODEL)
        return [self.endpoints[name] for name in models if name in self.endpoints]
