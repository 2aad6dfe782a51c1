"""However a run was cut into shards, merging them gives what merging the whole run gives."""

import random
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from sharded_runs import Rollouts, contents, lines, run_of, write_cut, write_run

from palestra.analysis import load_run, write_agent_metrics, write_reward_profiling
from palestra.rollouts.merging.merge import merge
from palestra.schema import RunPaths

ENDINGS = st.lists(
    st.sampled_from(["scored", "scored", "truncated", "retried", "failed", "open"]),
    min_size=1,
    max_size=7,
)
TORN = st.sampled_from([b"", b"{", b'{"_ng_task_index": 0, "_ng_rollout_index": 0, "reward": 1}'])


@st.composite
def runs(draw: st.DrawFn) -> Rollouts:
    return run_of(draw(st.integers(1, 12)), draw(st.integers(1, 3)), draw(ENDINGS))


@st.composite
def cuts(draw: st.DrawFn, tasks: int) -> list[int]:
    """Bounds of 1 to 64 shards, some of them empty."""
    inner = draw(st.lists(st.integers(0, tasks), max_size=63))
    return [0, *sorted(inner), tasks]


def run_again(shards: Sequence[Path], folder: Path, dice: random.Random) -> list[Path]:
    """Some of the shards, collected a second time as far as another kill; also rows of them."""
    again = []
    for shard in shards:
        if dice.random() < 0.3:
            copy = folder / f"again-{shard.name}"
            for path, other in zip(
                RunPaths(shard).recorded(), RunPaths(copy).recorded(), strict=True
            ):
                if path.exists():
                    shutil.copy(path, other)
            rows = shard.read_bytes().splitlines(keepends=True)
            copy.write_bytes(b"".join(row for row in rows if dice.random() < 0.7))
            again.append(copy)
    return again


def profile(output: Path) -> dict[str, bytes]:
    """What `palestra profile` writes for a run; nothing when no rollout was scored."""
    if not output.stat().st_size:
        return {}
    paths = RunPaths(output)
    frame = load_run(paths.materialized_inputs, output, allow_partial=True)
    write_reward_profiling(frame, paths.reward_profiling)
    write_agent_metrics(frame, paths.agent_metrics)
    written = (paths.reward_profiling, paths.agent_metrics)
    return {path.name: path.read_bytes() for path in written}


@pytest.mark.slow
@pytest.mark.timeout(240)  # 150 runs, each written, merged twice and profiled twice
@given(data=st.data(), run=runs(), torn=TORN, seed=st.integers(0, 2**32))
@hypothesis_settings(max_examples=150, deadline=None)
def test_any_cut_in_any_order_merges_to_the_same_bytes(
    data: st.DataObject, run: Rollouts, torn: bytes, seed: int
) -> None:
    bounds = data.draw(cuts(run.tasks))
    dice = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        single = write_run(folder / "single" / "run.jsonl", run, order=dice)
        shards = write_cut(folder / "shards", run, bounds, order=dice, torn=torn)
        given_shards = [*shards, *run_again(shards, folder / "shards", dice)]
        given_shards += dice.choices(given_shards, k=2)
        dice.shuffle(given_shards)

        merge(folder / "a" / "run.jsonl", [single], allow_partial=True)
        merge(folder / "b" / "run.jsonl", given_shards, allow_partial=True)

        assert contents(folder / "a") == contents(folder / "b")
        assert (folder / "b" / "run.jsonl").read_bytes() == in_order(run)
        assert profile(folder / "b" / "run.jsonl") == profile(single)


def in_order(run: Rollouts) -> bytes:
    """The scored rows as the merged file must hold them."""
    by_key = {(row["_ng_task_index"], row["_ng_rollout_index"]): row for row in run.scored}
    return lines(by_key[key] for key in sorted(by_key))
