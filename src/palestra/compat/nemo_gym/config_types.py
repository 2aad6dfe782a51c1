"""`nemo_gym.config_types`: settings of servers, references between them, aggregate metrics."""

from typing import Any, Literal

from omegaconf import OmegaConf
from pydantic import BaseModel, ConfigDict, Field

from palestra.compat.openai_types.base import OpenAIModel
from palestra.config import Domain


class ModelServerRef(BaseModel):
    """A reference to a model server of the same fleet."""

    type: Literal["responses_api_models"] = "responses_api_models"
    name: str


class ResourcesServerRef(BaseModel):
    """A reference to a resources server of the same fleet."""

    type: Literal["resources_servers"] = "resources_servers"
    name: str


class AgentServerRef(BaseModel):
    """A reference to an agent of the same fleet."""

    type: Literal["responses_api_agents"] = "responses_api_agents"
    name: str


ServerRef = ModelServerRef | ResourcesServerRef | AgentServerRef


class BaseServerConfig(BaseModel):
    """Host and port of a server. Settings that a class does not declare are kept."""

    model_config = ConfigDict(extra="allow", protected_namespaces=(), arbitrary_types_allowed=True)

    host: str = "127.0.0.1"
    port: int | None = None
    num_workers: int | None = None


class BaseRunServerConfig(BaseServerConfig):
    """The settings of a server that is started from a file in its folder."""

    entrypoint: str = "app.py"
    domain: str | None = None


class BaseRunServerInstanceConfig(BaseRunServerConfig):
    """The settings of one server instance. `name` is the instance's name in the configs."""

    name: str = ""


class DatasetConfig(OpenAIModel):
    """The settings of one dataset of an agent."""

    name: str
    type: str
    jsonl_fpath: str | None = None
    num_repeats: int = 1
    license: str | None = None


class BenchmarkDatasetConfig(DatasetConfig):
    """The settings of an agent's dataset of type benchmark."""

    type: Literal["benchmark"] = "benchmark"
    prepare_script: str | None = None
    prompt_config: str | None = None


class BaseNeMoGymCLIConfig(BaseModel):
    """The settings of a command. Unknown settings are allowed: they belong to other commands."""

    model_config = ConfigDict(extra="ignore")


class AggregateMetricsRequest(BaseModel):
    """A request for metrics: the verify responses of many rollouts."""

    verify_responses: list[dict[str, Any]]


class AggregateMetrics(BaseModel):
    """The metrics that a server reports over many rollouts."""

    group_level_metrics: list[dict[str, Any]] = Field(default_factory=list)
    agent_metrics: dict[str, Any] = Field(default_factory=dict)
    key_metrics: dict[str, Any] = Field(default_factory=dict)


def is_server_ref(value: Any) -> ServerRef | None:
    """Return the server reference that the mapping `value` describes; None when it describes none."""
    if not hasattr(value, "keys") or set(value) != {"type", "name"}:
        return None
    kinds: tuple[type[BaseModel], ...] = (ModelServerRef, ResourcesServerRef, AgentServerRef)
    for kind in kinds:
        if kind.model_fields["type"].default == value["type"]:
            return kind.model_validate(dict(value))  # type: ignore[return-value]
    return None


__all__ = [
    "AgentServerRef",
    "AggregateMetrics",
    "AggregateMetricsRequest",
    "BaseNeMoGymCLIConfig",
    "BaseRunServerConfig",
    "BaseRunServerInstanceConfig",
    "BaseServerConfig",
    "BenchmarkDatasetConfig",
    "DatasetConfig",
    "Domain",
    "ModelServerRef",
    "OmegaConf",
    "ResourcesServerRef",
    "ServerRef",
    "is_server_ref",
]
