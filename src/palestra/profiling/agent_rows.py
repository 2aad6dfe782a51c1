"""One row per agent: the statistics of all its rollouts."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from palestra.profiling.columns import BoolArray, IntArray
from palestra.profiling.frame import AgentName, Labels, RunFrame
from palestra.profiling.statistics import starts_of_sorted
from palestra.profiling.summary import summarize_group
from palestra.profiling.task_rows import statistics_rows
from palestra.profiling.writing import write_json


def write_agent_metrics(frame: RunFrame, path: Path | str) -> None:
    """Write `agent_metrics` as one JSON array."""
    write_json(Path(path), agent_metrics(frame))


def agent_metrics(frame: RunFrame) -> list[dict[str, Any]]:
    """Per agent, by name: `agent_ref`, counts, the statistics of every numeric field, `summary`.

    `summary` is its line of the table, see `GroupSummary.as_json`. An agent of which nothing was
    scored has no statistics. Rollouts that no row gives an agent come first, with `agent_ref`
    null.
    """
    agents, codes = _by_name(frame.agents)
    of_rollout = codes[frame.requests.scored]
    order = np.argsort(of_rollout, kind="stable")
    rows = statistics_rows(frame.rollouts.columns.take(order), starts_of_sorted(of_rollout[order]))
    statistics = dict(zip(np.unique(of_rollout).tolist(), rows, strict=True))
    return [
        {
            "agent_ref": agents[code].as_ref() if code >= 0 else None,
            **_counts(frame, chosen),
            **statistics.get(code, {}),
            "summary": summarize_group(frame, chosen).as_json(),
        }
        for code in np.unique(codes).tolist()
        for chosen in (codes == code,)
    ]


def _counts(frame: RunFrame, chosen: BoolArray) -> dict[str, Any]:
    expected = int(chosen.sum())
    scored = int((chosen & frame.requests.scored).sum())
    return {
        "num_rollouts": scored,
        "expected_num_rollouts": expected,
        "missing_num_rollouts": expected - scored,
    }


def _by_name(labels: Labels[AgentName]) -> tuple[Sequence[AgentName], IntArray]:
    """The labels renumbered by name, so that the order of rows never shows."""
    order = sorted(range(len(labels.names)), key=labels.names.__getitem__)
    rank = np.empty(len(order) + 1, dtype=np.int64)
    rank[order] = np.arange(len(order))
    rank[-1] = -1
    return [labels.names[code] for code in order], rank[labels.codes]
