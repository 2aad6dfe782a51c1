"""One way of profiling a run: `python -m ...contender WAY FOLDER`, in a process of its own.

scan      every row of both files through orjson, nothing kept: what `load` is held against
palestra  `load_run`, then all of the profile: task rows, agent metrics, summary, files synced
numbers   of ours, only what the pandas ways do: five statistics of five columns for every task
apply     pandas, `groupby.apply` of a Python function per task, as the field's tools do it, with
          the histogram that they make of every task and column and throw away
bare      as `apply`, without the histograms
agg       pandas, `groupby.agg` of named statistics: what pandas can do

Prints one JSON object: seconds by phase, wall and CPU. `numbers` and the pandas ways start from
columns that are in memory already, end with a dict per task, and write nothing.
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson

from benchmarks.profiling.rows import INPUTS, ROLLOUTS

FIELDS = ("reward", "correct", "input_tokens", "output_tokens", "total_tokens")
STATISTICS = ("mean", "max", "min", "median", "std")
Phases = dict[str, tuple[float, float]]


def timed(phases: Phases, name: str, work: Callable[[], Any]) -> Any:
    """What `work` returns; its wall and CPU seconds go to `phases`."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = work()
    phases[name] = (time.perf_counter() - wall, time.process_time() - cpu)
    return result


def scan(folder: Path) -> Phases:
    """Decode."""

    def each(name: str) -> None:
        with (folder / name).open("rb", buffering=1 << 20) as file:
            for line in file:
                orjson.loads(line)

    phases: Phases = {}
    timed(phases, "scan", lambda: [each(INPUTS), each(ROLLOUTS)])
    return phases


def palestra(folder: Path) -> Phases:
    """Ours."""
    from palestra import analysis
    from palestra.schema import RunPaths

    phases: Phases = {}
    frame = timed(phases, "load", lambda: analysis.load_run(folder / INPUTS, folder / ROLLOUTS))

    def statistics() -> None:
        paths = RunPaths(folder / ROLLOUTS)
        analysis.write_reward_profiling(frame, paths.reward_profiling)
        analysis.write_agent_metrics(frame, paths.agent_metrics)
        analysis.summarize(frame)

    timed(phases, "statistics", statistics)
    return phases


def numbers(folder: Path) -> Phases:
    """The part of ours that has a like in pandas."""
    from palestra import analysis
    from palestra.metrics import statistics_rows

    rollouts = analysis.load_run(folder / INPUTS, folder / ROLLOUTS).rollouts
    phases: Phases = {}
    timed(phases, "statistics", lambda: list(statistics_rows(rollouts.columns, rollouts.starts)))
    return phases


def frame_of(folder: Path) -> Any:
    """The five columns and the task, as a pandas frame."""
    import pandas as pd

    rows = []
    with (folder / ROLLOUTS).open("rb", buffering=1 << 20) as file:
        for line in file:
            row = orjson.loads(line)
            found = {**row["response"]["usage"], **row}
            rows.append((row["_ng_task_index"], *(float(found[name]) for name in FIELDS)))
    return pd.DataFrame(rows, columns=["task", *FIELDS])


def apply(folder: Path, *, histograms: bool = True) -> Phases:
    """A Python function per task."""
    import numpy as np
    import pandas as pd

    frame = frame_of(folder)

    def per_task(group: Any) -> Any:
        found = {}
        for field in FIELDS:
            column = group[field]
            for name in STATISTICS:
                found[f"{name}/{field}"] = getattr(column, name)()
            if histograms:
                found[f"histogram/{field}"] = np.histogram(column, bins=64)
        return pd.Series(found)

    phases: Phases = {}
    timed(phases, "statistics", lambda: frame.groupby("task").apply(per_task).to_dict("records"))
    return phases


def bare(folder: Path) -> Phases:
    """Without the histograms."""
    return apply(folder, histograms=False)


def agg(folder: Path) -> Phases:
    """One compiled pass per statistic."""
    frame = frame_of(folder)
    phases: Phases = {}
    timed(
        phases,
        "statistics",
        lambda: frame.groupby("task")[list(FIELDS)].agg(list(STATISTICS)).to_dict("records"),
    )
    return phases


WAYS = {
    "scan": scan,
    "palestra": palestra,
    "numbers": numbers,
    "apply": apply,
    "bare": bare,
    "agg": agg,
}


if __name__ == "__main__":
    print(orjson.dumps(WAYS[sys.argv[1]](Path(sys.argv[2]))).decode())
