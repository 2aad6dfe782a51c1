"""More seeds for a finished run, and runs of one plan that are merged into one."""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cluster_runs import ENDPOINT_KEY
from planning import options, planned

from palestra.cli.clustering.main_steps import remove_smaller_merge, share_of_shard
from palestra.cluster import Run, join_runs, rollouts
from palestra.cluster.growth import all_seeds, has_grown, seeds_of_run
from palestra.cluster.layout import RunFiles
from palestra.errors import InputDataError
from palestra.rollouts import MergeIncomplete, OtherRun, StaleRun
from palestra.schema import RunPaths
from palestra.settings import Share

COMPARED = (
    "rollouts.jsonl",
    "rollouts_materialized_inputs.jsonl",
    "rollouts_reward_profiling.jsonl",
    "rollouts_aggregate_metrics.json",
)


def run_with(seeds: str | None, folder: Path = Path("out"), *, done: tuple[str, ...] = ()) -> Run:
    asked = options(random_seeds=seeds) if seeds else options()
    run = planned(asked, identity={"model": "m", "seeds": seeds or "none"}, tasks=4)
    for name in done:
        file = RunFiles(folder).shard(name).done
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps({"expected": 4, "scored": 4, "failed_terminal": 0}))
    shards = tuple(replace(shard, rows=4) for shard in run.shards)
    return replace(run, output_dir=str(folder), shards=shards)


@pytest.mark.parametrize(
    ("earlier", "asked", "seeds"),
    [
        ("0,1,2", (0, 1, 2, 3), (0, 1, 2, 3)),
        ("0,1,2", (3,), (0, 1, 2, 3)),
        ("0,1,2", (2, 4), (0, 1, 2, 4)),
        ("0,1", (1, 0), (0, 1)),
        ("0,1,2", (0, 1), (0, 1)),
        (None, (0, 1), (0, 1)),
        ("0,1", None, None),
    ],
)
def test_seeds_are_added_and_never_taken_away(
    earlier: str | None, asked: tuple[int, ...] | None, seeds: tuple[int, ...] | None
) -> None:
    assert all_seeds(run_with(earlier), asked) == seeds


@pytest.mark.parametrize(
    ("old", "new", "grown"),
    [
        ("0,1", "0,1,2", True),
        ("0,1", "0,1", True),
        ("0,1,2", "0,1", False),
        ("none", "0,1", False),
        ("0", "none", False),
    ],
)
def test_an_identity_with_more_seeds_is_that_of_the_same_run(
    old: str, new: str, *, grown: bool
) -> None:
    assert has_grown(old, new) is grown


def test_a_run_without_seeds_has_none() -> None:
    assert seeds_of_run(run_with(None)) is None


def test_runs_of_other_seeds_become_one_of_their_joint_size(tmp_path: Path) -> None:
    first = run_with("0,1", tmp_path / "a", done=("rollouts-rs0", "rollouts-rs1"))
    second = run_with("2", tmp_path / "b", done=("rollouts-rs2",))

    joined = join_runs([first, second])

    assert [shard.name for shard in joined.shards] == [f"rollouts-rs{n}" for n in range(3)]
    assert joined.size == (12, 4)


def test_each_shard_is_taken_from_the_folder_where_it_is_done(tmp_path: Path) -> None:
    first = run_with("0,1", tmp_path / "a", done=("rollouts-rs0",))
    second = run_with("0,1", tmp_path / "b", done=("rollouts-rs1",))

    joined = join_runs([first, second])

    assert [shard.folder.name for shard in joined.shards] == ["a", "b"]
    assert joined.size == (8, 4)


def test_a_shard_that_is_done_twice_is_refused(tmp_path: Path) -> None:
    runs = [run_with("0", tmp_path / name, done=("rollouts-rs0",)) for name in ("a", "b")]

    with pytest.raises(InputDataError, match="rollouts-rs0 is done twice"):
        join_runs(runs)


def test_a_shard_that_is_done_nowhere_is_named(tmp_path: Path) -> None:
    runs = [run_with("0,1", tmp_path / "a", done=("rollouts-rs0",)), run_with("1", tmp_path / "b")]

    with pytest.raises(MergeIncomplete, match="rollouts-rs1"):
        join_runs(runs)


def test_runs_that_differ_in_more_than_seeds_are_not_joined(tmp_path: Path) -> None:
    first = run_with("0", tmp_path / "a", done=("rollouts-rs0",))
    other = replace(run_with("1", tmp_path / "b"), identity={"model": "n", "seeds": "1"})

    with pytest.raises(OtherRun, match="model: 'm' -> 'n'"):
        join_runs([first, other])


def test_a_shard_that_was_begun_keeps_its_place_when_the_run_grows(tmp_path: Path) -> None:
    grown = run_with("0,1,2", tmp_path)
    manifest = RunFiles(tmp_path).shard("rollouts-rs1").manifest
    manifest.write_text(json.dumps({"shard": {"index": 1, "of": 2}}))

    assert share_of_shard(grown, "rollouts-rs1") == Share(1, 2)
    assert share_of_shard(grown, "rollouts-rs2") == Share(2, 3)


def test_a_merge_that_has_grown_leaves_only_its_own_files(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path / "rollouts.jsonl")
    for path in (paths.output, paths.manifest, tmp_path / "mine.bak"):
        path.touch()
        path.with_name(f"{path.name}.bak").touch()

    remove_smaller_merge(paths.output)

    names = {path.name for path in tmp_path.iterdir()}
    assert names == {paths.output.name, paths.manifest.name, "mine.bak", "mine.bak.bak"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    path = tmp_path_factory.mktemp("growing")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PALESTRA_STATE_DIR", str(path / "state"))
        patch.setenv("MY_KEY", ENDPOINT_KEY)
        yield path


@pytest.fixture(scope="module")
def from_the_start(endpoint: str, folder: Path) -> Path:
    return collect(endpoint, folder / "start", num_random_seeds=3)


def collect(endpoint: str, output_dir: Path, **given: Any) -> Path:
    rollouts(
        config_paths=[
            "resources_servers/mcqa/configs/mcqa.yaml",
            "responses_api_models/openai_model/configs/openai_model.yaml",
        ],
        input_file="resources_servers/mcqa/data/example.jsonl",
        agent_name="mcqa_simple_agent",
        output_dir=str(output_dir),
        server_address=endpoint,
        model="scripted",
        policy_api_key_env="MY_KEY",
        **given,
    )
    return output_dir


def contents(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in COMPARED}


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_fewer_seeds_and_other_chunks_are_refused(endpoint: str, from_the_start: Path) -> None:
    notices: list[str] = []
    with pytest.raises(StaleRun, match="seeds: '0,1,2' -> '0,1'"):
        collect(endpoint, from_the_start, num_random_seeds=2, report=notices.append)
    assert not [text for text in notices if "are done already" in text]
    with pytest.raises(StaleRun, match="num_chunks: 'none' -> '2'"):
        collect(endpoint, from_the_start, num_random_seeds=3, num_chunks=2)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_seeds_of_another_folder_or_of_a_later_command_equal_those_from_the_start(
    endpoint: str, folder: Path, from_the_start: Path
) -> None:
    first = collect(endpoint, folder / "first", num_random_seeds=2)
    second = collect(endpoint, folder / "second", random_seeds="2")
    argv = [sys.executable, "-m", "palestra", "cluster", "merge-runs", str(first), str(second)]

    merged = subprocess.run(
        [*argv, "--output-dir", str(folder / "merged")], capture_output=True, text=True, check=False
    )
    collect(endpoint, first, starting_seed=2, num_random_seeds=1)

    assert merged.returncode == 0, merged.stderr
    assert contents(folder / "merged") == contents(from_the_start)
    assert contents(first) == contents(from_the_start)
