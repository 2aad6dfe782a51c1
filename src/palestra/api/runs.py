"""Analyses runs on disk: profiles, comparisons, scores, and the selection of tasks to train on."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import palestra
from palestra.analysis import (
    ComparedRun,
    Comparison,
    Files,
    ModelScores,
    RunSummary,
    SeedRun,
    Selection,
    SelectionCriteria,
    check_destination,
    comparison_of,
    export_selection,
    load_run,
    load_side,
    majorities_of,
    pair_tasks,
    read_answers,
    refuse_shared_files,
    rollout_files,
    score_model,
    selection_of,
    selection_origin,
    summarize,
    write_agent_metrics,
    write_report,
    write_reward_profiling,
)
from palestra.errors import ConfigError, InputDataError
from palestra.metrics import TaskIndex
from palestra.schema import RunPaths


@dataclass(frozen=True, slots=True)
class RunProfile:
    """The statistics of a run. They are also written to files next to its rollouts."""

    summary: RunSummary
    majorities: Mapping[int, float]
    """maj@k over all tasks, for each k; empty when no verifier extracts answers."""
    rollouts: Sequence[Path]
    paths: RunPaths


def profile(
    rollouts: Files,
    inputs: Files | None = None,
    *,
    allow_partial: bool = False,
    group_by: str | None = None,
) -> RunProfile:
    """Write a run's statistics per task and per agent, and its report, next to the rollouts.

    `inputs`: the materialized inputs; by default those next to the rollouts. `allow_partial`:
    accept an unfinished run. `group_by`: a field of the rollout rows to group the summary by.
    Raises InputDataError: a file is missing, damaged or incomplete.
    """
    frame = load_run(inputs, rollouts, allow_partial=allow_partial, group_by=group_by)
    files = frame.rollout_places.files
    paths = RunPaths.for_files(files)
    write_reward_profiling(frame, paths.reward_profiling)
    write_agent_metrics(frame, paths.agent_metrics)
    summary = summarize(frame)
    write_report(frame, paths.report, summary)
    scored = summary.total.scores
    ks = [at.k for at in scored.pass_at if at.k > 1] if scored else []
    votes = majorities_of(SeedRun("", "", frame, read_answers(frame)), ks) if ks else {}
    return RunProfile(summary, votes, files, paths)


def select(
    rollouts: str,
    criteria: SelectionCriteria,
    *,
    out: Path | None = None,
    overwrite: bool = False,
    command: str = "",
) -> Selection:
    """Judge every task of a run, and export the kept tasks.

    `out`: the output file (.jsonl); nothing is written without it, or when no task is kept.
    `overwrite`: replace an existing file. `command`: the command line to record in the provenance
    file. Raises ConfigError: `criteria` has neither a band nor `by_learnability`.
    """
    if criteria.band is None and not criteria.by_learnability:
        raise ConfigError(
            "nothing says which tasks to select",
            hint="--band LOW..HIGH for pass rates, --learnability for the most learnable first",
        )
    if out is not None:
        check_destination(out, rollout_files(rollouts), overwrite=overwrite)
    frame = load_side(rollouts, name="the run").frame
    selection = selection_of(frame, criteria)
    if out is not None and selection.kept:
        provenance = {
            "palestra_version": palestra.__version__,
            "command": command,
            "criteria": asdict(criteria),
            "run": selection_origin(frame),
        }
        export_selection(frame, selection, out, provenance=provenance)
    return selection


def compare(
    a: str,
    b: str,
    *,
    metrics: Sequence[str] = (),
    allow_unmatched: bool = False,
    allow_different_rows: bool = False,
) -> Comparison:
    """Compare run `b` with run `a`, task by task.

    `a`, `b`: their rollouts, each a file or a glob of shards. `metrics`: numeric fields or
    `pass@K`, in addition to the reward. `allow_unmatched`: leave out tasks that are in one run
    only. `allow_different_rows`: pair tasks by index although their rows differ. Raises
    InputDataError: the runs share a file, or they cannot be paired.
    """
    refuse_shared_files([a, b])
    side_a, side_b = load_side(a, name="A"), load_side(b, name="B")
    pairs = pair_tasks(
        side_a, side_b, allow_unmatched=allow_unmatched, allow_different_rows=allow_different_rows
    )
    return comparison_of(side_a, side_b, pairs, metrics=metrics)


@dataclass(frozen=True, slots=True)
class ScoreTable:
    """The scores of models over their seeds, in percent."""

    k: int
    """The number of attempts for pass@k and maj@k."""
    models: tuple[ModelScores, ...]
    notices: tuple[str, ...]
    """Notices about the runs, for readers of the table."""


def scores(
    runs: Sequence[tuple[str, str]], *, k: int = 4, allow_unmatched: bool = False
) -> ScoreTable:
    """Score every model over its seeds.

    `runs`: pairs of a model name and rollouts; runs with one name are the seeds of this model. For
    an empty name, the model named in the rollouts is used. Raises InputDataError: the runs share no
    task.
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
    """Return the tasks that all runs have with equal rows, and notices. Raises the errors of
    `pair_tasks`.
    """
    first = sides[0]
    tasks = list(first.frame.requests.tasks)
    notices: list[str] = []
    for next_side in sides[1:]:
        pairs = pair_tasks(first, next_side, allow_unmatched=allow_unmatched)
        notices += [f"{next_side.name}: {text}" for text in pairs.notices]
        shared = set(pairs.tasks)
        tasks = [task for task in tasks if task in shared]
    if not tasks:
        raise InputDataError("there is no task that all of the runs share")
    return tasks, notices


def _seed_run(name: str, side: ComparedRun) -> SeedRun:
    answers = read_answers(side.frame)
    label = name or answers.model or side.frame.rollouts_path.parent.name or side.rollouts
    return SeedRun(label, side.rollouts, side.frame, answers)
