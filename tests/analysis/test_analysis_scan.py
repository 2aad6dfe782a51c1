"""Rows are read in blocks, each into the fields seen so far: what that must not change."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palestra.analysis import load_run, profile_tasks, write_reward_profiling
from palestra.analysis.scan import BLOCK_BYTES, MOST_FIELDS
from palestra.analysis.sources import run_files
from palestra.errors import InputDataError
from profiled_runs import Run, failed, key, lines, materialized, scored

VALUES = st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_infinity=False)
FIELDS = st.dictionaries(
    st.sampled_from(["score", "accuracy", "note", "extracted_answer"]),
    VALUES | st.lists(VALUES) | st.dictionaries(st.text(), VALUES),
)


@pytest.mark.slow
@given(st.lists(FIELDS, min_size=1, max_size=6))
@settings(max_examples=80, deadline=None)
def test_numbers_are_kept_and_everything_else_is_not(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, object]]
) -> None:
    folder = tmp_path_factory.mktemp("run")
    run = Run.write(folder, [scored(place, 0, 1.0, **row) for place, row in enumerate(rows)])
    columns = run.load().rollouts.columns.values

    for name in {name for row in rows for name in row}:
        kept = [as_double(row.get(name)) for row in rows]
        if all(map(math.isnan, kept)):
            assert name not in columns
        else:
            np.testing.assert_array_equal(columns[name], kept)


def as_double(value: object) -> float:
    return float(value) if isinstance(value, bool | int | float) else math.nan


def test_offsets_and_lines_hold_over_many_blocks(tmp_path: Path) -> None:
    count = 3 * BLOCK_BYTES // 10_000
    inputs = [materialized(task, 0, n=task, text="x" * 10_000) for task in range(count)]
    run = Run.write(tmp_path, [scored(task, 0, 1.0) for task in range(count)], inputs=inputs)

    assert [row["sample"]["n"] for row in profile_tasks(run.load())] == list(range(count))
    with run.paths.materialized_inputs.open("a") as file:
        file.write(lines([inputs[40]]))
    with pytest.raises(InputDataError, match=f"lines 41 and {count + 1}"):
        run.load()


def test_blank_lines_count_as_lines_and_not_as_rows(tmp_path: Path) -> None:
    run = Run.write(tmp_path, [scored(0, 0, 1.0)])
    row = lines([scored(0, 0, 1.0)])
    run.paths.output.write_text("\n" + row + "  \n" + row)

    with pytest.raises(InputDataError, match="lines 2 and 4"):
        run.load()


def test_fields_beyond_what_is_learnt_are_numbers_too(tmp_path: Path) -> None:
    many = {f"field{place}": place for place in range(MOST_FIELDS + 50)}
    run = Run.write(tmp_path, [scored(0, 0, 1.0, **many), scored(1, 0, 1.0, another=3)])
    columns = run.load().rollouts.columns.values

    assert columns[f"field{MOST_FIELDS + 49}"][0] == MOST_FIELDS + 49
    assert columns["another"][1] == 3


def test_fields_may_have_any_name(tmp_path: Path) -> None:
    odd = {'a "quoted" one': 1, "back\\slash": 2.5, "tab\t": True, "f0": 4, "": 5, "rollout_id": 6}
    rows = [scored(0, 0, 1.0, **odd), scored(0, 1, 1.0, **odd)]
    run = Run.write(tmp_path, rows)
    write_reward_profiling(run.load(), run.paths.reward_profiling)
    row = json.loads(run.paths.reward_profiling.read_text())

    assert {name: row[f"mean/{name}"] for name in odd} == odd
    assert row["rollout_infos"][1].items() >= {**odd, "rollout_id": "0:1"}.items()


def test_values_that_are_not_finite_are_left_out_with_a_notice(tmp_path: Path) -> None:
    values = [0.5, math.nan, math.inf, None]
    rows = [scored(0, place, 1.0, score=value) for place, value in enumerate(values)]
    frame = Run.write(tmp_path, rows).load()
    (row,) = profile_tasks(frame)

    assert (row["mean/score"], row["std/score"]) == (0.5, 0.0)
    assert frame.notices == ("score: 2 values are not finite and left out of its statistics",)


def test_a_field_that_never_is_finite_has_no_statistics(tmp_path: Path) -> None:
    frame = Run.write(tmp_path, [scored(0, 0, 1.0, score=math.nan)]).load()

    assert "score" not in frame.rollouts.columns.values


def test_numbers_too_large_for_a_double_are_not_finite(tmp_path: Path) -> None:
    frame = Run.write(tmp_path, [scored(0, 0, 1.0, n=10**400), scored(1, 0, 1.0, n=2**70)]).load()

    assert np.isnan(frame.rollouts.columns.values["n"][0])
    assert frame.rollouts.columns.values["n"][1] == 2.0**70


def test_a_row_nested_too_deeply_is_refused_by_its_line(tmp_path: Path) -> None:
    run = Run.write(tmp_path, [scored(0, 0, 1.0)])
    with run.paths.output.open("a") as file:
        file.write('{"x": ' + "[" * 100_000 + "\n")

    with pytest.raises(InputDataError, match="line 2 is not JSON"):
        run.load()


def test_an_input_row_that_is_no_text_is_refused_when_it_is_copied(tmp_path: Path) -> None:
    run = Run.write(tmp_path, [scored(0, 0, 1.0)])
    text = run.paths.materialized_inputs.read_bytes().replace(b"question", b"\xff")
    run.paths.materialized_inputs.write_bytes(text)

    with pytest.raises(InputDataError, match="the row of task 0 at byte 0 is not UTF-8"):
        write_reward_profiling(run.load(), run.paths.reward_profiling)


def test_a_sample_with_nan_is_still_written_as_json(tmp_path: Path) -> None:
    inputs = [materialized(0, 0, weight=math.nan)]
    run = Run.write(tmp_path, [scored(0, 0, 1.0)], inputs=inputs)
    write_reward_profiling(run.load(), run.paths.reward_profiling)

    text = run.paths.reward_profiling.read_text()
    assert json.loads(text, parse_constant=pytest.fail)["sample"]["weight"] is None


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (scored(0, 0, 1.0), r"holds rollouts, .*: line 1 \(task 0, rollout 0\) has a reward"),
        (key(0, 0) | {"_ng_failure_class": "timeout"}, "holds failures, not materialized inputs"),
    ],
)
def test_another_file_given_as_inputs_is_recognised(
    tmp_path: Path, row: dict[str, object], said: str
) -> None:
    run = Run.write(tmp_path, [scored(0, 0, 1.0)])
    run.paths.materialized_inputs.write_text(lines([row]))

    with pytest.raises(InputDataError, match=said):
        run.load()


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (materialized(0, 0), "these look like materialized inputs"),
        (key(0, 0) | {"_ng_failure_class": "timeout"}, "these are failures"),
    ],
)
def test_another_file_given_as_rollouts_is_recognised(
    tmp_path: Path, row: dict[str, object], said: str
) -> None:
    run = Run.write(tmp_path, [scored(0, 0, 1.0)])
    run.paths.output.write_text(lines([row]))

    with pytest.raises(InputDataError, match=f"no row has a reward, from line 1 on; {said}"):
        load_run(run.paths.materialized_inputs, run.paths.output)


def test_every_file_of_a_run_stands_for_the_run(tmp_path: Path) -> None:
    run = Run.write(tmp_path, [scored(0, 0, 1.0)], failures=[key(1, 0)])
    names = ("manifest", "report", "agent_metrics", "reward_profiling", "events")
    files = [getattr(run.paths, name) for name in names]
    for path in files:
        path.touch()

    for path in (run.paths.failures, run.paths.materialized_inputs, *files):
        assert run_files(None, path) == ([run.paths.materialized_inputs], [run.paths.output])


@pytest.mark.parametrize(
    ("rows", "what"),
    [
        ([{"responses_create_params": {"input": "x"}}], "has tasks, and no rollouts"),
        ([{"question": "x"}], "is no file of rollouts"),
        ([failed(0, 0, "timeout")], "has the failures of a run, and no rollouts"),
    ],
)
def test_a_file_of_no_run_is_refused_with_what_it_has(
    rows: list[dict[str, Any]], what: str, tmp_path: Path
) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text(lines(rows))

    with pytest.raises(InputDataError) as caught:
        run_files(None, path)

    assert caught.value.message == f"{path} {what}"
    assert "--inputs" not in caught.value.hint


def test_a_selection_is_refused_as_rollouts(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text(lines([{"responses_create_params": {"input": "x"}}]))
    (tmp_path / "mine_provenance.json").touch()

    with pytest.raises(
        InputDataError, match="`palestra select` wrote it, for a run of these tasks"
    ):
        run_files(None, path)


def test_missing_rollouts_are_told_with_how_they_ended(tmp_path: Path) -> None:
    inputs = [materialized(0, rollout) for rollout in range(3)]
    failed = key(0, 1) | {"_ng_failure_class": "timeout"}
    run = Run.write(tmp_path, [scored(0, 0, 1.0)], inputs=inputs, failures=[failed])

    with pytest.raises(InputDataError, match=r"\(of these 1 failed: timeout 1\): 0:1, 0:2"):
        run.load()
