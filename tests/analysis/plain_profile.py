"""The contract of the reward profile again, in plain Python: what any implementation must write."""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

INDICES = ("_ng_task_index", "_ng_rollout_index")


def numbers(row: Mapping[str, Any]) -> dict[str, float]:
    """Numeric fields of a row, of its usage and of its reward's components; a field of the row wins."""
    usage = (row.get("response") or {}).get("usage") or {}
    parts = row.get("reward_components") or {}
    found = {**usage, **row, **{f"reward_components.{name}": parts[name] for name in parts}}
    return {
        name: value
        for name, value in found.items()
        if isinstance(value, bool | int | float) and name not in INDICES
    }


def statistics_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Mean, extremes, median and sample deviation of every field that some row has."""
    fields = dict.fromkeys(name for row in rows for name in numbers(row))
    found: dict[str, float] = {}
    for name in fields:
        values = [float(numbers(row)[name]) for row in rows if name in numbers(row)]
        found[f"mean/{name}"] = statistics.fmean(values)
        found[f"max/{name}"] = max(values)
        found[f"min/{name}"] = min(values)
        found[f"median/{name}"] = statistics.median(values)
        found[f"std/{name}"] = statistics.stdev(values) if len(values) > 1 else 0.0
    return found


def profile(
    inputs: Sequence[Mapping[str, Any]], rollouts: Sequence[Mapping[str, Any]]
) -> Iterator[dict[str, Any]]:
    """The fields of the field's contract; ours come on top."""
    tasks = {row[INDICES[0]] for row in rollouts}
    for task in sorted(tasks, key=lambda task: (isinstance(task, str), task)):
        asked = sorted(
            (row for row in inputs if row[INDICES[0]] == task), key=lambda row: row[INDICES[1]]
        )
        own = sorted(
            (row for row in rollouts if row[INDICES[0]] == task), key=lambda row: row[INDICES[1]]
        )
        yield {
            "_ng_task_index": task,
            "sample": {name: asked[0][name] for name in asked[0] if name not in INDICES},
            "num_rollouts": len(own),
            "expected_num_rollouts": len(asked),
            "missing_num_rollouts": len(asked) - len(own),
            "reward_profile_completion_pct": 100 * len(own) / len(asked),
            **statistics_of(own),
            "rollout_infos": [
                {
                    "rollout_id": f"{task}:{row[INDICES[1]]}",
                    **{name: row[name] for name in INDICES},
                    **numbers(row),
                }
                for row in own
            ],
        }
