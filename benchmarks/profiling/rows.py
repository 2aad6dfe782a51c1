"""A run's files: rollouts of a given size with five numeric fields, in an order of completion."""

import random
from pathlib import Path

import orjson

INPUTS, ROLLOUTS = "run_materialized_inputs.jsonl", "run.jsonl"
_AGENT = {"type": "responses_api_agents", "name": "mcqa_simple_agent"}


def write_run(folder: Path, *, tasks: int, rollouts: int, row_bytes: int) -> int:
    """Write both files; the size of the rollouts file in bytes."""
    dice = random.Random(7)
    words = ["".join(dice.choices("etaoinshrdlu", k=dice.randint(2, 9))) for _ in range(4000)]
    prompts = [" ".join(dice.choices(words, k=60)) for _ in range(200)]
    texts = [_text(words, row_bytes - 900, dice) for _ in range(200)]
    keys = [(task, rollout) for task in range(tasks) for rollout in range(rollouts)]
    with (folder / INPUTS).open("wb", buffering=1 << 20) as file:
        for task, rollout in keys:
            file.write(orjson.dumps(_input(prompts[task % 200], task, rollout)) + b"\n")
    # as they end: shuffled within a window, not over the whole run
    window = 4096
    with (folder / ROLLOUTS).open("wb", buffering=1 << 20) as file:
        for start in range(0, len(keys), window):
            ended = keys[start : start + window]
            dice.shuffle(ended)
            for task, rollout in ended:
                text = texts[dice.randrange(200)]
                row = _scored(prompts[task % 200], text, task, rollout, dice)
                file.write(orjson.dumps(row) + b"\n")
    return (folder / ROLLOUTS).stat().st_size


def _text(words: list[str], length: int, dice: random.Random) -> str:
    lines = []
    while length > 0:
        lines.append(" ".join(dice.choices(words, k=12)))
        length -= len(lines[-1]) + 2
    return "\n".join(lines)


def _identity(task: int, rollout: int) -> dict[str, object]:
    return {"agent_ref": _AGENT, "_ng_task_index": task, "_ng_rollout_index": rollout}


def _input(prompt: str, task: int, rollout: int) -> dict[str, object]:
    params = {"input": [{"role": "user", "content": prompt}]}
    return {"responses_create_params": params, "expected_answer": "B", **_identity(task, rollout)}


def _scored(
    prompt: str, text: str, task: int, rollout: int, dice: random.Random
) -> dict[str, object]:
    """The five: reward, correct, and three counts of tokens."""
    right = dice.random() < task % 17 / 16
    message = {
        "id": "msg_0",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": text, "annotations": []}],
    }
    output = dice.randint(20, 4000)
    usage = {"input_tokens": 80, "output_tokens": output, "total_tokens": 80 + output}
    return {
        "responses_create_params": {"input": [{"role": "user", "content": prompt}]},
        "response": {"id": "resp_0", "object": "response", "output": [message], "usage": usage},
        "expected_answer": "B",
        "extracted_answer": "B" if right else "C",
        "reward": float(right),
        "correct": right,
        **_identity(task, rollout),
    }
