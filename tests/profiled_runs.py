"""Small runs on disk, for the tests of profiling."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from palestra.analysis import RunFrame, load_run
from palestra.schema import RunPaths

AGENT = {"type": "responses_api_agents", "name": "simple_agent"}


def key(task: int | str, rollout: int) -> dict[str, Any]:
    return {"_ng_task_index": task, "_ng_rollout_index": rollout}


def materialized(task: int | str, rollout: int, **fields: Any) -> dict[str, Any]:
    prompt = {"input": [{"role": "user", "content": f"question {task}"}]}
    return {"responses_create_params": prompt, "agent_ref": AGENT, **key(task, rollout), **fields}


def scored(task: int | str, rollout: int, reward: float, **fields: Any) -> dict[str, Any]:
    tokens = fields.pop("tokens", None)
    usage = {"output_tokens": tokens, "input_tokens": 7} if tokens is not None else None
    response = {"output": [{"text": "a" * 50}], "usage": usage}
    return {
        "response": response,
        "reward": reward,
        "agent_ref": AGENT,
        **key(task, rollout),
    } | fields


def failed(task: int | str, rollout: int, failure_class: str, attempt: int = 1) -> dict[str, Any]:
    return {**key(task, rollout), "_ng_failure_class": failure_class, "attempt": attempt}


def lines(rows: Iterable[Mapping[str, Any]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


@dataclass(frozen=True)
class Run:
    """The files of one run in a folder."""

    paths: RunPaths

    @classmethod
    def write(
        cls,
        folder: Path,
        rollouts: Sequence[Mapping[str, Any]],
        *,
        inputs: Sequence[Mapping[str, Any]] | None = None,
        failures: Sequence[Mapping[str, Any]] = (),
    ) -> "Run":
        """Without `inputs`, one materialized row per rollout."""
        paths = RunPaths(folder / "rollouts.jsonl")
        if inputs is None:
            inputs = [
                materialized(row["_ng_task_index"], row["_ng_rollout_index"]) for row in rollouts
            ]
        paths.output.write_text(lines(rollouts))
        paths.materialized_inputs.write_text(lines(inputs))
        if failures:
            paths.failures.write_text(lines(failures))
        return cls(paths)

    def load(self, **options: Any) -> RunFrame:
        return load_run(self.paths.materialized_inputs, self.paths.output, **options)
