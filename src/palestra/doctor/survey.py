"""Read the rows of a planned run once: count them, measure prompts, group by agent, find tools."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import orjson

from palestra.rollouts import PreparedRun
from palestra.schema import (
    AGENT_REF,
    CREATE_PARAMS,
    ROLLOUT_INDEX,
    TASK_INDEX,
    JsonObject,
    read_jsonl,
)

MOST_SAMPLES: Final = 15
"""Largest number of sample rows kept per agent. With enough rows, at least half as many are kept.
"""
PROMPT_FIELDS: Final = ("instructions", "input", "tools")
"""The request fields that an endpoint turns into prompt tokens."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """The prompt of one task: its `bytes` as JSON, and the limit on output tokens, if any."""

    task: int
    bytes: int
    most_output: int | None


@dataclass(slots=True)
class AgentRows:
    """The rows of one agent."""

    agent: str
    rollouts: int = 0
    row_bytes: int = 0
    """Bytes of all the agent's materialized rows together, as its share of the file."""
    prompt_bytes: int = 0
    """Bytes of the prompts of all rollouts together."""
    first: JsonObject = field(default_factory=dict)
    longest: JsonObject = field(default_factory=dict)
    longest_prompt: int = 0
    """Bytes of the longest prompt."""
    samples: list[JsonObject] = field(default_factory=list)
    """Sample rows, spread evenly over all rows; the first row is always included."""
    stride: int = 1
    """One task in `stride` tasks is in `samples`."""
    with_tools: JsonObject | None = None
    """The first row that has tools."""
    prompts: list[Prompt] = field(default_factory=list)
    """The prompts, one for each task."""

    @property
    def most_output(self) -> int | None:
        """The highest limit on output tokens; None when at least one row has no limit."""
        limits = [prompt.most_output for prompt in self.prompts]
        limits_known = [limit for limit in limits if limit is not None]
        return max(limits_known) if limits_known and len(limits_known) == len(limits) else None


@dataclass(frozen=True, slots=True)
class Survey:
    """The rows of a run, by agent."""

    agents: Mapping[str, AgentRows]

    @property
    def rollouts(self) -> int:
        """The number of rollouts of all agents."""
        return sum(rows.rollouts for rows in self.agents.values())


def survey(planned: PreparedRun) -> Survey:
    """Read every materialized row and return the statistics by agent."""
    agents: dict[str, AgentRows] = {}
    size = 0
    for line in read_jsonl(planned.inputs):
        row = line.row
        name = row[AGENT_REF]["name"]
        rows = agents.get(name) or agents.setdefault(name, AgentRows(name))
        rows.rollouts += 1
        if row[ROLLOUT_INDEX] == 0:
            size = _add_task(rows, row)
        rows.prompt_bytes += size
    total = sum(rows.rollouts for rows in agents.values())
    written = planned.inputs.stat().st_size
    for rows in agents.values():
        rows.row_bytes = written * rows.rollouts // max(total, 1)
    return Survey(agents)


def _sample(rows: AgentRows, row: JsonObject) -> None:
    """Keep every n-th row as a sample; n doubles when there are too many samples."""
    if len(rows.prompts) % rows.stride:
        return
    rows.samples.append(row)
    if len(rows.samples) > MOST_SAMPLES:
        rows.samples = rows.samples[::2]
        rows.stride *= 2


def _add_task(rows: AgentRows, row: JsonObject) -> int:
    params = row[CREATE_PARAMS]
    size = len(orjson.dumps([params.get(name) for name in PROMPT_FIELDS]))
    limit = params.get("max_output_tokens")
    if not rows.prompts:
        rows.first = row
    _sample(rows, row)
    if size > rows.longest_prompt:
        rows.longest, rows.longest_prompt = row, size
    if rows.with_tools is None and params.get("tools"):
        rows.with_tools = row
    rows.prompts.append(
        Prompt(row[TASK_INDEX], size, limit if isinstance(limit, int) and limit > 0 else None)
    )
    return size
