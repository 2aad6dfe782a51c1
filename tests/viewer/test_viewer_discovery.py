"""Which runs the arguments of `palestra view` name."""

import json
from pathlib import Path
from typing import Any

import pytest

from listed_runs import answered, write_run
from palestra.errors import InputDataError
from palestra.rollouts import ShardOf
from palestra.schema import RunPaths
from palestra.viewer import find_places
from profiled_runs import materialized


def write(path: Path, *rows: Any) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def names_of_outputs(*arguments: Path | str) -> list[list[str]]:
    return [
        [path.name for path in place.outputs] for place in find_places([*map(str, arguments)]).runs
    ]


def test_a_folder_is_searched_four_levels_deep(tmp_path: Path) -> None:
    write_run(tmp_path / "1" / "2" / "3" / "4", [answered(0, 1)], requested=1)
    write_run(tmp_path / "1" / "2" / "3" / "5" / "6", [answered(0, 1)], requested=1)

    [place] = find_places([str(tmp_path)]).runs
    assert place.path.parent.name == "4"


def test_a_run_may_be_named_as_the_folder_of_jobs(tmp_path: Path) -> None:
    write_run(tmp_path / "cluster", [answered(0, 1)], requested=1)
    jobs_folder = tmp_path / "spread" / "cluster"
    write(jobs_folder / "0001" / "plan.json", {})
    write_run(jobs_folder / "inputs", [answered(0, 1)], requested=1)

    [place] = find_places([str(tmp_path)]).runs
    assert place.path.parent.name == "cluster"


def test_every_name_of_a_run_names_it(tmp_path: Path) -> None:
    output = write_run(tmp_path / "a", [answered(0, 1)], requested=1)
    paths = RunPaths(output)
    names = [output, tmp_path / "a", output.with_suffix(""), paths.manifest, paths.failures]

    ids = {place.id for name in names for place in find_places([str(name)]).runs}
    assert len(ids) == 1


def test_shards_are_one_run(tmp_path: Path) -> None:
    for number in range(2):
        shard = ShardOf(number, 2, 2, 2)
        write_run(tmp_path / f"s{number}", [answered(0, 1)], requested=1, shard=shard)

    [run] = find_places([str(tmp_path)]).runs
    assert len(run.outputs) == 2


def test_rollouts_of_another_program_are_a_run(tmp_path: Path) -> None:
    write(tmp_path / "a" / "theirs.jsonl", {"response": {"output": []}, "reward": 1.0})
    write(tmp_path / "a" / "tasks.jsonl", {"responses_create_params": {"input": "hi"}})

    assert names_of_outputs(tmp_path) == [["theirs.jsonl"]]


@pytest.mark.parametrize(
    ("name", "row", "what"),
    [
        ("tasks.jsonl", {"responses_create_params": {"input": "hi"}}, "a dataset"),
        ("x_failures.jsonl", {"_ng_failure_class": "timeout"}, "the failures of a run"),
        ("x_materialized_inputs.jsonl", materialized(0, 0), "the inputs of a run"),
        ("x_report.html", "hello", "a report or a summary"),
    ],
)
def test_what_is_no_run_is_named(tmp_path: Path, name: str, row: Any, what: str) -> None:
    path = write(tmp_path / name, row)

    with pytest.raises(InputDataError, match=what) as raised:
        find_places([path])
    assert raised.value.hint


@pytest.mark.parametrize("name", ["nothing", "nothing.jsonl", "*.jsonl"])
def test_what_is_not_there_is_an_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputDataError):
        find_places([str(tmp_path / name)])


def test_an_empty_folder_has_no_run(tmp_path: Path) -> None:
    with pytest.raises(InputDataError, match="no run is in"):
        find_places([str(tmp_path)])
