"""Loading a run: what is accepted, and what every refusal says."""

import gzip
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from palestra.analysis import load_run
from palestra.errors import ConfigError, InputDataError
from profiled_runs import Run, failed, key, lines, materialized, scored

EVERY_KEY = [materialized(task, rollout) for task in range(6) for rollout in range(2)]


def test_numbers_of_the_row_and_of_its_usage_become_columns(tmp_path: Path) -> None:
    rows = [scored(0, 0, 1, tokens=5, accuracy=True, note="text"), scored(0, 1, 0.5, tokens=6)]
    columns = Run.write(tmp_path, rows).load().rollouts.columns

    assert list(columns.values) == ["reward", "accuracy", "input_tokens", "output_tokens"]
    assert columns.values["reward"].tolist() == [1.0, 0.5]
    assert np.isnan(columns.values["accuracy"][1])
    assert columns.whole == {"accuracy", "input_tokens", "output_tokens"}


def test_a_field_of_the_row_wins_over_one_of_its_usage(tmp_path: Path) -> None:
    frame = Run.write(tmp_path, [scored(0, 0, 1.0, tokens=5, output_tokens=9)]).load()

    assert frame.rollouts.columns.values["output_tokens"].tolist() == [9.0]


def test_rollouts_come_in_key_order_with_numbered_tasks_before_named_ones(tmp_path: Path) -> None:
    keys = [("b", 0), (10, 1), (2, 0), (10, 0), ("a", 0)]
    frame = Run.write(tmp_path, [scored(task, rollout, 1.0) for task, rollout in keys]).load()

    assert frame.rollouts.tasks == [2, 10, "a", "b"]
    assert frame.rollouts.rollout_index.tolist() == [0, 0, 1, 0, 0]


@pytest.mark.parametrize("field", ["inputs", "rollouts"])
def test_a_repeated_key_is_refused_with_both_lines(tmp_path: Path, field: str) -> None:
    rows = [scored(0, 0, 1.0), scored(3, 1, 1.0), scored(1, 0, 1.0)]
    run = Run.write(tmp_path, rows)
    path = run.paths.materialized_inputs if field == "inputs" else run.paths.output
    with path.open("a") as file:
        file.write(path.read_text().splitlines()[1] + "\n")

    with pytest.raises(InputDataError, match="task 3, rollout 1 on lines 2 and 4"):
        run.load(allow_partial=True)


def test_rollouts_that_nobody_asked_for_are_refused_even_in_part(tmp_path: Path) -> None:
    rows = [scored(task, 0, 1.0) for task in range(12)]
    run = Run.write(tmp_path, rows, inputs=[materialized(0, 0)])

    with pytest.raises(InputDataError, match=r"11 of 12 rollouts .* no materialized") as caught:
        run.load(allow_partial=True)

    assert caught.value.message.endswith("1:0, 2:0, 3:0, 4:0, 5:0, 6:0, 7:0, 8:0, 9:0, 10:0, …")


def test_missing_rollouts_are_refused_with_the_first_ten_and_the_way_out(tmp_path: Path) -> None:
    run = Run.write(tmp_path, [scored(0, 1, 1.0)], inputs=EVERY_KEY)

    with pytest.raises(InputDataError, match="11 of 12 rollouts are missing") as caught:
        run.load()

    assert caught.value.message.endswith("0:0, 1:0, 1:1, 2:0, 2:1, 3:0, 3:1, 4:0, 4:1, 5:0, …")
    assert "--allow-partial" in caught.value.hint
    assert caught.value.exit_code == 2


def test_part_of_a_run_is_counted(tmp_path: Path) -> None:
    rows = [scored(0, 0, 1.0), scored(0, 1, 1.0), scored(4, 1, 1.0)]
    frame = Run.write(tmp_path, rows, inputs=EVERY_KEY).load(allow_partial=True)

    assert frame.rollouts.tasks == [0, 4]
    assert str(frame.completeness) == (
        "rollouts: 3 of 12 completed (25.0 %); tasks: 1 complete, 1 partial, 4 dropped"
    )


@pytest.mark.parametrize("field", ["note", "extracted_answer", "agent_ref"])
def test_a_text_that_is_no_utf8_is_named(tmp_path: Path, field: str) -> None:
    run = Run.write(tmp_path, [scored(0, 0, 1.0)])
    value = b'{"name": "caf\xe9"}' if field == "agent_ref" else b'"caf\xe9"'
    row = b'{"_ng_task_index": 0, "_ng_rollout_index": 0, "reward": 1.0, "%s": %s}\n'
    run.paths.output.write_bytes(row % (field.encode(), value))

    with pytest.raises(InputDataError, match="is not UTF-8: line 1, byte") as caught:
        run.load()
    assert caught.value.hint == "convert the file to UTF-8"


def test_rollouts_given_as_inputs_are_recognised(tmp_path: Path) -> None:
    run = Run.write(tmp_path, [scored(0, 0, 1.0)])

    with pytest.raises(InputDataError, match="holds rollouts, not materialized inputs: line 1"):
        load_run(run.paths.output, run.paths.output)


def test_inputs_given_as_rollouts_are_recognised(tmp_path: Path) -> None:
    run = Run.write(tmp_path, [scored(0, 0, 1.0)])
    copy = shutil.copy(run.paths.materialized_inputs, tmp_path / "copy.jsonl")

    with pytest.raises(InputDataError, match="holds no rollouts: no row has a reward"):
        load_run(run.paths.materialized_inputs, copy)


@pytest.mark.parametrize(
    ("value", "shown"),
    [("NaN", "nan"), ("null", "null"), ('"1.0"', '"1.0"'), ("-Infinity", "-inf"), ("1e999", "inf")],
)
def test_a_reward_must_be_a_finite_number(tmp_path: Path, value: str, shown: str) -> None:
    run = Run.write(tmp_path, [scored(0, 0, 1.0), scored(0, 1, 0.25)])
    text = run.paths.output.read_text().replace("0.25", value)
    run.paths.output.write_text(text)

    with pytest.raises(
        InputDataError, match=rf"line 2 \(task 0, rollout 1\): the reward is {shown}, not"
    ):
        run.load()


@pytest.mark.parametrize("value", ["1e308", "-1.5e100", "1" + "0" * 101])
def test_a_reward_beyond_what_can_be_computed_is_refused(tmp_path: Path, value: str) -> None:
    run = Run.write(tmp_path, [scored(0, 0, 1e100), scored(0, 1, 0.25)])
    text = run.paths.output.read_text().replace("0.25", value)
    run.paths.output.write_text(text)

    with pytest.raises(
        InputDataError, match=r"rollouts\.jsonl line 2 \(task 0, .* within ±1e\+100"
    ) as refused:
        run.load()
    assert "scale the rewards" in refused.value.hint


def test_the_largest_reward_that_can_be_computed_is_taken(tmp_path: Path) -> None:
    frame = Run.write(tmp_path, [scored(0, 0, 1e100), scored(0, 1, -1e100)]).load()

    assert frame.rollouts.reward.tolist() == [1e100, -1e100]


def test_a_row_without_a_reward_among_scored_ones_is_named(tmp_path: Path) -> None:
    run = Run.write(tmp_path, [scored(0, 0, 1.0)])
    with run.paths.output.open("a") as file:
        file.write("\n" + lines([key(0, 1)]))

    with pytest.raises(
        InputDataError, match=r"line 3 \(task 0, rollout 1\): the row has no reward"
    ):
        run.load(allow_partial=True)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "has no rows"),
        (" \n\n", "has no rows"),
        ("{}\n", "line 1 has no _ng_task_index"),
        ("[1]\n", "line 1 is JSON, but not a JSON object"),
        ("{]\n", "is not JSONL: line 1 is not JSON"),
        (
            '{"_ng_task_index": 1.5, "_ng_rollout_index": 0}\n',
            "_ng_task_index is 1.5, not an integer or a name",
        ),
        (
            '{"_ng_task_index": 1, "_ng_rollout_index": true}\n',
            "_ng_rollout_index is True, not an integer",
        ),
    ],
)
def test_a_file_that_is_not_what_it_should_be_is_refused(
    tmp_path: Path, text: str, said: str
) -> None:
    run = Run.write(tmp_path, [scored(0, 0, 1.0)])
    run.paths.materialized_inputs.write_text(text)

    with pytest.raises(InputDataError, match=said):
        run.load()


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    run = Run.write(tmp_path, [scored(0, 0, 1.0)])

    with pytest.raises(InputDataError, match=r"cannot read .*nowhere.jsonl: No such file"):
        load_run(tmp_path / "nowhere.jsonl", run.paths.output)
    with pytest.raises(InputDataError, match=r"cannot read .*nowhere.jsonl: No such file"):
        load_run(None, tmp_path / "nowhere.jsonl")


def test_a_torn_last_line_is_refused_when_everything_is_wanted(tmp_path: Path) -> None:
    run = Run.write(tmp_path, [scored(0, 0, 1.0), scored(0, 1, 1.0)])
    run.paths.output.write_bytes(run.paths.output.read_bytes()[:-20])

    with pytest.raises(InputDataError, match=r"the last line \(2\) is incomplete") as caught:
        run.load()

    assert "--allow-partial" in caught.value.hint


def test_a_torn_last_line_is_left_out_of_a_part_with_a_notice(tmp_path: Path) -> None:
    run = Run.write(tmp_path, [scored(0, 0, 1.0), scored(0, 1, 1.0)])
    run.paths.output.write_bytes(run.paths.output.read_bytes()[:-20])

    frame = run.load(allow_partial=True)

    assert len(frame.rollouts) == 1
    assert len(frame.notices) == 1
    assert "line 2 is torn" in frame.notices[0]


def test_a_last_line_that_only_lacks_its_end_is_whole(tmp_path: Path) -> None:
    run = Run.write(tmp_path, [scored(0, 0, 1.0), scored(0, 1, 1.0)])
    run.paths.output.write_bytes(run.paths.output.read_bytes().rstrip())

    assert len(run.load().rollouts) == 2


def test_what_only_python_json_writes_is_still_read(tmp_path: Path) -> None:
    row = scored(0, 0, 1.0, tokens=4, logprob=float("-inf"))
    row["response"]["output"] = [{"text": "\ud800", "logprob": float("-inf")}]
    frame = Run.write(tmp_path, [row]).load()

    assert list(frame.rollouts.columns.values) == ["reward", "input_tokens", "output_tokens"]


def test_a_gzip_run_loads_like_a_plain_one(tmp_path: Path) -> None:
    run = Run.write(tmp_path, [scored(0, 0, 1.0, tokens=3), scored(1, 0, 0.0, tokens=9)])
    packed = tmp_path / "rollouts.jsonl.gz"
    packed.write_bytes(gzip.compress(run.paths.output.read_bytes()))

    frame = load_run(run.paths.materialized_inputs, packed)

    assert frame.rollouts.columns.values["output_tokens"].tolist() == [3.0, 9.0]


def test_a_gzip_file_cut_short_is_refused(tmp_path: Path) -> None:
    run = Run.write(tmp_path, [scored(0, 0, 1.0)])
    packed = tmp_path / "rollouts.jsonl.gz"
    packed.write_bytes(gzip.compress(run.paths.output.read_bytes())[:-9])

    with pytest.raises(InputDataError, match=r"cannot read .*rollouts\.jsonl\.gz"):
        load_run(run.paths.materialized_inputs, packed)


def test_failures_count_once_by_their_last_attempt_and_only_without_a_score(tmp_path: Path) -> None:
    failures = [
        failed(0, 1, "timeout", attempt=2),
        failed(0, 1, "infra_error", attempt=1),
        failed(0, 0, "judge_error"),
        failed(77, 0, "data_error"),
    ]
    run = Run.write(tmp_path, [scored(0, 0, 1.0)], inputs=EVERY_KEY[:4], failures=failures)
    requests = run.load(allow_partial=True).requests

    assert requests.outcome_names[requests.outcome[0]] == "scored"
    assert requests.outcome_names[requests.outcome[1]] == "timeout"
    assert requests.outcome.tolist()[2:] == [-1, -1]


def test_failures_of_unknown_keys_are_mentioned(tmp_path: Path) -> None:
    run = Run.write(tmp_path, [scored(0, 0, 1.0)], failures=[failed(77, 0, "data_error")])

    assert "1 keys of the failures file have no materialized row" in run.load().notices[0]


def test_a_file_without_failure_classes_is_no_failures_file(tmp_path: Path) -> None:
    run = Run.write(tmp_path, [scored(0, 0, 1.0)])

    with pytest.raises(InputDataError, match=r"line 1 .* has no _ng_failure_class"):
        run.load(failures_path=run.paths.output)


def test_a_family_can_sit_inside_an_object_of_either_file(tmp_path: Path) -> None:
    inputs = [materialized(0, 0, metadata={"source": "a"}), materialized(1, 0)]
    rows = [scored(0, 0, 1.0), scored(1, 0, 1.0, metadata={"source": "b"})]
    families = Run.write(tmp_path, rows, inputs=inputs).load(group_by="metadata.source").families

    assert families is not None
    assert [families.names[code] for code in families.codes] == ["a", "b"]


def test_a_field_to_group_by_that_no_row_has_is_told(tmp_path: Path) -> None:
    frame = Run.write(tmp_path, [scored(0, 0, 1.0)]).load(group_by="metadata.sorce")

    assert "no row has a text in 'metadata.sorce' to group by" in frame.notices


def test_a_field_to_group_by_that_no_row_has_can_be_refused(tmp_path: Path) -> None:
    run = Run.write(tmp_path, [scored(0, 0, 1.0, topic="a")])

    with pytest.raises(ConfigError, match="did you mean 'topic'") as raised:
        run.load(group_by="topc", allow_ungrouped=False)
    assert "response" not in raised.value.hint


def test_responses_leave_no_trace_in_memory(tmp_path: Path) -> None:
    row = json.dumps(scored(0, 0, 1.0))
    big = row.replace("a" * 50, "a" * 5_000_000)
    run = Run.write(tmp_path, [scored(0, 0, 1.0)])
    run.paths.output.write_text(big + "\n")
    frame = run.load()

    held = sum(column.nbytes for column in frame.rollouts.columns.values.values())
    assert held == 8
