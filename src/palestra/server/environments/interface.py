"""The settings of an environment's server, and what it exchanges with its agent and its workers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from pydantic import Field

from palestra.sandbox import SandboxSettings
from palestra.schema import JsonDict, JsonObject, WireModel
from palestra.server.environments.environment import Environment
from palestra.server.environments.rewards import Verdict
from palestra.server.environments.services import CANDIDATE, REFERENCE, RolloutServices
from palestra.server.judging.comparing import SAME_SYSTEM, SAME_TEMPLATE
from palestra.server.judging.judge import Hearing, JudgeConfig


class EnvironmentConfig(JudgeConfig):
    """The settings of an environment in one file."""

    default_system: ClassVar[str] = SAME_SYSTEM
    default_template: ClassVar[str] = SAME_TEMPLATE
    places: ClassVar[tuple[str, ...]] = (REFERENCE, CANDIDATE)

    settings: JsonDict = Field(default_factory=dict)
    """The environment's own settings: values for the annotated attributes of its class."""

    class_name: str = ""
    """The class, or the decorated function; empty: the only environment of the file."""

    sandbox: SandboxSettings = Field(default_factory=SandboxSettings)
    """Where `self.sandbox` runs programs."""


class Seeded(WireModel):
    """The answer of `/seed_session`: what the agent must know of the environment."""

    takes_turns: bool = False
    """Whether `/step` answers a turn of the model without calls."""
    max_turns: int | None = None
    """How often the agent calls the model, at most; None: no limit."""


@dataclass(frozen=True, slots=True)
class Rollout:
    """The object of one rollout, and what it uses."""

    environment: Environment
    services: RolloutServices
    hearing: Hearing
    row: JsonDict
    """The author's own fields of the row."""


class VerifyCalls(Protocol):
    """Verifies answers in other processes."""

    async def start(self) -> None:
        """Start one process and import the environment in it."""

    async def verdict(
        self, row: JsonObject, arguments: Mapping[str, Any], stored_seed: str, /
    ) -> Verdict:
        """Call `verify` of a new object of the row with `arguments`. Raises CallError."""

    async def close(self) -> None:
        """End the processes."""
