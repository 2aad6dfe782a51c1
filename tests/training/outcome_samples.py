"""Outcomes as a client yields them, for tests of what is made of them."""

from collections.abc import Sequence
from typing import Any

from palestra.training import (
    Chain,
    Completed,
    Failed,
    FailureClass,
    RawRow,
    Timings,
    TokenUsage,
    Turn,
)

FIRST = Turn([1, 2, 3], [4, 5], [-0.1, -0.2], 7, 7)
SECOND = Turn([6, 7], [8], [-0.3], 7, 8)
"""Two turns of one chain: a tool answered 6, 7 between them."""


def completed(
    *turns: Turn,
    chains: Sequence[Chain] | None = None,
    task: int | str = 0,
    rollout: int = 0,
    **given: Any,
) -> Completed:
    fields: dict[str, Any] = {
        "task_id": task,
        "rollout_index": rollout,
        "group_id": task,
        "attempt": 0,
        "reward": 1.0,
        "chains": list(chains) if chains is not None else [Chain(list(turns or (FIRST, SECOND)))],
        "stop_reason": "stop",
        "usage": TokenUsage(5, 3),
        "timings": Timings(queue_s=0.5, total_s=4.0, model_s=2.0, tool_s=1.0, verify_s=0.25),
        "weights_start": 7,
        "weights_end": 8,
        "raw": RawRow({"reward": 1.0}),
    }
    return Completed(**{**fields, **given})


def failed(task: int | str = 0, rollout: int = 0) -> Failed:
    return Failed(
        task_id=task,
        rollout_index=rollout,
        group_id=task,
        failure=FailureClass.INFRA_ERROR,
        layer="infra",
        retriable=True,
        attempts=3,
        message="the agent died",
    )
