"""`nemo_gym.rollout_observability`: the types in which an agent reports what happened in a rollout.

A report is a typed trajectory: invocations, model calls, tool calls. `ObservationGap` states what
could not be observed. Every type accepts more fields than it lists.
"""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class Observation(BaseModel):
    """The base of all observations. A field that was not given is None."""

    model_config = ConfigDict(extra="allow", protected_namespaces=(), arbitrary_types_allowed=True)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            return super().__getattr__(name)  # type: ignore[misc]  # pydantic's own
        return (self.__pydantic_extra__ or {}).get(name)


class ObservationGap(Observation):
    """Something that could not be observed, and why."""

    reason: str | None = None
    detail: str | None = None


class ModelCallRef(Observation):
    """A reference to one model call."""


class ModelCallObservation(Observation):
    """One model call."""


class ToolCallObservation(Observation):
    """One tool call."""


class ContextCompactionObservation(Observation):
    """One compaction: the agent made its context shorter."""


class TurnObservation(Observation):
    """One turn of an agent."""


class AgentInvocation(Observation):
    """One run of an agent, or of another agent that it started."""


class AgentEpisode(Observation):
    """An agent's work from start to end, with its model calls and tool calls."""

    model_calls: list[Any] = Field(default_factory=list)
    tool_calls: list[Any] = Field(default_factory=list)


class AgentObservationBundle(Observation):
    """All observations of an agent for one rollout."""

    invocations: list[Any] = Field(default_factory=list)
    episodes: list[Any] = Field(default_factory=list)
    turns: list[Any] = Field(default_factory=list)
    model_calls: list[Any] = Field(default_factory=list)
    tool_calls: list[Any] = Field(default_factory=list)
    compactions: list[Any] = Field(default_factory=list)
    gaps: list[Any] = Field(default_factory=list)


def __getattr__(name: str) -> Any:
    if not name[:1].isupper():
        raise AttributeError(f"module 'nemo_gym.rollout_observability' has no attribute {name!r}")
    observation_class = type(name, (Observation,), {"__module__": __name__})
    globals()[name] = observation_class  # the same class for everybody who asks
    return observation_class
