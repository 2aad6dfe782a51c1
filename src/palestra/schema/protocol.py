"""Requests and answers between the servers of a fleet.

A task row travels whole: `responses_create_params` plus whatever fields the verifier needs,
which subclasses declare. An environment declares its own `VerifyRequest` and `VerifyResponse`
by subclassing these.
"""

from pydantic import Field

from palestra.schema.items import WireModel
from palestra.schema.json_types import JsonDict
from palestra.schema.responses import Response, ResponseCreateParams

TRANSFORMS = "x-palestra-transforms"
"""Stands, as true, in a published JSON Schema where the server takes more than it says.

As `TRANSFORMS_VALUE` where only the value may be another one: the field must still be there.
"""
TRANSFORMS_VALUE = "value"


TOOL_FAILURES = "tool_failures"
"""Of a verify response: the tool calls of its rollout that ended in an exception nobody meant, as
`[{"tool": …, "type": …, "message": …}]`. Absent when there was none."""


class RunRequest(WireModel):
    """`POST /run` of an agent: one task row."""

    responses_create_params: ResponseCreateParams


class SeedSessionRequest(WireModel):
    """`POST /seed_session`: the task row, before the first model call."""


class SeedSessionResponse(WireModel):
    """What an environment answers to `seed_session`; usually nothing."""


class VerifyRequest(RunRequest):
    """`POST /verify`: the task row and the trajectory that the agent produced."""

    response: Response


class VerifyResponse(VerifyRequest):
    """The verify request with its reward, a finite number.

    When the reward has several named parts they are in `reward_components`, and the
    environment's README states how they make the total.
    """

    reward: float
    reward_components: dict[str, float] | None = None


class AggregateMetricsRequest(WireModel):
    """`POST /aggregate_metrics`: verify responses of many rollouts, bodies stripped."""

    verify_responses: list[JsonDict]


class AggregateMetrics(WireModel):
    """Metrics over many rollouts, as one environment reports them."""

    group_level_metrics: list[JsonDict] = Field(default_factory=list)
    agent_metrics: JsonDict = Field(default_factory=dict)
    key_metrics: JsonDict = Field(default_factory=dict)
