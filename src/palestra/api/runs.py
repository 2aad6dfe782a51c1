"""Questions about several runs of the same tasks: which is better, and how the models score."""

from collections.abc import Sequence
from dataclasses import dataclass

from palestra.analysis import (
    ComparedRun,
    Comparison,
    ModelScores,
    SeedRun,
    comparison_of,
    load_side,
    pair_tasks,
    read_answers,
    refuse_shared_files,
    score_model,
)
from palestra.errors import InputDataError
from palestra.metrics import TaskIndex


def compare(
    a: str,
    b: str,
    *,
    metrics: Sequence[str] = (),
    allow_unmatched: bool = False,
    allow_different_rows: bool = False,
) -> Comparison:
    """Whether run `b` beats run `a`, task by task.

    `a`, `b`: their rollouts, or globs of shards. `metrics`: besides the reward, numeric fields or
    `pass@K`. `allow_unmatched`: leave out tasks that the runs do not share.
    `allow_different_rows`: pair tasks by index although their rows differ.
    Raises InputDataError for runs that share a file, or cannot be paired.
    """
    refuse_shared_files([a, b])
    side_a, side_b = load_side(a, name="A"), load_side(b, name="B")
    pairs = pair_tasks(
        side_a, side_b, allow_unmatched=allow_unmatched, allow_different_rows=allow_different_rows
    )
    return comparison_of(side_a, side_b, pairs, metrics=metrics)


@dataclass(frozen=True, slots=True)
class ScoreTable:
    """How models score over their seeds, in percent."""

    k: int
    """Attempts of pass@k and maj@k."""
    models: tuple[ModelScores, ...]
    notices: tuple[str, ...]
    """What a reader of the table must know of its runs."""


def scores(
    runs: Sequence[tuple[str, str]], *, k: int = 4, allow_unmatched: bool = False
) -> ScoreTable:
    """Score every model over its seeds.

    `runs`: a name and rollouts each; runs of one name are its seeds, and an empty name is the
    model that the rollouts name. Raises InputDataError when the runs share no task.
    """
    refuse_shared_files([path for _, path in runs])
    sides = [load_side(path, name=path) for _, path in runs]
    tasks, notices = _shared_tasks(sides, allow_unmatched=allow_unmatched)
    notices += [f"{side.name}: {text}" for side in sides for text in side.frame.notices]
    by_name: dict[str, list[SeedRun]] = {}
    for (name, _), side in zip(runs, sides, strict=True):
        seed = _seed_run(name, side)
        by_name.setdefault(seed.name, []).append(seed)
    models = tuple(score_model(seeds, tasks, k) for seeds in by_name.values())
    return ScoreTable(k, models, tuple(notices))


def _shared_tasks(
    sides: Sequence[ComparedRun], *, allow_unmatched: bool
) -> tuple[list[TaskIndex], list[str]]:
    """The tasks that all runs have, with the same rows; raises as `pair_tasks` does."""
    first = sides[0]
    tasks = list(first.frame.requests.tasks)
    notices: list[str] = []
    for other in sides[1:]:
        pairs = pair_tasks(first, other, allow_unmatched=allow_unmatched)
        notices += [f"{other.name}: {text}" for text in pairs.notices]
        shared = set(pairs.tasks)
        tasks = [task for task in tasks if task in shared]
    if not tasks:
        raise InputDataError("there is no task that all of the runs share")
    return tasks, notices


def _seed_run(name: str, side: ComparedRun) -> SeedRun:
    answers = read_answers(side.frame)
    label = name or answers.model or side.frame.rollouts_path.parent.name or side.rollouts
    return SeedRun(label, side.rollouts, side.frame, answers)
