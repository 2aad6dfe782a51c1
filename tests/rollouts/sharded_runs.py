"""Runs that have ended, written to disk whole or cut into shards, as collections leave them."""

import itertools
import json
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from palestra.rollouts import Manifest
from palestra.schema import RunPaths

AGENT_REF = {"type": "responses_api_agents", "name": "agent"}
SEMANTICS = {"servers": {"policy_model": {"settings": {"temperature": 1.0, "model": "tiny"}}}}
KEYS = {"_ng_task_index", "_ng_rollout_index"}

Row = dict[str, Any]


def identity(task: int, rollout: int) -> Row:
    return {"_ng_task_index": task, "_ng_rollout_index": rollout, "agent_ref": AGENT_REF}


def scored_row(task: int, rollout: int, reward: float = 1.0, **fields: Any) -> Row:
    text = f"answer {task}.{rollout} é" * (1 + task % 3)
    response = {"output": [text], "usage": {"output_tokens": 7 * task + rollout}}
    return {
        "reward": reward,
        "response": response,
        "responses_create_params": {"input": "q"},
        **identity(task, rollout),
        **fields,
    }


def failed_row(task: int, rollout: int, attempt: int, *, terminal: bool = False) -> Row:
    return {
        **identity(task, rollout),
        "attempt": attempt,
        "_ng_failure_class": "data_error" if terminal else "timeout",
        "_ng_failure_layer": "infra",
        "_ng_failure_terminal": terminal,
        "message": f"attempt {attempt} failed",
        "started_at": 1000.0 + 10 * task + rollout + attempt,
    }


@dataclass
class Rollouts:
    """What became of every rollout that was asked for: rows by kind, in any order."""

    tasks: int
    inputs: list[Row] = field(default_factory=list)
    scored: list[Row] = field(default_factory=list)
    failures: list[Row] = field(default_factory=list)

    def of_tasks(self, tasks: Iterable[int]) -> "Rollouts":
        """The part that concerns some tasks."""
        wanted = set(tasks)

        def kept(rows: Sequence[Row]) -> list[Row]:
            return [row for row in rows if row["_ng_task_index"] in wanted]

        return Rollouts(len(wanted), kept(self.inputs), kept(self.scored), kept(self.failures))


def run_of(tasks: int, repeats: int, endings: Sequence[str] = ("scored",)) -> Rollouts:
    """A run whose rollouts end as `endings` say, over and over.

    An ending is `scored`, `truncated`, `retried` (scored after failures), `failed` (for good),
    or `open`.
    """
    run = Rollouts(tasks)
    for number in range(tasks * repeats):
        task, rollout = divmod(number, repeats)
        ending = endings[number % len(endings)]
        params = {"input": f"question {task}"}
        run.inputs.append({"responses_create_params": params, **identity(task, rollout)})
        if ending in {"retried", "failed"}:
            run.failures += [failed_row(task, rollout, attempt) for attempt in (1, 2)]
        if ending == "failed":
            run.failures.append(failed_row(task, rollout, 3, terminal=True))
        if ending in {"scored", "retried"}:
            run.scored.append(scored_row(task, rollout, float(number % 2)))
        if ending == "truncated":
            row = scored_row(task, rollout, 0.25)
            row["response"]["incomplete_details"] = {"reason": "max_output_tokens"}
            run.scored.append(row)
    return run


def write_run(
    output: Path,
    part: Rollouts,
    *,
    whole: Rollouts | None = None,
    index: int = 0,
    of: int = 1,
    order: random.Random | None = None,
    torn: bytes = b"",
    semantics: Mapping[str, Any] = SEMANTICS,
) -> Path:
    """The files of one collection; with `whole`, that of a shard of it.

    `order` shuffles rows into an order of completion; `torn` ends the scored rows.
    """
    output.parent.mkdir(parents=True, exist_ok=True)
    paths = RunPaths(output)
    scored, failures = list(part.scored), list(part.failures)
    if order is not None:
        order.shuffle(scored)
        order.shuffle(failures)
    output.write_bytes(lines(scored) + torn)
    if failures:
        paths.failures.write_bytes(lines(failures) + torn)
    paths.materialized_inputs.write_bytes(lines(part.inputs))
    Manifest("digest", semantics, len(part.inputs), part.tasks, "1").write(paths.manifest)
    if whole is not None:
        mark_shard(output, index, of, len(whole.inputs), whole.tasks)
    return output


def mark_shard(output: Path, index: int, of: int, requested: int, tasks: int) -> None:
    """Make the manifest say that this is a shard."""
    shard = {"index": index, "of": of, "requested": requested, "tasks": tasks}
    edit_manifest(output, shard=shard)


def edit_manifest(output: Path, **changes: Any) -> None:
    path = RunPaths(output).manifest
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def write_shards(folder: Path, run: Rollouts, of: int, **options: Any) -> list[Path]:
    """`run` cut into `of` shards of about equally many tasks."""
    bounds = [run.tasks * number // of for number in range(of + 1)]
    return write_cut(folder, run, bounds, **options)


def write_cut(folder: Path, run: Rollouts, bounds: Sequence[int], **options: Any) -> list[Path]:
    """`run` cut between tasks; shard i has the tasks from `bounds[i]` to before `bounds[i + 1]`."""
    parts = list(itertools.pairwise(bounds))
    return [
        write_run(
            folder / f"shard{number}.jsonl",
            run.of_tasks(range(start, end)),
            whole=run,
            index=number,
            of=len(parts),
            **options,
        )
        for number, (start, end) in enumerate(parts)
    ]


def lines(rows: Iterable[Row]) -> bytes:
    return b"".join(json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in rows)


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a folder, by name."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def keys(path: Path) -> list[tuple[int, int]]:
    rows = [json.loads(line) for line in path.read_bytes().splitlines()]
    return [(row["_ng_task_index"], row["_ng_rollout_index"]) for row in rows]
