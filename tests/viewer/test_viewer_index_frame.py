"""The frame that is made from an index is that of the files, whatever their rows and order."""

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from indexed_runs import indexed

from palestra.analysis import RowPositions, RunFrame, summarize
from palestra.schema import ReverifyCommand
from profiled_runs import Run, failed, lines, materialized, scored

COMMAND = ReverifyCommand("palestra reverify --judge m", True, True)
TASKS = st.sampled_from([0, 1, 2, 7, 10**6, "a name"])
ROLLOUTS = st.sampled_from([0, 1, 5, 2**21])
ENDS = st.sampled_from(["scored", "failed", "failed, then scored", "never ended"])


@st.composite
def runs(draw: st.DrawFn) -> dict[str, list[dict[str, Any]]]:
    ends = draw(st.dictionaries(st.tuples(TASKS, ROLLOUTS), ENDS, min_size=1))
    rows: dict[str, list[dict[str, Any]]] = {"rollouts": [], "inputs": [], "failures": []}
    for number, ((task, rollout), end) in enumerate(ends.items()):
        agent = {"type": "responses_api_agents", "name": f"agent {number % 2}"}
        rows["inputs"].append(materialized(task, rollout, agent_ref=agent))
        if "failed" in end:
            attempts = [
                failed(task, rollout, name, n) for n, name in ((1, "timeout"), (2, "infra_error"))
            ]
            rows["failures"] += attempts
        if "scored" in end:
            rows["rollouts"].append(
                scored(task, rollout, number / 2, tokens=number, agent_ref=agent)
            )
    return {name: draw(st.permutations(values)) for name, values in rows.items()}


@settings(deadline=None, max_examples=50)
@given(runs())
def test_a_frame_from_an_index_is_that_of_the_files(rows: Mapping[str, Any]) -> None:
    with TemporaryDirectory() as name:
        run = Run.write(
            Path(name), rows["rollouts"], inputs=rows["inputs"], failures=rows["failures"]
        )
        with indexed(run.paths.output, Path(name) / "cache") as snapshot:
            frame = snapshot.frame()
        loaded = run.load(allow_partial=True, allow_unscored=True)

    assert content(frame) == content(loaded)
    assert summarize(frame) == summarize(loaded)


@pytest.mark.parametrize(
    "fields",
    [
        {"reverify": COMMAND.as_json()},
        {
            "hint": f"the model's answer is kept: {COMMAND.text} --force verifies it without the model"
        },
    ],
    ids=["recorded", "in the hint of an older version"],
)
def test_the_command_of_a_failure_is_that_of_its_row(
    fields: dict[str, Any], tmp_path: Path
) -> None:
    row = failed(0, 0, "judge_error") | {"_ng_failure_terminal": True, "response": {}} | fields
    run = Run.write(tmp_path, [scored(1, 0, 1.0)], failures=[row])
    run.paths.materialized_inputs.write_text(lines([materialized(0, 0), materialized(1, 0)]))
    with indexed(run.paths.output, tmp_path / "cache") as snapshot:
        frame = snapshot.frame()

    assert frame.unscored.reverify == COMMAND
    assert run.load(allow_partial=True).unscored.reverify == COMMAND


def content(frame: RunFrame) -> dict[str, Any]:
    """All values of a frame, in the terms of the run."""
    requests, rollouts = frame.requests, frame.rollouts
    return {
        "tasks": list(requests.tasks),
        "keys": [requests.keys.task.tolist(), requests.keys.rollout.tolist()],
        "outcomes": ["" if o < 0 else requests.outcome_names[o] for o in requests.outcome.tolist()],
        "agents": [frame.agents.names[code] for code in frame.agents.codes.tolist()],
        "rollouts": [
            list(rollouts.tasks),
            rollouts.starts.tolist(),
            rollouts.rollout_index.tolist(),
        ],
        "columns": {name: column.tolist() for name, column in rollouts.columns.values.items()},
        "places": [positions(p) for p in (requests.places, frame.rollout_places)],
        "endings": [getattr(frame.endings, f.name).tolist() for f in fields(frame.endings)],
        "failed": [
            frame.failed.requests.tolist(),
            positions(frame.failed.places),
            list(frame.failed.remedies),
        ],
        "unscored": frame.unscored,
    }


def positions(row_positions: RowPositions) -> list[tuple[Path, int]]:
    files = np.asarray(row_positions.file).tolist()
    offsets = row_positions.offset.tolist()
    return [
        (row_positions.files[file], offset) for file, offset in zip(files, offsets, strict=True)
    ]
