"""Selecting tasks: who is kept, how sure that is, and what is written."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from compared_runs import write_run
from hypothesis import assume, given
from hypothesis import strategies as st

from palestra.analysis import RunFrame, load_side
from palestra.analysis.selection.export import (
    check_destination,
    export_selection,
    selection_origin,
)
from palestra.analysis.selection.select import (
    RateBand,
    Selection,
    SelectionCriteria,
    TaskVerdict,
    rollouts_to_decide,
    selection_of,
)
from palestra.errors import ConfigError, InputDataError
from palestra.metrics import wilson_interval
from palestra.rollouts import provenance_path
from profiled_runs import Run, failed, materialized, scored

MIDDLE = RateBand(0.1, 0.9)


def frame_of(folder: Path, solved: list[tuple[int, int]], missing: int = 0) -> RunFrame:
    """One task per (solved, scored); every one has `missing` rollouts that timed out besides."""
    rewards = {
        task: [float(i < good) for i in range(n)] + [None] * missing
        for task, (good, n) in enumerate(solved)
    }
    return load_side(write_run(folder / "run", rewards), name="the run").frame


def verdicts(selection: Selection) -> list[str]:
    return [task.verdict.value for task in selection.tasks]


@pytest.mark.parametrize(
    "text", ["0.1", "0.1-0.9", "..", "a..b", "0.9..0.1", "-1..1", "0..1.1", "nan..1"]
)
def test_a_malformed_band_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"is not LOW\.\.HIGH"):
        RateBand.parse(text)


def test_a_band_includes_both_of_its_ends(tmp_path: Path) -> None:
    frame = frame_of(tmp_path, [(0, 10), (1, 10), (3, 10), (9, 10), (10, 10)])

    assert verdicts(selection_of(frame, SelectionCriteria(MIDDLE))) == [
        "too hard",
        "kept",
        "kept",
        "kept",
        "too easy",
    ]


def test_what_failed_to_run_is_not_difficult(tmp_path: Path) -> None:
    frame = frame_of(tmp_path, [(2, 2), (1, 2), (0, 0)], missing=6)
    tasks = selection_of(frame, SelectionCriteria(RateBand(0.4, 0.9))).tasks

    assert [(task.verdict, task.pass_rate) for task in tasks] == [
        (TaskVerdict.TOO_EASY, 1.0),
        (TaskVerdict.KEPT, 0.5),
        (TaskVerdict.NO_ROLLOUTS, None),
    ]
    assert (tasks[2].requested, tasks[2].failures) == (6, {"timeout": 6})


def test_too_few_rollouts_decide_nothing(tmp_path: Path) -> None:
    frame = frame_of(tmp_path, [(0, 3), (2, 4), (0, 4)])

    assert verdicts(selection_of(frame, SelectionCriteria(MIDDLE, min_rollouts=4))) == [
        "undecided",
        "kept",
        "too hard",
    ]


def test_only_decided_tasks_when_told(tmp_path: Path) -> None:
    frame = frame_of(tmp_path, [(20, 40), (1, 4), (0, 4), (0, 100)])
    found = selection_of(frame, SelectionCriteria(MIDDLE, decided_only=True))

    assert verdicts(found) == ["kept", "undecided", "undecided", "too hard"]
    assert [task.borderline for task in found.tasks] == [False, True, True, False]


def test_the_most_learnable_come_first(tmp_path: Path) -> None:
    frame = frame_of(tmp_path, [(1, 8), (4, 8), (0, 8), (3, 8), (8, 8), (5, 8)])
    found = selection_of(frame, SelectionCriteria(by_learnability=True, limit=3))

    assert [found.tasks[at].task for at in found.kept] == [1, 3, 5]
    assert found.of(TaskVerdict.OVER_LIMIT)[0].task == 0
    assert verdicts(found)[2] == "too hard"


def test_long_tasks_are_left_out_by_their_mean(tmp_path: Path) -> None:
    frame = frame_of(tmp_path, [(1, 2), (1, 2), (1, 2)])  # task t takes 10 t + 0.5 tokens

    assert verdicts(selection_of(frame, SelectionCriteria(MIDDLE, max_tokens=10.5))) == [
        "kept",
        "kept",
        "too long",
    ]


def test_a_token_limit_needs_tokens(tmp_path: Path) -> None:
    run = Run.write(tmp_path, [scored(0, 0, 1.0)])

    with pytest.raises(ConfigError, match="--max-tokens needs the field output_tokens"):
        selection_of(run.load(), SelectionCriteria(MIDDLE, max_tokens=5))


def test_partial_credit_can_count_as_solved(tmp_path: Path) -> None:
    frame = load_side(write_run(tmp_path / "run", {0: [0.6, 0.4], 1: [0.4, 0.3]}), name="").frame

    assert verdicts(selection_of(frame, SelectionCriteria(MIDDLE, solved_at=0.5))) == [
        "kept",
        "too hard",
    ]


@pytest.mark.parametrize("solved_at", [1.0, 0.3])
def test_a_sum_that_falls_short_by_a_rounding_is_solved(tmp_path: Path, solved_at: float) -> None:
    rewards = {0: [float(np.nextafter(solved_at, 0))] * 2, 1: [solved_at - 1e-6] * 2}
    frame = load_side(write_run(tmp_path / "run", rewards), name="").frame

    selection = selection_of(frame, SelectionCriteria(MIDDLE, solved_at=solved_at))

    assert verdicts(selection) == ["too easy", "too hard"]


@given(st.integers(0, 40), st.integers(1, 40), st.sampled_from([0.05, 0.1, 0.25, 0.5, 0.9]))
def test_more_rollouts_are_as_many_as_the_interval_needs(solved: int, n: int, edge: float) -> None:
    assume(solved <= n and abs(solved / n - edge) > 0.02)
    rate = solved / n
    more = int(rollouts_to_decide(np.array([rate]), np.array([n]), [edge])[0])

    def includes(trials: int) -> bool:
        interval = wilson_interval(np.array([rate * trials]), np.array([trials]), confidence=0.9)
        return bool(interval.low[0] - 1e-9 <= edge <= interval.high[0] + 1e-9)

    assert not includes(n + more + 1)
    assert more == 0 or includes(n + more - 1)


def test_a_rate_on_an_edge_is_never_decided(tmp_path: Path) -> None:
    task = selection_of(frame_of(tmp_path, [(1, 10)]), SelectionCriteria(MIDDLE)).tasks[0]

    assert (task.more_rollouts, task.borderline) == (None, True)


def test_the_ends_of_all_pass_rates_are_no_edges(tmp_path: Path) -> None:
    tasks = selection_of(
        frame_of(tmp_path, [(0, 2), (2, 2)]), SelectionCriteria(RateBand(0, 1))
    ).tasks

    assert [(task.verdict, task.more_rollouts) for task in tasks] == [(TaskVerdict.KEPT, 0)] * 2


def mixed_run(folder: Path) -> Run:
    """Two rollouts per task: task 0 is scored; task 1 timed out once; task 2 never ended once; task
    3 timed out twice.
    """
    keys = [(task, rollout) for task in range(4) for rollout in range(2)]
    return Run.write(
        folder,
        [scored(*key, 1.0) for key in [(0, 0), (0, 1), (1, 0), (2, 0)]],
        inputs=[materialized(*key) for key in keys],
        failures=[failed(*key, "timeout") for key in [(1, 1), (3, 0), (3, 1)]],
    )


def test_failed_keeps_the_tasks_with_a_rollout_without_a_reward(tmp_path: Path) -> None:
    frame = mixed_run(tmp_path).load(allow_partial=True)
    selection = selection_of(frame, SelectionCriteria(failed=True))

    assert verdicts(selection) == ["nothing failed", "kept", "kept", "kept"]
    assert list(selection.kept) == [1, 2, 3]
    assert selection.failures == {"timeout": 3, "never ended": 1}


def test_failed_keeps_at_most_the_limit(tmp_path: Path) -> None:
    frame = mixed_run(tmp_path).load(allow_partial=True)
    selection = selection_of(frame, SelectionCriteria(failed=True, limit=2))

    assert verdicts(selection) == ["nothing failed", "kept", "kept", "over the limit"]
    assert list(selection.kept) == [1, 2]


def test_failed_keeps_all_tasks_when_nothing_was_scored(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", {5: [None], 7: [None, None]})
    frame = load_side(run, name="the run", allow_unscored=True).frame
    selection = selection_of(frame, SelectionCriteria(failed=True))

    assert [(task.task, task.verdict, task.pass_rate) for task in selection.tasks] == [
        (5, TaskVerdict.KEPT, None),
        (7, TaskVerdict.KEPT, None),
    ]


def test_a_failure_that_a_later_attempt_mended_is_scored(tmp_path: Path) -> None:
    run = Run.write(tmp_path, [scored(0, 0, 0.0)], failures=[failed(0, 0, "timeout")])

    selection = selection_of(run.load(), SelectionCriteria(failed=True))

    assert verdicts(selection) == ["nothing failed"]


@pytest.mark.parametrize(
    "criterion",
    [
        {"band": MIDDLE},
        {"min_rollouts": 2},
        {"max_tokens": 5},
        {"solved_at": 0.5},
        {"by_learnability": True},
        {"decided_only": True},
    ],
    ids=lambda criterion: next(iter(criterion)),
)
def test_failed_is_not_combined_with_criteria_of_rewards(criterion: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"failed and {next(iter(criterion))} cannot"):
        SelectionCriteria(failed=True, **criterion)


def exported(run: Run, out: Path, *, only_failed: bool = False) -> list[bytes]:
    frame = run.load(allow_partial=True)
    criteria = SelectionCriteria(failed=True) if only_failed else SelectionCriteria(MIDDLE)
    selection = selection_of(frame, criteria)
    export_selection(frame, selection, out, provenance={"run": selection_origin(frame)})
    return out.read_bytes().splitlines()


def test_rows_are_the_original_ones_byte_for_byte(tmp_path: Path) -> None:
    original = '{"responses_create_params":{"input":"é ü \\u00e9","tools":[ ]},"n":1.50,"big":12345678901234567890123}'
    keys = [(0, 0), (0, 1)]
    run = Run.write(tmp_path, [scored(t, r, float(r)) for t, r in keys])
    run.paths.materialized_inputs.write_text(
        "".join(
            f'{original[:-1]},"_ng_task_index":{t},"_ng_rollout_index":{r}}}\n' for t, r in keys
        )
    )

    assert exported(run, tmp_path / "out" / "tasks.jsonl") == [original.encode()]


def test_seeds_that_the_run_added_are_taken_out(tmp_path: Path) -> None:
    def row(rollout: int) -> dict[str, object]:
        extra = json.dumps({"top_k": 5, "seed": rollout})
        params = {"input": "question", "metadata": {"extra_body": extra}}
        return materialized(0, rollout, responses_create_params=params)

    run = Run.write(
        tmp_path, [scored(0, r, float(r)) for r in range(2)], inputs=[row(r) for r in range(2)]
    )
    params = json.loads(exported(run, tmp_path / "tasks.jsonl")[0])["responses_create_params"]

    assert params == {"input": "question", "metadata": {"extra_body": '{"top_k":5}'}}


def test_every_row_has_its_provenance(tmp_path: Path) -> None:
    run = Run.write(tmp_path, [scored(t, r, float(r)) for t in (7, 9) for r in range(2)])
    run.paths.manifest.write_text(
        '{"digest": "d", "input_digest": "i", "palestra_version": "1", "requested": 4}'
    )
    out = tmp_path / "tasks.jsonl"
    exported(run, out)
    told = json.loads(provenance_path(out).read_text())

    assert told["run"]["manifest"]["digest"] == "d"
    assert len(told["run"]["rewards_digest"]) == 64
    assert [(row["line"], row["task"], row["pass_rate"]) for row in told["tasks"]] == [
        (1, 7, 0.5),
        (2, 9, 0.5),
    ]


def test_failed_tasks_are_exported_with_their_failures(tmp_path: Path) -> None:
    out = tmp_path / "again.jsonl"
    rows = exported(mixed_run(tmp_path), out, only_failed=True)
    entries = json.loads(provenance_path(out).read_text())["tasks"]

    prompts = [json.loads(row)["responses_create_params"]["input"][0]["content"] for row in rows]
    assert prompts == ["question 1", "question 2", "question 3"]
    assert [(row["line"], row["task"], row["scored"], row["failures"]) for row in entries] == [
        (1, 1, 1, {"timeout": 1}),
        (2, 2, 1, {}),
        (3, 3, 0, {"timeout": 2}),
    ]


def test_nothing_is_left_of_an_export_that_failed(tmp_path: Path) -> None:
    run = Run.write(tmp_path, [scored(0, r, float(r)) for r in range(2)])
    frame = run.load()
    selection = selection_of(frame, SelectionCriteria(MIDDLE))
    run.paths.materialized_inputs.write_text("")

    with pytest.raises(InputDataError, match="changed while"):
        export_selection(frame, selection, tmp_path / "out" / "tasks.jsonl", provenance={})

    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize("name", ["tasks.jsonl", "tasks_provenance.json"])
def test_what_is_there_is_not_overwritten_unasked(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("precious")
    run = [tmp_path / "rollouts.jsonl"]

    with pytest.raises(InputDataError, match="exists already"):
        check_destination(tmp_path / "tasks.jsonl", run, overwrite=False)
    check_destination(tmp_path / "tasks.jsonl", run, overwrite=True)


def test_the_run_itself_is_never_overwritten(tmp_path: Path) -> None:
    run = Run.write(tmp_path, [scored(0, 0, 1.0)])

    with pytest.raises(InputDataError, match="is a file of the run itself"):
        check_destination(run.paths.materialized_inputs, [run.paths.output], overwrite=True)
