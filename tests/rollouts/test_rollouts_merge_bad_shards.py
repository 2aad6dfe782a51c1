"""Shards that do not belong together, or are not as a collection wrote them: one clear error."""

import fcntl
import json
from pathlib import Path
from typing import Any

import pytest
from sharded_runs import (
    SEMANTICS,
    edit_manifest,
    failed_row,
    lines,
    mark_shard,
    run_of,
    scored_row,
    write_run,
    write_shards,
)

from palestra.errors import InputDataError
from palestra.rollouts import Journal, OtherRun, merge, runs_in
from palestra.rollouts.merging.sources import find_shards
from palestra.schema import RunPaths


def shards_of(folder: Path, of: int = 3) -> list[Path]:
    return write_shards(folder / "shards", run_of(tasks=6, repeats=1), of)


def refused(folder: Path, *shards: Path | str, out: str = "run.jsonl") -> str:
    """The error of a merge that must not write anything."""
    with pytest.raises(InputDataError) as caught:
        merge(folder / "all" / out, shards or [folder / "shards"])
    assert caught.value.exit_code == 2
    assert not (folder / "all").exists()
    return f"{caught.value.message}\nhint: {caught.value.hint}"


def found(*given: Path | str, out: Path = Path("elsewhere.jsonl")) -> list[str]:
    shards, _ = find_shards(given, out)
    return [shard.paths.output.name for shard in shards]


def test_a_shard_of_another_run_is_named_with_what_differs(tmp_path: Path) -> None:
    shards = shards_of(tmp_path)
    hotter: dict[str, Any] = json.loads(json.dumps(SEMANTICS))
    hotter["servers"]["policy_model"]["settings"]["temperature"] = 0.7
    edit_manifest(shards[0], semantics=hotter)

    with pytest.raises(OtherRun) as caught:
        merge(tmp_path / "all.jsonl", shards)
    assert "1 of 3 shards belong to another run" in caught.value.message
    assert f"{shards[0]}:\n" in caught.value.message
    assert "servers.policy_model.settings.temperature: 1.0 -> 0.7" in caught.value.message


def with_servers(**servers: Any) -> dict[str, Any]:
    """Semantics of the run with an agent that reaches the policy, and more servers."""
    agent = {"settings": {"model_server": {"name": "policy_model"}}}
    return {"servers": {**SEMANTICS["servers"], "agent": agent, **servers}}


def test_a_server_that_no_row_of_the_shards_reaches_makes_no_other_run(tmp_path: Path) -> None:
    shards = shards_of(tmp_path)
    for shard in shards:
        edit_manifest(shard, semantics=with_servers())
    edit_manifest(shards[1], semantics=with_servers(unreached={"settings": {"port": 1}}))

    merge(tmp_path / "all.jsonl", shards)

    assert len((tmp_path / "all.jsonl").read_text().splitlines()) == 6
    [folder_run] = runs_in(tmp_path / "shards")
    assert len(folder_run) == 3
    [merged_run] = runs_in(tmp_path)
    assert merged_run[0][0] == tmp_path / "all_manifest.json"


def test_a_server_that_rows_of_a_shard_reach_makes_another_run(tmp_path: Path) -> None:
    shards = shards_of(tmp_path)
    agent = {"settings": {"model_server": {"name": "policy_model"}, "judge": {"name": "judge"}}}
    for shard in shards:
        edit_manifest(shard, semantics=with_servers(agent=agent))
    edit_manifest(shards[1], semantics=with_servers(agent=agent, judge={"settings": {}}))

    with pytest.raises(OtherRun, match=r"servers\.judge: absent -> "):
        merge(tmp_path / "all.jsonl", shards)
    assert len(runs_in(tmp_path / "shards")) == 2


def test_a_shard_of_other_rows_is_named(tmp_path: Path) -> None:
    shards = shards_of(tmp_path)
    edit_manifest(shards[2], input_digest="other")

    text = refused(tmp_path)
    assert f"{shards[2]}:\n    the input rows differ" in text
    assert "`--shard I/N`" in text


def test_shards_of_runs_of_different_size_are_refused(tmp_path: Path) -> None:
    shards = shards_of(tmp_path)
    mark_shard(shards[1], 1, 3, requested=60, tasks=6)

    assert "rollouts of the run: 6 -> 60" in refused(tmp_path)


def test_a_manifest_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    edit_manifest(shards_of(tmp_path)[1], format=99)
    text = refused(tmp_path)

    assert "was written by a newer Palestra (format 99" in text
    assert "--overwrite" not in text


@pytest.mark.parametrize("text", ["{", "[]", '{"format": 1}'])
def test_a_broken_manifest_is_refused(tmp_path: Path, text: str) -> None:
    RunPaths(shards_of(tmp_path)[1]).manifest.write_text(text)

    assert "is not a manifest" in refused(tmp_path)


def test_a_shard_without_its_manifest_is_named(tmp_path: Path) -> None:
    shards = shards_of(tmp_path)
    RunPaths(shards[1]).manifest.unlink()

    text = refused(tmp_path)
    assert f"no manifest beside {shards[1]}, but 2 other shards have one" in text


def test_a_shard_without_its_materialized_inputs_is_named(tmp_path: Path) -> None:
    shards = shards_of(tmp_path)
    RunPaths(shards[1]).materialized_inputs.unlink()

    assert "shard1_materialized_inputs.jsonl is missing" in refused(tmp_path)


def test_cut_materialized_inputs_are_refused(tmp_path: Path) -> None:
    shards = shards_of(tmp_path)
    shards[1].write_bytes(b"")
    path = RunPaths(shards[1]).materialized_inputs
    path.write_bytes(path.read_bytes()[:-5])

    assert f"{path} holds 1 rollouts, but its manifest says 2" in refused(tmp_path)


def test_a_shard_that_is_being_written_is_refused(tmp_path: Path) -> None:
    shards = shards_of(tmp_path)

    with Journal(RunPaths(shards[1])):
        assert f"{shards[1]} is being written by a collection" in refused(tmp_path)


def test_a_shard_that_others_read_is_not_being_written(tmp_path: Path) -> None:
    shards = shards_of(tmp_path)
    with shards[1].open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_SH)

        assert merge(tmp_path / "all.jsonl", shards).accounting.scored == 6


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b"not json\n", "line 2: not JSON"),
        (b"[1]\n", "line 2: Expected `object`"),
        (b'{"reward": 1}\n', "line 2: Object missing required field `_ng_task_index`"),
        (lines([scored_row(0, 0, _ng_task_index="a")]), "line 2: Expected `int`"),
        (lines([scored_row(0, 0, _ng_task_index=2**63)]), "line 2: "),
        (lines([scored_row(0, 0, reward="1")]), "line 2: Expected `bool | int | float`"),
        (lines([scored_row(0, 0, reward=None)]), "line 2: Expected `bool | int | float`"),
        (lines([scored_row(0, 0, reward=float("nan"))]), "line 2: the reward is nan"),
        (lines([scored_row(0, 0, reward=float("inf"))]), "line 2: the reward is inf"),
        (b"\xff\xfe\n", "line 2: not JSON"),
    ],
)
def test_a_line_that_is_no_row_is_named(tmp_path: Path, line: bytes, says: str) -> None:
    run = run_of(tasks=2, repeats=1)
    shard = write_run(tmp_path / "shards" / "a.jsonl", run)
    first, second = lines(run.scored).splitlines(keepends=True)
    shard.write_bytes(first + line + b"\n" + second)

    text = refused(tmp_path)
    assert f"{shard}: 1 row cannot be used" in text
    assert says in text


def test_all_bad_lines_of_a_file_are_said_at_once(tmp_path: Path) -> None:
    shard = write_run(tmp_path / "shards" / "a.jsonl", run_of(tasks=2, repeats=1))
    shard.write_bytes(b"{}\n" * 5 + shard.read_bytes() + b"[]\n")

    text = refused(tmp_path)
    assert "6 rows cannot be used" in text
    assert "lines 1-5: " in text
    assert "line 8: " in text


@pytest.mark.parametrize(
    "changes",
    [
        {"_ng_failure_class": "scored"},
        {"_ng_failure_class": "bad_luck", "_ng_failure_terminal": True},
        {"_ng_failure_class": None},
    ],
)
def test_a_failure_that_is_none_is_named(tmp_path: Path, changes: dict[str, Any]) -> None:
    run = run_of(tasks=1, repeats=1)
    run.failures = [failed_row(0, 0, 1) | changes]
    write_run(tmp_path / "shards" / "a.jsonl", run)

    assert "a_failures.jsonl: 1 row cannot be used" in refused(tmp_path)


def test_a_score_that_nobody_asked_for_is_named(tmp_path: Path) -> None:
    run = run_of(tasks=2, repeats=1)
    run.scored.append(scored_row(7, 3))
    shard = write_run(tmp_path / "shards" / "a.jsonl", run)

    text = refused(tmp_path)
    assert "1 rows are for rollouts that their own materialized inputs do not have" in text
    assert f"7:3: {shard} line 3" in text


def test_a_score_in_the_wrong_shard_is_named(tmp_path: Path) -> None:
    shards = shards_of(tmp_path)
    first, second = (shard.read_bytes() for shard in shards[:2])
    shards[0].write_bytes(second)
    shards[1].write_bytes(first)

    assert "2:0: " in refused(tmp_path)


def test_a_failure_that_nobody_asked_for_is_named(tmp_path: Path) -> None:
    run = run_of(tasks=2, repeats=1)
    run.failures.append(failed_row(5, 0, 1))
    write_run(tmp_path / "shards" / "a.jsonl", run)

    assert "a_failures.jsonl line 1" in refused(tmp_path)


def test_the_output_may_not_be_a_shard(tmp_path: Path) -> None:
    shards = shards_of(tmp_path)

    with pytest.raises(InputDataError, match="is the output and one of the shards"):
        merge(shards[0], shards)


def test_no_merged_file_may_take_the_place_of_a_shards(tmp_path: Path) -> None:
    shard = write_run(tmp_path / "run_failures.jsonl", run_of(tasks=1, repeats=1))

    with pytest.raises(InputDataError, match="belongs to one of its shards"):
        merge(tmp_path / "run.jsonl", [shard])


def test_the_output_may_not_be_a_folder(tmp_path: Path) -> None:
    shards = shards_of(tmp_path)
    (tmp_path / "all.jsonl").mkdir()

    with pytest.raises(InputDataError, match="is a folder"):
        merge(tmp_path / "all.jsonl", shards)


def test_a_shard_that_does_not_exist_is_named(tmp_path: Path) -> None:
    assert "shard3.jsonl does not exist" in refused(tmp_path, tmp_path / "shard3.jsonl")
    assert "no file matches" in refused(tmp_path, str(tmp_path / "*.jsonl"))


def test_a_folder_without_shards_is_named(tmp_path: Path) -> None:
    (tmp_path / "shards").mkdir()

    assert "no shards to merge in" in refused(tmp_path)
    assert "no shards to merge in nothing" in refused_nothing(tmp_path)


def refused_nothing(folder: Path) -> str:
    with pytest.raises(InputDataError) as caught:
        merge(folder / "all.jsonl", [])
    return caught.value.message


def test_folders_globs_and_files_name_the_same_shards(tmp_path: Path) -> None:
    shards = shards_of(tmp_path)
    (tmp_path / "shards" / "shard0.jsonl.bak").touch()
    names = ["shard0.jsonl", "shard1.jsonl", "shard2.jsonl"]

    assert found(tmp_path / "shards") == names
    assert found(str(tmp_path / "*" / "shard*")) == names
    assert found(*sorted((tmp_path / "shards").iterdir())) == names
    assert found(*reversed(shards), tmp_path / "shards") == names


def test_the_task_rows_that_eval_writes_beside_its_shard_are_no_shard(tmp_path: Path) -> None:
    shards = shards_of(tmp_path)
    tasks = shards[0].with_name(f"{shards[0].stem}_tasks.jsonl")
    tasks.write_text('{"responses_create_params": {"input": "2 + 2 = ?"}}\n')

    assert found(tmp_path / "shards") == [shard.name for shard in shards]
    assert merge(tmp_path / "all.jsonl", [tmp_path / "shards"]).completeness.complete_tasks == 6


def test_a_shard_that_is_given_twice_is_read_once(tmp_path: Path) -> None:
    shards = shards_of(tmp_path)
    detour = tmp_path / "shards" / ".." / "shards" / "shard0.jsonl"
    read, notices = find_shards([*shards, detour], tmp_path / "all.jsonl")

    assert len(read) == 3
    assert notices == [f"given more than once, read once: {min(shards[0], detour)}"]


def test_the_output_is_no_shard_of_its_folder(tmp_path: Path) -> None:
    shards_of(tmp_path)
    output = write_run(tmp_path / "shards" / "all.jsonl", run_of(tasks=6, repeats=1))

    assert found(tmp_path / "shards", out=output) == [f"shard{n}.jsonl" for n in range(3)]


def test_a_run_that_is_named_like_a_derived_file_is_a_run(tmp_path: Path) -> None:
    write_run(tmp_path / "known_failures.jsonl", run_of(tasks=1, repeats=1))

    assert found(tmp_path) == ["known_failures.jsonl"]


def test_a_shard_that_was_killed_before_its_first_row_is_a_shard(tmp_path: Path) -> None:
    shards = shards_of(tmp_path)
    shards[1].unlink()

    assert found(*shards) == ["shard0.jsonl", "shard1.jsonl", "shard2.jsonl"]


def verified_again(run: Path) -> Path:
    """Leave the files that a re-verification of `run` writes beside it."""
    output = RunPaths(run).reverified
    output.write_bytes(run.read_bytes())
    inputs = RunPaths(run).materialized_inputs.read_bytes()
    RunPaths(output).materialized_inputs.write_bytes(inputs)
    output.with_name(f"{output.stem}_reverify.json").write_text("{}")
    return output


@pytest.mark.parametrize("pattern", ["shards", "shards/*.jsonl"])
def test_rows_that_were_verified_again_are_no_shard_beside_their_run(
    tmp_path: Path, pattern: str
) -> None:
    shards = shards_of(tmp_path)
    verified_again(shards[0])

    assert found(tmp_path / pattern) == [shard.name for shard in shards]


def test_rows_that_were_verified_again_are_shards_where_the_pattern_means_them(
    tmp_path: Path,
) -> None:
    outputs = [verified_again(shard) for shard in shards_of(tmp_path)]

    assert found(tmp_path / "shards" / "*_reverified.jsonl") == [path.name for path in outputs]
