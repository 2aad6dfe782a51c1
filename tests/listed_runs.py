"""Runs on disk with manifests, for the tests of what lists and shows runs."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from palestra.rollouts import Manifest, ShardOf
from profiled_runs import Run, failed, materialized, scored

SEMANTICS = {
    "servers": {
        "sums": {"type": "resources_servers", "implementation": "sums", "settings": {}},
        "sums_agent": {
            "type": "responses_api_agents",
            "implementation": "simple_agent",
            "settings": {
                "resources_server": {"type": "resources_servers", "name": "sums"},
                "model_server": {"type": "responses_api_models", "name": "policy_model"},
            },
        },
        "policy_model": {
            "type": "responses_api_models",
            "implementation": "vllm_model",
            "settings": {"model": "tiny"},
        },
    },
    "agent_name": "sums_agent",
}


def write_run(
    folder: Path,
    rollouts: Sequence[Mapping[str, Any]],
    *,
    requested: int,
    failures: Sequence[Mapping[str, Any]] = (),
    started_at: float = 0.0,
    shard: ShardOf | None = None,
    command: str = "",
) -> Path:
    """Write a run of one rollout per task, and return its output. `command`: what collected it."""
    folder.mkdir(parents=True)
    inputs = [materialized(task, 0, expected_answer=str(task)) for task in range(requested)]
    run = Run.write(folder, rollouts, inputs=inputs, failures=failures)
    manifest = Manifest("digest", SEMANTICS, requested, requested, "0.1.0", started_at=started_at)
    ended = {"scored": len(rollouts)} if len(rollouts) == requested else {}
    replace(manifest, shard=shard, command=command).write(run.paths.manifest, ended_counts=ended)
    return run.paths.output


COLLECTORS = {
    "palestra collect --config c.yaml -o rollouts.jsonl": "--resume",
    "gym eval run -o rollouts.jsonl": "--resume",
    "ng_collect_rollouts +output_jsonl_fpath=rollouts.jsonl": "+resume_from_cache=true",
}
"""How the command that collected a run is typed to resume it."""


def write_unfinished(folder: Path, command: str) -> Path:
    """Write a run of which one rollout used all its attempts, and one has not ended."""
    failures = [failure(1, "took 5 s", **_OUT_OF_ATTEMPTS)]
    return write_run(folder, [answered(0, 1)], requested=3, failures=failures, command=command)


_OUT_OF_ATTEMPTS = {
    "_ng_failure_class": "timeout",
    "retriable": True,
    "hint": "--resume with a longer --rollout-timeout",
}


def answered(task: int, reward: float, text: str = "It is 4.", **fields: Any) -> dict[str, Any]:
    """A scored row with a tool call, its result and a message."""
    output = [
        {"type": "function_call", "name": "add", "arguments": '{"a": 2}', "call_id": "c"},
        {"type": "function_call_output", "call_id": "c", "output": "4"},
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": text}],
        },
    ]
    return scored(task, 0, reward, response={"output": output}, **fields)


def failure(task: int, message: str, *, terminal: bool = True, **fields: Any) -> dict[str, Any]:
    """A row of a failures file."""
    return {
        **failed(task, 0, "verifier_error"),
        "_ng_failure_layer": "verifier/runtime",
        "_ng_failure_terminal": terminal,
        "message": message,
        "hint": "return a number",
        "hops": [{"server": "sums", "url": "in-process", "status": 500, "body": ""}],
        **fields,
    }
