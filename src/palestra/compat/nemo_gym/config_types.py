"""`nemo_gym.config_types`: settings of servers, references between them, aggregate metrics."""

from enum import StrEnum
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from palestra.compat.openai_types.base import WireModel


class ModelServerRef(BaseModel):
    """Another instance of the fleet: a model server."""

    type: Literal["responses_api_models"] = "responses_api_models"
    name: str


class ResourcesServerRef(BaseModel):
    """Another instance of the fleet: a resources server."""

    type: Literal["resources_servers"] = "resources_servers"
    name: str


class AgentServerRef(BaseModel):
    """Another instance of the fleet: an agent."""

    type: Literal["responses_api_agents"] = "responses_api_agents"
    name: str


ServerRef = ModelServerRef | ResourcesServerRef | AgentServerRef


class BaseServerConfig(BaseModel):
    """Where a server listens. Settings that a class does not declare are kept."""

    model_config = ConfigDict(extra="allow", protected_namespaces=(), arbitrary_types_allowed=True)

    host: str = "127.0.0.1"
    port: int | None = None
    num_workers: int | None = None


class BaseRunServerConfig(BaseServerConfig):
    """A server that is started from a file of its folder."""

    entrypoint: str = "app.py"
    domain: str | None = None


class BaseRunServerInstanceConfig(BaseRunServerConfig):
    """One instance: `name` is its name in the configs."""

    name: str = ""


class Domain(StrEnum):
    """What a resources server is about."""

    MATH = "math"
    CODING = "coding"
    AGENT = "agent"
    KNOWLEDGE = "knowledge"
    INSTRUCTION_FOLLOWING = "instruction_following"
    LONG_CONTEXT = "long_context"
    SAFETY = "safety"
    GAMES = "games"
    TRANSLATION = "translation"
    E2E = "e2e"
    RLHF = "rlhf"
    OTHER = "other"


class DatasetConfig(WireModel):
    """One dataset of an agent."""

    name: str
    type: str
    jsonl_fpath: str | None = None
    num_repeats: int = 1
    license: str | None = None


class BaseNeMoGymCLIConfig(BaseModel):
    """Settings of a command; unknown ones are another command's."""

    model_config = ConfigDict(extra="ignore")


class AggregateMetricsRequest(BaseModel):
    """Verify responses of many rollouts."""

    verify_responses: list[dict[str, Any]]


class AggregateMetrics(BaseModel):
    """What a server reports over many rollouts."""

    group_level_metrics: list[dict[str, Any]] = Field(default_factory=list)
    agent_metrics: dict[str, Any] = Field(default_factory=dict)
    key_metrics: dict[str, Any] = Field(default_factory=dict)


def is_server_ref(value: Any) -> ServerRef | None:
    """The reference that a mapping of settings is; None when it is none."""
    if not hasattr(value, "keys") or set(value) != {"type", "name"}:
        return None
    kinds: tuple[type[BaseModel], ...] = (ModelServerRef, ResourcesServerRef, AgentServerRef)
    for kind in kinds:
        if kind.model_fields["type"].default == value["type"]:
            return kind.model_validate(dict(value))  # type: ignore[return-value]
    return None
