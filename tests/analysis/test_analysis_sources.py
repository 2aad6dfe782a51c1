"""Which files make a run: shards, globs, compressed ones, and what their manifests say."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from packers import zstd
from palestra.analysis import (
    MissingShards,
    MixedRuns,
    load_run,
    profile_tasks,
    summarize,
    write_reward_profiling,
)
from palestra.analysis.sources import rollout_files, run_files
from palestra.analysis.views import Range
from palestra.errors import InputDataError
from palestra.schema import RunPaths
from profiled_runs import AGENT, Run, failed, lines, materialized, scored

PACKERS = {".gz": gzip.compress, ".zst": zstd.compress}


def shards(folder: Path, count: int = 2) -> list[Run]:
    """`part0`, `part1`, … with one task of two rollouts each; the second one failed."""
    made = []
    for task in range(count):
        own = folder / f"of{task}"
        own.mkdir()
        inputs = [materialized(task, rollout, n=task) for rollout in range(2)]
        run = Run.write(
            own, [scored(task, 0, task)], inputs=inputs, failures=[failed(task, 1, "timeout")]
        )
        for path in (run.paths.output, run.paths.materialized_inputs, run.paths.failures):
            path.rename(folder / path.name.replace("rollouts", f"part{task}", 1))
        made.append(Run(RunPaths(folder / f"part{task}.jsonl")))
    return made


def scored_shards(folder: Path) -> list[Run]:
    """Two shards of one rollout each."""
    runs = []
    for index in range(2):
        paths = RunPaths(folder / f"part{index}.jsonl")
        paths.output.write_text(lines([scored(index, 0, 1.0)]))
        paths.materialized_inputs.write_text(lines([materialized(index, 0)]))
        runs.append(Run(paths))
    return runs


def manifest(run: Run, digest: str, **more: Any) -> None:
    run.paths.manifest.write_text(json.dumps({"digest": digest, **more}))


def test_a_glob_of_shards_is_one_run_with_the_files_beside_them(tmp_path: Path) -> None:
    shards(tmp_path)
    frame = load_run(None, str(tmp_path / "part*.jsonl"), allow_partial=True)

    assert [row["sample"]["n"] for row in profile_tasks(frame)] == [0, 1]
    assert frame.requests.outcome_names == ("scored", "timeout")
    assert frame.completeness.completed_rollouts == 2


def test_a_profile_beside_its_shards_is_not_taken_for_one(tmp_path: Path) -> None:
    shards(tmp_path)
    pattern = str(tmp_path / "part*.jsonl")
    frame = load_run(None, pattern, allow_partial=True)
    paths = RunPaths.for_files(frame.rollout_places.files)
    write_reward_profiling(frame, paths.reward_profiling)

    assert paths.reward_profiling == tmp_path / "part_reward_profiling.jsonl"
    assert len(load_run(None, pattern, allow_partial=True).rollouts) == 2


def test_shards_in_several_folders_are_profiled_above_them(tmp_path: Path) -> None:
    files = [tmp_path / name / "rollouts.jsonl" for name in ("a", "b")]

    assert RunPaths.for_files(files).agent_metrics == tmp_path / "rollouts_agent_metrics.json"
    other = [tmp_path / "1.jsonl", tmp_path / "2.jsonl.zst"]
    assert RunPaths.for_files(other).agent_metrics == tmp_path / "rollouts_agent_metrics.json"


def test_one_file_given_twice_counts_once(tmp_path: Path) -> None:
    run = Run.write(tmp_path, [scored(0, 0, 1.0)])
    several = [run.paths.output, str(tmp_path / "rollouts.jso*")]

    assert len(load_run(run.paths.materialized_inputs, several).rollouts) == 1


def test_a_key_in_two_shards_is_refused_with_both_places(tmp_path: Path) -> None:
    one, other = shards(tmp_path)
    with other.paths.output.open("a") as file:
        file.write(lines([scored(0, 0, 1.0)]))

    with pytest.raises(InputDataError, match=r"rollout 0 on .*part0.jsonl:1 and .*part1.jsonl:2"):
        load_run(None, [one.paths.output, other.paths.output], allow_partial=True)


def test_a_shard_in_which_nothing_was_scored_is_none_of_the_others_fault(tmp_path: Path) -> None:
    one, other = shards(tmp_path)
    other.paths.output.write_text("")

    frame = load_run(None, [one.paths.output, other.paths.output], allow_partial=True)
    assert frame.completeness.dropped_tasks == 1


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("nothing*.jsonl", "matches nothing"),
        ("*_failures.jsonl", "only companion files of a run"),
    ],
)
def test_what_names_no_rollouts_is_refused(tmp_path: Path, given: str, said: str) -> None:
    shards(tmp_path)

    with pytest.raises(InputDataError, match=said):
        load_run(None, str(tmp_path / given))


def test_rollouts_without_inputs_beside_them_need_them_named(tmp_path: Path) -> None:
    run = Run.write(tmp_path, [scored(0, 0, 1.0)])
    run.paths.materialized_inputs.unlink()

    with pytest.raises(InputDataError, match=r"materialized inputs .* are missing") as caught:
        load_run(None, run.paths.output)
    assert "--inputs" in caught.value.hint


@pytest.mark.parametrize("suffix", PACKERS)
def test_packed_files_give_the_profile_of_plain_ones(tmp_path: Path, suffix: str) -> None:
    rows = [scored(task, 0, task % 2, tokens=task) for task in (2, 0, 1)]
    run = Run.write(tmp_path, rows, failures=[failed(0, 0, "timeout")])
    write_reward_profiling(run.load(), run.paths.reward_profiling)
    plain = run.paths.reward_profiling.read_bytes()
    for path in (run.paths.output, run.paths.materialized_inputs, run.paths.failures):
        path.with_name(path.name + suffix).write_bytes(PACKERS[suffix](path.read_bytes()))
        path.unlink()

    packed = run.paths.output.with_name(f"rollouts.jsonl{suffix}")
    write_reward_profiling(load_run(None, packed), run.paths.reward_profiling)
    assert run.paths.reward_profiling.read_bytes() == plain


def test_what_is_packed_is_told_by_its_bytes_and_not_by_its_name(tmp_path: Path) -> None:
    run = Run.write(tmp_path, [scored(0, 0, 1.0)])
    run.paths.output.write_bytes(zstd.compress(run.paths.output.read_bytes()))
    plain = run.paths.materialized_inputs.rename(tmp_path / "inputs.jsonl.gz")

    assert len(load_run(plain, run.paths.output).rollouts) == 1


@pytest.mark.parametrize("suffix", PACKERS)
@pytest.mark.parametrize("kept", [-3, 20])
def test_packed_files_that_were_cut_short_are_refused(
    tmp_path: Path, suffix: str, kept: int
) -> None:
    run = Run.write(tmp_path, [scored(task, 0, 1.0) for task in range(50)])
    packed = PACKERS[suffix](run.paths.output.read_bytes())
    run.paths.output.write_bytes(packed[:kept])

    with pytest.raises(InputDataError, match=r"cannot read .*rollouts\.jsonl") as caught:
        run.load(allow_partial=True)
    assert "incomplete" in caught.value.hint


def test_a_zstd_file_may_be_of_several_frames(tmp_path: Path) -> None:
    run = Run.write(tmp_path, [scored(task, 0, 1.0) for task in range(2)])
    frames = run.paths.output.read_bytes().splitlines(keepends=True)
    run.paths.output.write_bytes(b"".join(map(zstd.compress, [frames[0], b"", frames[1]])))

    assert len(run.load().rollouts) == 2


def test_broken_zstd_data_is_refused(tmp_path: Path) -> None:
    run = Run.write(tmp_path, [scored(0, 0, 1.0)])
    run.paths.output.write_bytes(zstd.compress(run.paths.output.read_bytes()) + b"junk")

    with pytest.raises(InputDataError, match="zstd data is damaged"):
        run.load()


def test_shards_of_two_runs_are_refused_with_what_differs(tmp_path: Path) -> None:
    one, other = shards(tmp_path)
    for run, temperature in ((one, 0), (other, 1)):
        servers = {"policy": {"settings": {"model": "m", "temperature": temperature}}}
        manifest(run, f"digest{temperature}", semantics={"servers": servers})

    with pytest.raises(
        MixedRuns, match=r"differ in servers\.policy\.settings\.temperature"
    ) as caught:
        load_run(None, str(tmp_path / "part*.jsonl"))
    assert caught.value.exit_code == 2


def test_shards_may_differ_in_a_server_that_no_row_reaches(tmp_path: Path) -> None:
    unreached: dict[str, Any] = {"unreached": {"settings": {}}}
    for run, extra in zip(scored_shards(tmp_path), ({}, unreached), strict=True):
        semantics = {"servers": {AGENT["name"]: {"settings": {}}, **extra}}
        manifest(run, f"digest{len(extra)}", input_digest="rows", semantics=semantics)

    assert len(load_run(None, str(tmp_path / "part*.jsonl")).rollouts) == 2


def test_inputs_of_another_run_are_refused(tmp_path: Path) -> None:
    one, other = shards(tmp_path)
    manifest(one, "a")
    manifest(other, "b")

    with pytest.raises(MixedRuns, match=r"part1_materialized_inputs\.jsonl belongs to another run"):
        load_run(other.paths.materialized_inputs, one.paths.output)


def test_a_file_that_no_manifest_vouches_for_is_mentioned(tmp_path: Path) -> None:
    one, _ = shards(tmp_path)
    manifest(one, "a")
    frame = load_run(None, str(tmp_path / "part*.jsonl"), allow_partial=True)

    assert len(frame.notices) == 1
    assert "no manifest beside" in frame.notices[0]


def test_a_shard_that_left_no_files_makes_the_run_incomplete(tmp_path: Path) -> None:
    for index, run in enumerate(scored_shards(tmp_path)):
        manifest(run, "a", requested=1, shard={"index": index, "of": 4, "requested": 9, "tasks": 9})
    pattern = str(tmp_path / "part*.jsonl")

    with pytest.raises(InputDataError, match="7 of the 9 rollouts of the run are missing"):
        load_run(None, pattern)
    frame = load_run(None, pattern, allow_partial=True)
    assert frame.missing_shards == MissingShards((2, 3), of=4, rollouts=7, requested=9)
    assert frame.completeness.expected_rollouts == 9
    total = summarize(frame).total
    assert (total.requested, total.unaccounted) == (9, 7)
    assert total.over_requested.mean_reward == Range(2 / 9, 1.0)
    assert str(frame.missing_shards) in frame.notices


def test_one_shard_alone_can_be_profiled(tmp_path: Path) -> None:
    one, _ = scored_shards(tmp_path)
    manifest(one, "a", requested=1, shard={"index": 0, "of": 2, "requested": 2, "tasks": 2})

    assert one.load().completeness.completed_rollouts == 1


def test_inputs_shorter_than_their_manifest_counts_are_refused(tmp_path: Path) -> None:
    run = Run.write(tmp_path, [scored(0, 0, 1.0)])
    manifest(run, "a", requested=3)

    with pytest.raises(InputDataError, match="has 1 rows, and its manifest says 3"):
        run.load()


def test_a_manifest_that_is_none_is_refused(tmp_path: Path) -> None:
    run = Run.write(tmp_path, [scored(0, 0, 1.0)])
    run.paths.manifest.write_text("[]")

    with pytest.raises(InputDataError, match="cannot be read as the manifest"):
        run.load()


def test_a_runs_folder_stands_for_its_rollouts(tmp_path: Path) -> None:
    run = Run.write(tmp_path, [scored(0, 0, 1)], inputs=[materialized(0, 0)])
    (tmp_path / "rollouts_tasks.jsonl").write_text("{}\n")

    assert rollout_files(tmp_path) == [run.paths.output]
    assert run_files(tmp_path, tmp_path) == ([run.paths.materialized_inputs], [run.paths.output])


def test_a_folder_of_two_runs_asks_for_one_of_them(tmp_path: Path) -> None:
    shards(tmp_path)

    with pytest.raises(InputDataError, match="has the files of 2 runs") as refused:
        rollout_files(tmp_path)

    assert "part0.jsonl" in refused.value.hint


def test_a_folder_without_a_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputDataError, match="has no files of a run"):
        rollout_files(tmp_path)
