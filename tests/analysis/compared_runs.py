"""Pairs of small runs on disk, for the tests of comparison."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from palestra.analysis import ComparedRun, Comparison, comparison_of, load_side, pair_tasks
from profiled_runs import Run, failed, lines, materialized, scored

Rewards = Mapping[int, Sequence[float | None]]
"""Per task, the reward of each rollout; None for one that timed out."""


def write_run(folder: Path, rewards: Rewards, **fields: Any) -> Path:
    """A run with these rewards; `fields` go into every materialized row."""
    keys = [(task, r, x) for task, row in rewards.items() for r, x in enumerate(row)]
    rows = [scored(task, r, x, tokens=10 * task + r) for task, r, x in keys if x is not None]
    folder.mkdir(exist_ok=True)
    run = Run.write(
        folder,
        rows,
        inputs=[materialized(task, r, **fields) for task, r, _ in keys],
        failures=[failed(task, r, "timeout") for task, r, x in keys if x is None],
    )
    return run.paths.output


def with_components(rollouts: Path, **components: float) -> Path:
    """The run at `rollouts`, with these components of every reward."""
    rows = [json.loads(line) for line in rollouts.read_text().splitlines()]
    rollouts.write_text(lines(row | {"reward_components": components} for row in rows))
    return rollouts


def sides(folder: Path, a: Rewards, b: Rewards) -> tuple[ComparedRun, ComparedRun]:
    """Two runs, loaded."""
    return (
        load_side(write_run(folder / "a", a), name="A"),
        load_side(write_run(folder / "b", b), name="B"),
    )


def compared(folder: Path, a: Rewards, b: Rewards, *metrics: str) -> Comparison:
    """Two runs, compared."""
    one, other = sides(folder, a, b)
    return comparison_of(one, other, pair_tasks(one, other), metrics=metrics)
