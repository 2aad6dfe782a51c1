"""Runs that are made of scored rollouts alone."""

from pathlib import Path

import pytest
from stored_rollouts import stored, without, write

from palestra.datasets import records_of
from palestra.errors import InputDataError
from palestra.rollouts import import_command, import_rollouts
from palestra.schema import JsonDict, RunPaths, read_jsonl

INDICES = ("_ng_task_index", "_ng_rollout_index")


def unnumbered(number: int, **fields: object) -> JsonDict:
    return without(stored(number, **fields), *INDICES)


def rows_of(path: Path) -> list[JsonDict]:
    return [line.row for line in read_jsonl(path)]


def keys_of(path: Path) -> list[tuple[int, int]]:
    return [(row[INDICES[0]], row[INDICES[1]]) for row in rows_of(path)]


def imported(folder: Path, rows: list[JsonDict]) -> Path:
    output = folder / "run.jsonl"
    import_rollouts([write(folder / "old.jsonl", rows)], records_of, output)
    return output


def test_rollouts_with_one_prompt_are_one_task(tmp_path: Path) -> None:
    output = imported(tmp_path, [unnumbered(7), unnumbered(9), unnumbered(7)])

    assert keys_of(output) == [(0, 0), (1, 0), (0, 1)]
    assert keys_of(RunPaths(output).materialized_inputs) == [(0, 0), (1, 0), (0, 1)]


def test_indices_that_rows_have_stay(tmp_path: Path) -> None:
    output = imported(tmp_path, [stored(4), stored(2)])

    assert keys_of(output) == [(4, 0), (2, 0)]


def test_a_task_has_the_fields_on_which_its_rollouts_agree(tmp_path: Path) -> None:
    rows = [unnumbered(0, gold="a", said="x"), unnumbered(0, gold="a", said="y")]

    output = imported(tmp_path, rows)

    first = rows_of(RunPaths(output).materialized_inputs)[0]
    assert first["gold"] == "a"
    assert not {"said", "response", "reward"} & first.keys()


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        (without(unnumbered(0), "reward"), "/reward is missing"),
        (without(unnumbered(0), "response"), "/response is missing"),
        (without(stored(1), INDICES[1]), "but not both"),
        (stored(1), "others have none"),
    ],
)
def test_a_row_that_is_no_scored_rollout_is_named_and_nothing_is_written(
    tmp_path: Path, row: JsonDict, problem: str
) -> None:
    with pytest.raises(InputDataError, match=problem):
        imported(tmp_path, [unnumbered(0), row])

    assert [path.name for path in tmp_path.iterdir()] == ["old.jsonl"]


def test_a_rollout_that_is_there_twice_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputDataError, match="line 2: repeats rollout 3:0"):
        imported(tmp_path, [stored(3), stored(3)])


def test_a_file_that_exists_stays(tmp_path: Path) -> None:
    output = imported(tmp_path, [stored(0)])

    with pytest.raises(InputDataError, match="exists"):
        imported(tmp_path, [stored(1)])

    assert keys_of(output) == [(0, 0)]


def test_the_command_is_advised_for_rollouts_without_a_run(tmp_path: Path) -> None:
    old = write(tmp_path / "old.jsonl", [unnumbered(0)])
    assert import_command(old).endswith(f"--rollouts --output {tmp_path / 'old_run.jsonl'}")

    RunPaths(old).materialized_inputs.touch()
    assert not import_command(old)


@pytest.mark.parametrize("index", [[1], "a", 1.5, -1, None, True])
def test_an_index_that_is_no_whole_number_is_refused(tmp_path: Path, index: object) -> None:
    with pytest.raises(InputDataError, match=r"/_ng_task_index is .*no whole number"):
        imported(tmp_path, [{**stored(0), INDICES[0]: index}])
