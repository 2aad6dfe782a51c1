"""Shards of a large run: rows of a given size, in an order of completion, with failures."""

import random
from collections.abc import Iterator
from pathlib import Path

import orjson

from palestra.rollouts import Manifest, ShardOf
from palestra.schema import RunPaths
from palestra.settings import Share

REPEATS = 16
REF = {"type": "responses_api_agents", "name": "agent"}
SEMANTICS = {"servers": {"policy_model": {"settings": {"model": "tiny"}}}}


def write_shards(folder: Path, *, rows: int, row_bytes: int, of: int, seed: int = 0) -> list[Path]:
    """`rows` rollouts of tasks with sixteen each; every fiftieth was tried twice."""
    dice = random.Random(seed)
    words = ["".join(dice.choices("abcdefghijklmnopqrstuvwxyz", k=7)) for _ in range(2000)]
    tasks = rows // REPEATS
    outputs = []
    for index in range(of):
        share = Share(index, of).share(tasks)
        keys = [(task, repeat) for task in range(tasks)[share] for repeat in range(REPEATS)]
        output = folder / f"shard{index}.jsonl"
        paths = RunPaths(output)
        _write(paths.materialized_inputs, (_input(key, words) for key in keys))
        dice.shuffle(keys)
        _write(output, (_scored(key, words, row_bytes, dice) for key in keys))
        _write(paths.failures, (_failure(key) for key in keys[::50]))
        whole = ShardOf(index, of, tasks * REPEATS, tasks)
        manifest = Manifest("digest", SEMANTICS, len(keys), len(keys) // REPEATS, "1", shard=whole)
        manifest.write(paths.manifest)
        outputs.append(output)
    return outputs


def _write(path: Path, rows: Iterator[dict[str, object]]) -> None:
    with path.open("wb") as file:
        for row in rows:
            file.write(orjson.dumps(row) + b"\n")


def _identity(key: tuple[int, int]) -> dict[str, object]:
    return {"_ng_task_index": key[0], "_ng_rollout_index": key[1], "agent_ref": REF}


def _input(key: tuple[int, int], words: list[str]) -> dict[str, object]:
    start = key[0] % 1900
    text = " ".join(words[start : start + 60])
    return {"responses_create_params": {"input": text}, **_identity(key)}


def _scored(
    key: tuple[int, int], words: list[str], row_bytes: int, dice: random.Random
) -> dict[str, object]:
    text = " ".join(dice.choices(words, k=row_bytes // 8 - 60))
    usage = {"input_tokens": 300, "output_tokens": len(text) // 4, "total_tokens": 1}
    message = {"type": "message", "role": "assistant", "content": [{"type": "text", "text": text}]}
    return {
        "responses_create_params": {"input": words[key[0] % 2000]},
        "response": {"id": "r", "output": [message], "usage": usage, "incomplete_details": None},
        "reward": float(key[1] % 2),
        **_identity(key),
    }


def _failure(key: tuple[int, int]) -> dict[str, object]:
    return {
        **_identity(key),
        "attempt": 1,
        "_ng_failure_class": "timeout",
        "_ng_failure_terminal": False,
        "message": "not done within 60 s",
        "started_at": 1.0 * key[0],
    }
