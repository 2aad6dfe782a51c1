"""Requests and responses between the servers of a fleet.

A task row is sent as a whole: `responses_create_params` plus the fields that the verifier needs. An
environment declares these fields in its own subclasses of `VerifyRequest` and `VerifyResponse`.
"""

from pydantic import Field
from typing_extensions import TypedDict  # pydantic takes the standard one from 3.12 on

from palestra.schema.items import WireModel
from palestra.schema.json_types import JsonDict
from palestra.schema.responses import Response, ResponseCreateParams

VERIFIES_EPISODES = "x-palestra-verifies-episodes"
"""In the OpenAPI document, of `/verify`: it scores the episode that `/reset` and `/step` played in
its session, and nothing else."""
TRANSFORMS = "x-palestra-transforms"
"""A key in a published JSON Schema. True means that the server accepts more than the schema
describes.

The value `TRANSFORMS_VALUE` means that only the field's value may differ; the field itself is still
required.
"""
TRANSFORMS_VALUE = "value"


REWARD_COMPONENTS = "reward_components"
"""The field of a verify response with the parts of the reward, by name."""

EXTRACTED_ANSWER = "extracted_answer"
"""The field of a verify response with the answer that the verifier read from the response."""

EXPECTED_ANSWER = "expected_answer"
"""The field of a task row with the right answer."""

TOOL_FAILURES = "tool_failures"
"""The field of a verify response that lists the rollout's tool calls with an unexpected exception,
as `[{"tool": …, "type": …, "message": …}]`; and those that an own agent made wrongly. Absent without
such calls."""

OUTSIDE_REWARD_RULES = "outside_reward_rules"
"""The field of a verify response whose reward lies outside the environment's `RewardRules`: the lowest
and the highest reward of the rules. Absent for other rewards."""

TURN_LIMIT_REACHED = "turn_limit_reached"
"""The field of a scored row: whether the limit of turns ended the rollout, and not the model or the
environment. Only in rows of a rollout with a limit."""
UNUSED_WEIGHTS = "unused_weights"
"""The field of a verify response that lacks a component for some of the environment's `weights`: the
names of these weights. Absent for other responses."""


class RunRequest(WireModel):
    """The request of an agent's `POST /run`: one task row."""

    responses_create_params: ResponseCreateParams


class SeedSessionRequest(WireModel):
    """The request of `POST /seed_session`: the task row, sent before the first model call."""


class SeedSessionResponse(WireModel):
    """The response of `seed_session`, usually empty."""


class VerifyRequest(RunRequest):
    """The request of `POST /verify`: the task row and the agent's trajectory."""

    response: Response


class RewardEvidence(TypedDict):
    """The part of the trajectory that earned a component of the reward.

    Nothing rejects a span that lies outside of the text: whoever shows it says so.
    """

    item: int
    """The position of the item in `response.output`, from 0."""
    start: int
    """The first character of the span in the item's text. The text of a message is that of its
    parts, joined; of a call its arguments; of a tool's result its output."""
    end: int
    """The character after the span."""


class VerifyResponse(VerifyRequest):
    """The fields of the verify request, plus the reward, a finite number.

    `reward_components`: the named parts of the reward, if it has several. The environment's README
    explains how they add up to the reward. `reward_evidence`: for components, the parts of the
    trajectory that earned them; `palestra view` marks them.
    """

    reward: float
    reward_components: dict[str, float] | None = None
    reward_evidence: dict[str, list[RewardEvidence]] | None = None


class AggregateMetricsRequest(WireModel):
    """The request of `POST /aggregate_metrics`: the verify responses of many rollouts, without
    large bodies.
    """

    verify_responses: list[JsonDict]


class AggregateMetrics(WireModel):
    """The metrics over many rollouts that one environment returns."""

    group_level_metrics: list[JsonDict] = Field(default_factory=list)
    agent_metrics: JsonDict = Field(default_factory=dict)
    key_metrics: JsonDict = Field(default_factory=dict)
