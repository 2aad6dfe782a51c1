"""Runs worth looking at, and a real `palestra view` over them."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from palestra.schema import RunPaths
from profiled_runs import AGENT, key, lines

START_S = 60
FAMILIES = ("algebra", "geometry", "number_theory")
CLASSES = (
    ("timeout", "throughput/resources", "the model server did not answer within 600 s"),
    ("judge_error", "verifier/runtime", "the judge's server answered 429 Too Many Requests"),
)
HOPS = {
    "timeout": ("policy_model", 504, "upstream timed out"),
    "judge_error": ("judge_model", 429, "slow down"),
}


@dataclass(frozen=True)
class Shape:
    """What a written run is like."""

    tasks: int = 25
    rollouts: int = 4
    failing: float = 0.0
    """The share of rollouts without a score."""
    skill: float = 0.0
    """Added to the chance that a rollout is solved."""
    tokens: bool = True
    hostile: str = ""
    """Put into every text of the row."""
    seed: int = 1


def message(role: str, text: str, **fields: Any) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}], **fields}


def write_run(folder: Path, shape: Shape, name: str = "rollouts") -> Path:
    """Write a run of tools, reasoning, judge and token ids; returns its output."""
    rng = random.Random(shape.seed)
    paths = RunPaths(folder / f"{name}.jsonl")
    folder.mkdir(parents=True, exist_ok=True)
    rows, inputs, failures = [], [], []
    for task in range(shape.tasks):
        chance = min(1.0, max(0.0, (task + 0.5) / shape.tasks + shape.skill))
        for rollout in range(shape.rollouts):
            inputs.append(input_row(task, rollout, shape))
            if rng.random() < shape.failing:
                failures.append(failed_row(task, rollout, rng.choice(CLASSES), shape))
            else:
                solved = rng.random() < chance
                rows.append(scored_row(task, rollout, shape, rng, solved=solved))
    paths.output.write_text(lines(rows))
    paths.materialized_inputs.write_text(lines(inputs))
    if failures:
        paths.failures.write_text(lines(failures))
    return paths.output


def input_row(task: int, rollout: int, shape: Shape) -> dict[str, Any]:
    return {
        "responses_create_params": {"input": prompt(task, shape), "model": "Qwen3-4B"},
        "agent_ref": AGENT,
        "family": FAMILIES[task % len(FAMILIES)],
        "expected_answer": str(task + 2),
        **key(task, rollout),
    }


def prompt(task: int, shape: Shape) -> list[dict[str, Any]]:
    question = f"Find the number of positive integers n with n^{task} + 1 divisible by {task + 2}."
    return [
        message("system", "You are a careful mathematician. Use the tools when they help."),
        message("user", f"{question} {shape.hostile}"),
    ]


def scored_row(
    task: int, rollout: int, shape: Shape, rng: random.Random, *, solved: bool
) -> dict[str, Any]:
    answer = str(task + 2 if solved else task + 3 + rollout)
    output_tokens = int(rng.lognormvariate(6, 0.8)) + (0 if solved else 300)
    return {
        **input_row(task, rollout, shape),
        "response": {
            "id": f"resp_{task}_{rollout}",
            "model": "Qwen3-4B",
            "output": output(answer, shape, rng, turns=1 + (task + rollout) % 3),
            "usage": {"input_tokens": 80 + task, "output_tokens": output_tokens},
            "incomplete_details": {"reason": "max_output_tokens"} if output_tokens > 1500 else None,
        },
        "reward": float(solved),
        "reward_components": {"correct": float(solved), "format": 1.0},
        "extracted_answer": answer + shape.hostile,
        "judge_score": round(rng.random(), 3),
        "judge_evaluations": [evaluation(answer, str(task + 2), shape)],
    }


def output(answer: str, shape: Shape, rng: random.Random, *, turns: int) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    for turn in range(turns - 1):
        thought = "Let me think about residues first. " * rng.randint(1, 20)
        items.append({"type": "reasoning", "summary": [{"type": "summary_text", "text": thought}]})
        query = json.dumps({"query": f"residues {turn}"})
        call = {"type": "function_call", "call_id": f"call_{turn}", "name": "search"}
        items.append({**call, "arguments": query, **ids(turn, shape, rng)})
        found = f"\x1b[32mok\x1b[0m {turn} results {shape.hostile}"
        items.append({"type": "function_call_output", "call_id": f"call_{turn}", "output": found})
    text = f"So there are **two residues**.\n\n- n = 2\n\nThe answer is \\boxed{{{answer}}}."
    said = f"{text} {shape.hostile}".strip()
    items.append(message("assistant", said, **ids(turns - 1, shape, rng)))
    return items


def ids(turn: int, shape: Shape, rng: random.Random) -> dict[str, Any]:
    if not shape.tokens:
        return {}
    return {
        "prompt_token_ids": list(range(100, 140 + 60 * turn)),
        "generation_token_ids": [rng.randint(10, 50_000) for _ in range(50)],
        "generation_log_probs": [-(abs(rng.gauss(0, 1)) ** 3) for _ in range(50)],
    }


def evaluation(answer: str, expected: str, shape: Shape) -> dict[str, Any]:
    verdict = "[[A=B]]" if answer == expected else "[[A!=B]]"
    asked = {"input": [message("user", f"Is {answer} equal to {expected}? {shape.hostile}")]}
    said = {"output": [message("assistant", f"I compare both numbers. {verdict}")]}
    return {"responses_create_params": asked, "response": said, "verdict_label": verdict}


def failed_row(
    task: int, rollout: int, kind: Sequence[str], shape: Shape, attempt: int = 1
) -> dict[str, Any]:
    name, layer, text = kind
    server, status, body = HOPS[name]
    hop = {
        "server": server,
        "url": "http://10.0.0.4:8000/v1/responses",
        "status": status,
        "body": f"{body} {shape.hostile}",
    }
    return {
        **key(task, rollout),
        "agent_ref": AGENT,
        "attempt": attempt,
        "_ng_failure_class": name,
        "_ng_failure_layer": layer,
        "_ng_failure_terminal": True,
        "message": f"{text} {shape.hostile}".strip(),
        "hint": "raise the timeout or lower the concurrency",
        "hops": [hop],
        "traceback": f'Traceback (most recent call last):\n  File "agent.py", line 3\n{shape.hostile}',
        "started_at": 1_795_730_000.0,
        "elapsed_s": 600.2,
    }


@dataclass
class Viewer:
    """A running `palestra view`. `address`: as it was printed, with the token."""

    address: str
    process: "subprocess.Popen[str]"

    @property
    def origin(self) -> str:
        return self.address.partition("/#")[0]

    def ask(self, path: str) -> Any:
        """The reply of an endpoint."""
        with urlopen(self._request(path), timeout=START_S) as answer:
            return json.load(answer)

    def lines(self, path: str) -> Iterator[Any]:
        """The lines of a stream, as they come."""
        with urlopen(self._request(path), timeout=START_S) as answer:
            yield from map(json.loads, answer)

    def _request(self, path: str) -> Request:
        token = self.address.partition("#token=")[2]
        return Request(self.origin + path, headers={"Authorization": f"Bearer {token}"})


def wait_for_indexes(viewer: Viewer) -> dict[str, str]:
    """Wait until every run is read to its end; returns the ids by the names of the runs."""
    deadline = time.monotonic() + START_S
    runs = {run["name"]: run["id"] for run in viewer.ask("/api/runs")["runs"]}
    for run in runs.values():
        while not (base := viewer.ask(f"/api/r/{run}")["base"])["complete"] or not base["rows"]:
            assert time.monotonic() < deadline, base
            time.sleep(0.05)
    return runs


@contextmanager
def viewing(
    *paths: Path, cache: Path, options: Sequence[str] = (), environment: Mapping[str, str] = {}
) -> Iterator[Viewer]:
    """A real viewer over `paths`, on a port that the system gives."""
    command = [sys.executable, "-m", "palestra", "view", *map(str, paths), "--no-browser"]
    env = {**os.environ, "PALESTRA_CACHE_DIR": str(cache), **environment}
    command += ["--port", "0", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as process:
        try:
            assert process.stdout is not None
            yield Viewer(_address(process.stdout), process)
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(timeout=START_S)


def _address(printed: Iterator[str]) -> str:
    for line in printed:
        if "#token=" in line:
            return line[line.index("http") :].split()[0]
    raise AssertionError("the viewer ended before it printed its address")
