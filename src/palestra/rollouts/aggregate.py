"""Aggregate metrics of a finished run: each environment reports over its own rollouts."""

import asyncio
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from palestra.rollouts.journal import write_whole
from palestra.schema import (
    AGENT_REF,
    CREATE_PARAMS,
    AggregateMetrics,
    AggregateMetricsRequest,
    read_jsonl,
)
from palestra.transport import CallContext, ServerClient, calling

LONGEST_S = 600.0


async def aggregate(
    client: ServerClient, output: Path, destination: Path, *, timeout_s: float = LONGEST_S
) -> list[dict[str, Any]]:
    """Ask each agent for the metrics of its rollouts in `output`, and write them.

    An agent has `timeout_s` to answer, and never more than LONGEST_S. Raises TimeoutError or
    `CallError` when it does not.

    Rows go without their bodies, and in task order, so that no metric depends on which rollout
    ended first.
    """
    by_agent: dict[str, list[dict[str, Any]]] = {}
    refs: dict[str, Any] = {}
    for line in read_jsonl(output):
        name = line.row[AGENT_REF]["name"]
        refs[name] = line.row[AGENT_REF]
        by_agent.setdefault(name, []).append(_stripped(line.row))
    found = []
    for name in sorted(by_agent):
        rows = sorted(
            by_agent[name], key=lambda row: (row["_ng_task_index"], row["_ng_rollout_index"])
        )
        request = AggregateMetricsRequest(verify_responses=rows)
        limit_s = min(timeout_s, LONGEST_S)
        with calling(CallContext(deadline=time.monotonic() + limit_s)):
            async with asyncio.timeout(limit_s):
                metrics = await client.peer(name).call(
                    "/aggregate_metrics", request, AggregateMetrics
                )
        found.append({"agent_ref": refs[name], **metrics.model_dump(mode="json")})
    write_whole(destination, found)
    return found


def _stripped(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row without its conversation; usage stays, because metrics count tokens."""
    kept = {key: value for key, value in row.items() if key not in {CREATE_PARAMS, "response"}}
    kept["response"] = {"usage": (row.get("response") or {}).get("usage")}
    return kept
