"""An index of files that change has what a new index of the same files would have."""

import json
import os
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from math import inf
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from indexed_runs import content, fresh

from palestra.rollouts import repair
from palestra.schema import RunPaths
from palestra.viewer.index import Index, RunPart, open_index

RESPONSE = {"output": [{"role": "assistant", "content": "the answer"}], "usage": None}


def result(task: Any, rollout: int, **fields: Any) -> dict[str, Any]:
    key = {"_ng_task_index": task, "_ng_rollout_index": rollout}
    return {"response": RESPONSE, "reward": float(rollout), **key, **fields}


TASKS = st.sampled_from([0, 1, 2, "a", -3, 2**70])
FIELDS = st.dictionaries(
    st.sampled_from(["score", "kind", "flag", "reward"]),
    st.sampled_from([1, 2.5, True, "algebra", None, [1], {"a": 1}]),
    max_size=2,
)
ROWS = st.builds(
    lambda task, rollout, fields: json.dumps(result(task, rollout, **fields)).encode() + b"\n",
    TASKS,
    st.integers(0, 3),
    FIELDS,
)
BAD_LINES = st.sampled_from(
    [b"\n", b"no json\n", b"[1]\n", b"\xff\n", b'{"reward": NaN}\n', b"{}\n"]
)
FAILED = st.builds(
    lambda task, attempt: (
        json.dumps(
            {
                "_ng_task_index": task,
                "_ng_rollout_index": 0,
                "_ng_failure_class": "timeout",
                "message": f"attempt {attempt}",
                "attempt": attempt,
            }
        ).encode()
        + b"\n"
    ),
    TASKS,
    st.integers(1, 3),
)

Step = Callable[[RunPaths], None]


def append(name: str, lines: Sequence[bytes]) -> Step:
    def step(paths: RunPaths) -> None:
        with getattr(paths, name).open("ab") as file:
            file.write(b"".join(lines))

    return step


def tear(line: bytes, at: int) -> Step:
    def step(paths: RunPaths) -> None:
        with paths.output.open("ab") as file:
            file.write(line[: at % len(line)])

    return step


def mend(paths: RunPaths) -> None:
    repair(paths.output)


def cut(paths: RunPaths) -> None:
    if paths.output.exists():
        os.truncate(paths.output, paths.output.stat().st_size // 2)


def replace(lines: Sequence[bytes]) -> Step:
    def step(paths: RunPaths) -> None:
        new = paths.output.with_name("new")
        new.write_bytes(b"".join(lines))
        new.replace(paths.output)

    return step


def overwrite(lines: Sequence[bytes]) -> Step:
    def step(paths: RunPaths) -> None:
        paths.output.write_bytes(b"".join(lines))

    return step


def remove(name: str) -> Step:
    def step(paths: RunPaths) -> None:
        getattr(paths, name).unlink(missing_ok=True)

    return step


LINES = st.lists(ROWS | BAD_LINES, max_size=4)
STEPS = st.one_of(
    st.builds(append, st.just("output"), LINES),
    st.builds(append, st.just("materialized_inputs"), st.lists(ROWS, max_size=3)),
    st.builds(append, st.just("failures"), st.lists(FAILED, max_size=3)),
    st.builds(tear, ROWS, st.integers(1, 200)),
    st.just(mend),
    st.just(cut),
    st.builds(remove, st.sampled_from(["failures", "materialized_inputs"])),
    st.builds(replace, LINES),
    st.builds(overwrite, LINES),
)
MOMENTS = st.sampled_from(["refresh", "close", "kill", "wait"])


def test_inputs_that_appear_without_a_row_are_noticed(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path / "rollouts.jsonl")
    paths.failures.write_text(json.dumps({"_ng_failure_class": "timeout"}) + "\n")
    with open_index([paths.output], cache=tmp_path / "cache") as index:
        index.refresh(inf)
        paths.materialized_inputs.write_text("")
        snapshot = index.refresh(inf)

    assert [source.path for source in snapshot.files if source.part is RunPart.INPUT]


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(STEPS, MOMENTS), max_size=8))
def test_any_history_gives_the_index_of_a_new_build(history: list[tuple[Step, str]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        paths, cache = RunPaths(Path(folder, "rollouts.jsonl")), Path(folder, "cache")
        with ExitStack() as opened:
            index = opened.enter_context(open_index([paths.output], cache=cache))
            for step, moment in history:
                step(paths)
                index = opened.enter_context(_reached(index, moment, paths, cache))
            snapshot = index.refresh(inf)

        if paths.output.exists():
            assert content(snapshot) == fresh(paths.output, Path(folder, "new"))


@pytest.mark.parametrize("later", ["algebra", [1]])
def test_whether_a_field_is_boolean_does_not_depend_on_what_was_read_together(
    later: Any, tmp_path: Path
) -> None:
    paths = RunPaths(tmp_path / "rollouts.jsonl")
    with open_index([paths.output], cache=tmp_path / "cache") as index:
        for rollout, score in enumerate([True, later]):
            line = json.dumps(result(0, rollout, score=score)).encode() + b"\n"
            append("output", [line])(paths)
            grown = index.refresh(inf)

        assert content(grown) == fresh(paths.output, tmp_path / "new")


def _reached(index: Index, moment: str, paths: RunPaths, cache: Path) -> Index:
    if moment == "wait":
        return index
    index.refresh(inf)
    if moment == "refresh":
        return index
    if moment == "kill":
        _append_uncommitted(cache)
    index.close()
    return open_index([paths.output], cache=cache)


def _append_uncommitted(cache: Path) -> None:
    """What a killed writer leaves: columns that are longer than the commit says."""
    for column in cache.glob("view/*/*/results.*"):
        with column.open("ab") as file:
            file.write(b"12345")


def test_the_empty_failures_file_may_go_when_the_run_ends(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path / "rollouts.jsonl")
    paths.output.write_text(json.dumps(result(0, 0)) + "\n")
    paths.failures.touch()
    with open_index([paths.output], cache=tmp_path / "cache") as index:
        index.refresh(inf)
        paths.failures.unlink()
        with paths.output.open("a") as file:
            file.write(json.dumps(result(0, 1)) + "\n")
        snapshot = index.refresh(inf)

    assert (len(snapshot.rollouts), list(snapshot.problems)) == (2, [])


def test_a_name_that_got_two_numbers_is_one_group(tmp_path: Path) -> None:
    paths, cache = RunPaths(tmp_path / "rollouts.jsonl"), tmp_path / "cache"
    rows = [
        result(task, 0, agent_ref={"name": "agent"}, family="algebra", responses_create_params={})
        for task in range(3)
    ]
    append("materialized_inputs", [json.dumps(row).encode() + b"\n" for row in rows])(paths)
    for row in rows:  # each viewer forgets the numbers that the one before it gave
        append("output", [json.dumps(row).encode() + b"\n"])(paths)
        with open_index([paths.output], cache=cache, group_by="family") as index:
            frame = index.refresh(inf).frame()

    assert [agent.name for agent in frame.agents.names] == ["agent"]
    assert frame.families is not None
    assert (frame.families.names, frame.families.codes.tolist()) == (["algebra"], [0, 0, 0])
