"""Aggregate metrics of a finished run: each environment computes metrics of its own rollouts."""

import asyncio
import time
from array import array
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from palestra.observability import ATTACHMENTS
from palestra.rollouts.journal import write_json
from palestra.schema import (
    AGENT_REF,
    CREATE_PARAMS,
    EXTRACTED_ANSWER,
    ROLLOUT_INDEX,
    TASK_INDEX,
    AggregateMetrics,
    AggregateMetricsRequest,
    JsonDict,
    JsonObject,
    encode_json,
)
from palestra.transport import CallContext, ServerClient, calling

LONGEST_S = 600.0
LARGEST = 2000
"""The maximum size, in bytes of JSON, of a text or container that is sent with a row."""
ALWAYS = frozenset({EXTRACTED_ANSWER, TASK_INDEX, AGENT_REF})
"""Fields that are sent whatever their size: the answer for majority votes, the task index and the
agent."""
_MOST_SHARED = 1 << 14
_RESPONSE = "response"
_LEFT_OUT = frozenset({CREATE_PARAMS, _RESPONSE, *ATTACHMENTS})


async def aggregate(
    client: ServerClient, output: Path, destination: Path, *, timeout_s: float = LONGEST_S
) -> list[JsonDict]:
    """Request from each agent the metrics of its rollouts in `output`, write them to `destination`,
    and return them.

    Each agent has `timeout_s` to respond, at most LONGEST_S. Raises TimeoutError: the time is over.
    `CallError`: the call failed.

    Rows are sent in task order, so that no metric depends on which rollout ended first. To save
    memory, rows go without `responses_create_params`, without `response` except its usage,
    without observations (captured calls, trajectories), and without fields that hold a text or container of more than LARGEST bytes. Such a field is removed
    from all rows of its agent, so its metrics are absent rather than partial. Only one agent's rows
    are in memory at a time, and equal values are stored once.
    """
    aggregates = []
    for name, agent_rows in sorted(_by_agent(output).items()):
        # Handed over as it is: validated it would be copied.
        request = AggregateMetricsRequest.model_construct(
            verify_responses=_rows(output, agent_rows)
        )
        limit_s = min(timeout_s, LONGEST_S)
        with calling(CallContext(deadline=time.monotonic() + limit_s)):
            async with asyncio.timeout(limit_s):
                metrics = await client.peer(name).call(
                    "/aggregate_metrics", request, AggregateMetrics
                )
        del request  # before the next one is made
        aggregates.append({"agent_ref": agent_rows.ref, **metrics.model_dump(mode="json")})
    write_json(destination, aggregates)
    return aggregates


@dataclass(slots=True)
class _Own:
    """The byte offsets of one agent's rows in the file. `ref`: the agent's `agent_ref`."""

    ref: Any
    offsets: "array[int]" = field(default_factory=lambda: array("q"))


def _by_agent(output: Path) -> dict[str, _Own]:
    by_agent: dict[str, _Own] = {}
    offset = 0
    with output.open("rb") as lines:
        for line in lines:
            if line.strip():
                ref = orjson.loads(line)[AGENT_REF]
                by_agent.setdefault(ref["name"], _Own(ref)).offsets.append(offset)
            offset += len(line)
    return by_agent


def _rows(output: Path, agent_rows: _Own) -> list[JsonDict]:
    """Return the agent's rows in the form that is sent, in task order."""
    light = _Lightener()
    rows = []
    with output.open("rb") as file:
        for offset in agent_rows.offsets:
            file.seek(offset)
            rows.append(light.row(orjson.loads(file.readline())))
    for name in light.too_large:
        for row in rows:
            row.pop(name, None)
    rows.sort(key=lambda row: (row[TASK_INDEX], row[ROLLOUT_INDEX]))
    return rows


class _Lightener:
    """Reduces rows for sending: removes bodies and large fields, and stores equal values once."""

    def __init__(self) -> None:
        self.too_large: set[str] = set()
        """Fields that were too large in some row."""
        self._shared: dict[str | bytes, Any] = {}

    def row(self, row: JsonObject) -> JsonDict:
        light_row = {
            name: self._share(value)
            for name, value in row.items()
            if name not in _LEFT_OUT and self._fits(name, value)
        }
        usage = (row.get(_RESPONSE) or {}).get("usage")
        if isinstance(usage, dict):
            # Its counts differ from row to row; what they consist of mostly does not.
            usage = {name: self._share(value) for name, value in usage.items()}
        light_row[_RESPONSE] = {"usage": usage}
        return light_row

    def _fits(self, name: str, value: object) -> bool:
        if name in self.too_large:
            return False
        if name in ALWAYS or not isinstance(value, str | list | dict):
            return True
        if len(encode_json(value)) <= LARGEST:
            return True
        self.too_large.add(name)
        return False

    def _share(self, value: Any) -> Any:
        """Return the equal value of a recent row if there is one, else `value`."""
        if isinstance(value, str):
            key: str | bytes = value
        elif isinstance(value, list | dict):
            key = encode_json(value)
        else:
            return value
        if len(self._shared) >= _MOST_SHARED:
            self._shared.clear()
        return self._shared.setdefault(key, value)
