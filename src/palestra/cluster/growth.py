"""More seeds for a run that has some, and runs of one plan that become one.

Each seed is a block of rollout indices of its own (see `stamping`), so seeds can be added at any
time: the shards that are there stay valid, and the merged files are those of a run that had all
seeds from the start.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from palestra.cluster.completeness import first_named
from palestra.cluster.layout import RunFiles, ShardFiles
from palestra.cluster.plan import Run, Shard
from palestra.cluster.shard import is_done
from palestra.errors import InputDataError
from palestra.rollouts import MergeIncomplete, OtherRun, RunSize, differences

SEEDS = "seeds"
"""The entry of a run's identity that lists its seeds."""


def seeds_of_run(run: Run) -> tuple[int, ...] | None:
    """Return the seeds of a run in order; None for a run without seeds."""
    if not run.collect.seeded:
        return None
    return tuple(dict.fromkeys(shard.seed for shard in run.shards))


def all_seeds(earlier: Run | None, seeds: tuple[int, ...] | None) -> tuple[int, ...] | None:
    """Return the seeds of the run after a submission of `seeds` into the folder of `earlier`.

    `seeds` alone when the folder is new, or when they take seeds away: then the comparison of the
    run's identity refuses them.
    """
    earlier_seeds = None if earlier is None else seeds_of_run(earlier)
    if earlier_seeds is None or seeds is None or set(seeds) < set(earlier_seeds):
        return seeds
    return tuple(dict.fromkeys((*earlier_seeds, *seeds)))


def seeds_text(seeds: tuple[int, ...] | None) -> str:
    """Return the seeds as they stand in a run's identity."""
    return "none" if seeds is None else ",".join(map(str, seeds))


def has_grown(old: str, new: str) -> bool:
    """Whether the seeds of one identity are among those of another."""
    return "none" not in {old, new} and set(old.split(",")) <= set(new.split(","))


def are_seeded(*identities: Mapping[str, str]) -> bool:
    """Whether each of the identities names seeds."""
    return all(identity.get(SEEDS, "none") != "none" for identity in identities)


@dataclass(frozen=True, slots=True)
class JoinedRuns:
    """The shards of several runs of one plan."""

    shards: tuple[ShardFiles, ...]
    size: RunSize


def join_runs(runs: Sequence[Run]) -> JoinedRuns:
    """Return the shards of several runs as those of one. Each shard must be done in one of them.

    Raises OtherRun: the runs differ in more than their seeds. Raises InputDataError: a shard is
    done in two runs. Raises MergeIncomplete: a shard is done in none.
    """
    first = runs[0]
    for run in runs[1:]:
        _check_same(first, run)
    shards: dict[str, Shard] = {}
    done_in: dict[str, list[RunFiles]] = {}
    for run in runs:
        files = RunFiles(Path(run.output_dir))
        for shard in run.shards:
            shards.setdefault(shard.name, shard)
            done_in.setdefault(shard.name, [])
            if is_done(files.shard(shard.name)):
                done_in[shard.name].append(files)
    _check_once(done_in)
    rollouts = sum(shard.rows or 0 for shard in shards.values())
    return JoinedRuns(
        tuple(folders[0].shard(name) for name, folders in done_in.items()),
        RunSize(rollouts, first.tasks or 0),
    )


def _check_same(first: Run, further_run: Run) -> None:
    old, new = dict(first.identity), dict(further_run.identity)
    if "none" not in {old.get(SEEDS), new.get(SEEDS)}:
        old.pop(SEEDS, None)
        new.pop(SEEDS, None)
    if changed := differences(old, new):
        raise OtherRun(
            f"{further_run.output_dir} was made from something else than {first.output_dir}:\n  "
            + "\n  ".join(changed),
            hint="merge each run by itself; `palestra compare` compares them",
        )


def _check_once(done_in: dict[str, list[RunFiles]]) -> None:
    """Raise unless each shard is done in exactly one folder."""
    for name, folders in done_in.items():
        if len(folders) > 1:
            listed = " and ".join(str(files.output_dir) for files in folders)
            raise InputDataError(
                f"{name} is done twice, in {listed}",
                hint="leave out one of the two folders, or collect other seeds in one of them",
            )
    missing = [name for name, folders in done_in.items() if not folders]
    if missing:
        raise MergeIncomplete(
            f"{len(missing)} of {len(done_in)} shards are done in none of these runs: "
            f"{first_named(missing)}",
            hint="`palestra cluster retry-failed FOLDER` runs them again",
        )
