"""Analyses runs on disk: profiles, comparisons, scores, and the selection of tasks to train on."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Final, Protocol, runtime_checkable

import orjson

import palestra
from palestra.analysis import (
    ComparedRun,
    Comparison,
    Estimate,
    Files,
    GroupSummary,
    ModelScores,
    RunSummary,
    SeedRun,
    Selection,
    SelectionCriteria,
    amount,
    check_destination,
    comparison_of,
    export_selection,
    html_table,
    load_run,
    load_side,
    majorities_of,
    most_rollouts,
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
from palestra.api.arguments import AtLeast, checks_arguments, python_function
from palestra.errors import ConfigError, InputDataError
from palestra.metrics import TaskIndex
from palestra.records import list_runs as runs_in_folder
from palestra.schema import JsonDict, RunPaths


@runtime_checkable
class RunOnDisk(Protocol):
    """A run whose files are known."""

    @property
    def outputs(self) -> Sequence[Path]:
        """The files with scored rows."""


RunSource = str | Path | Annotated[RunOnDisk, "an open run"]
"""A run: its rollouts as a file, a folder or a glob of shards; or a run that is open."""


def _rollouts_of(run: RunSource) -> str:
    if isinstance(run, str | Path):
        return str(run)
    if len(run.outputs) == 1:
        return str(run.outputs[0])
    raise ConfigError(
        f"{run!r} has {len(run.outputs)} shards",
        hint="merge them first: palestra.merge(run.outputs, FILE)",
    )


_K: Final = 4
"""The attempts of pass@k and maj@k, where every model has so many rollouts."""

list_runs = checks_arguments(runs_in_folder)


@dataclass(frozen=True, slots=True)
class RunProfile:
    """The statistics of a run. They are also written to files next to its rollouts."""

    summary: RunSummary
    majorities: Mapping[int, float]
    """maj@k over all tasks, for each k; empty when no verifier extracts answers."""
    rollouts: Sequence[Path]
    paths: RunPaths

    @property
    def mean_reward(self) -> Estimate | None:
        """The mean over the scored rollouts, with its interval; None without one."""
        scores = self.summary.total.scores
        return None if scores is None else scores.mean_reward

    @property
    def groups(self) -> Sequence[GroupSummary]:
        """One summary per group; per agent without `group_by`."""
        return self.summary.by_family or self.summary.by_agent

    def __repr__(self) -> str:
        """Return one line: tasks, rollouts and the mean reward."""
        total, mean = self.summary.total, self.mean_reward
        reward = "no reward" if mean is None else f"mean reward {_estimate_text(mean)}"
        return (
            f"<RunProfile: {total.tasks} tasks, {total.scored} of {total.requested} rollouts "
            f"scored, {reward}>"
        )

    def _repr_html_(self) -> str:
        heads = ("group", "tasks", "scored", "mean reward", "never", "sometimes", "always")
        return html_table(heads, map(_profile_row, self.groups), caption=repr(self))

    def to_dict(self) -> JsonDict:
        """Return the numbers as JSON values: of the run, and of each group by its name."""
        return {
            **self.summary.total.as_json(),
            "maj@k": {str(k): value for k, value in self.majorities.items()},
            "groups": {group.name: group.as_json() for group in self.groups},
        }


def _estimate_text(estimate: Estimate) -> str:
    if estimate.low is None or estimate.high is None:
        return f"{estimate.value:.3f}"
    return f"{estimate.value:.3f} [{estimate.low:.3f}, {estimate.high:.3f}]"


def _profile_row(group: GroupSummary) -> tuple[object, ...]:
    scores = group.scores
    head = (group.name, group.tasks, f"{group.scored}/{group.requested}")
    if scores is None:
        return (*head, None, None, None, None)
    shares = (scores.never_solved, scores.sometimes_solved, scores.always_solved)
    return (*head, _estimate_text(scores.mean_reward), *(f"{share:.0%}" for share in shares))


def profile(
    rollouts: Files,
    inputs: Files | None = None,
    *,
    allow_partial: bool = False,
    group_by: str | None = None,
    allow_ungrouped: bool = False,
) -> RunProfile:
    """Write a run's statistics per task and per agent, and its report, next to the rollouts.

    `inputs`: the materialized inputs; by default those next to the rollouts. `allow_partial`:
    accept an unfinished run. A run in which nothing was scored gets a report only. `group_by`: a
    field of the rollout rows to group the summary by. `allow_ungrouped`: accept that no row has a
    text in it. Raises ConfigError: none has. Raises InputDataError: a file is missing, damaged or
    incomplete.
    """
    frame = load_run(
        inputs,
        rollouts,
        allow_partial=allow_partial,
        allow_unscored=allow_partial,
        group_by=group_by,
        allow_ungrouped=allow_ungrouped,
    )
    files = frame.rollout_places.files
    paths = RunPaths.for_files(files)
    if len(frame.rollouts):
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
    file.
    """
    if out is not None:
        check_destination(out, rollout_files(rollouts), overwrite=overwrite)
    frame = load_side(rollouts, name="the run", allow_unscored=criteria.failed).frame
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


@python_function
def compare(
    a: RunSource,
    b: RunSource,
    *,
    metrics: str | Sequence[str] = (),
    allow_unmatched: bool = False,
    allow_different_rows: bool = False,
) -> Comparison:
    """Compare run `b` with run `a`, task by task.

    `a`, `b`: open runs, or their rollouts: a file, a folder or a glob of shards. `metrics`: numeric
    fields or `pass@K`, one or several, in addition to the reward. `allow_unmatched`: leave out tasks
    that are in one run only. `allow_different_rows`: pair tasks by index although their rows differ.
    A run of a selection of the other's tasks, which numbers them anew, is paired by the rows. Raises
    InputDataError: the runs share a file, or they cannot be paired.
    """
    return comparison_of_runs(
        a,
        b,
        metrics=(metrics,) if isinstance(metrics, str) else metrics,
        allow_unmatched=allow_unmatched,
        allow_different_rows=allow_different_rows,
    )


def comparison_of_runs(
    a: RunSource,
    b: RunSource,
    *,
    metrics: Sequence[str] = (),
    allow_unmatched: bool = False,
    allow_different_rows: bool = False,
) -> Comparison:
    """`compare` for a command: errors name its flags."""
    paths = [_rollouts_of(a), _rollouts_of(b)]
    refuse_shared_files(paths)
    side_a, side_b = load_side(paths[0], name="A"), load_side(paths[1], name="B")
    pairs = pair_tasks(
        side_a,
        side_b,
        allow_unmatched=allow_unmatched,
        allow_different_rows=allow_different_rows,
        by_rows=True,
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

    def __repr__(self) -> str:
        """Return one line: each model with its pass@1 in percent."""
        models = ", ".join(f"{model.name} {model.pass_1.mean:.1f}" for model in self.models)
        return f"<ScoreTable, pass@1 in percent: {models}>"

    def _repr_html_(self) -> str:
        heads = ("model", "tasks", "scored", "pass@1", f"pass@{self.k}", f"maj@{self.k}")
        rows = (
            (
                model.name,
                model.tasks,
                f"{model.scored}/{model.requested}",
                *(
                    None if score is None else f"{score.mean:.2f}"
                    for score in (model.pass_1, model.pass_k, model.majority)
                ),
            )
            for model in self.models
        )
        return html_table(heads, rows, caption="percent")

    def to_dict(self) -> JsonDict:
        """Return the fields as JSON values."""
        values: JsonDict = orjson.loads(orjson.dumps(self))
        return {"unit": "percent", **values}


@python_function
def scores(
    runs: RunSource | Mapping[str, RunSource] | Sequence[RunSource | tuple[str, RunSource]],
    *,
    k: Annotated[int, AtLeast(1)] | None = None,
    allow_unmatched: bool = False,
    allow_different_rows: bool = False,
) -> ScoreTable:
    """Score every model over its seeds.

    `runs`: a run, several, a mapping of models' names to runs, or pairs of a name and a run; runs with
    one name are the seeds of this model. Without a name, the model named in the rollouts is used. `k`:
    the attempts of pass@k and maj@k, by default 4, or fewer where a model has fewer rollouts of each
    task. `allow_unmatched`: leave out tasks
    that the runs do not share. `allow_different_rows`: match tasks by index although their rows
    differ. Raises InputDataError: the runs share no task.
    """
    return scores_of_runs(
        runs, k=k, allow_unmatched=allow_unmatched, allow_different_rows=allow_different_rows
    )


def scores_of_runs(
    runs: RunSource | Mapping[str, RunSource] | Sequence[RunSource | tuple[str, RunSource]],
    *,
    k: int | None = None,
    allow_unmatched: bool = False,
    allow_different_rows: bool = False,
) -> ScoreTable:
    """`scores` for a command: errors name its flags."""
    items = runs.items() if isinstance(runs, Mapping) else runs
    if isinstance(items, str | Path | RunOnDisk):
        items = [items]
    pairs = [("", run) if isinstance(run, str | Path | RunOnDisk) else run for run in items]
    if not pairs:
        raise ConfigError("there is no run to score")
    named_paths = [(name, _rollouts_of(run)) for name, run in pairs]
    refuse_shared_files([path for _, path in named_paths])
    sides = [load_side(path, name=path) for _, path in named_paths]
    tasks, notices = _shared_tasks(
        sides, allow_unmatched=allow_unmatched, allow_different_rows=allow_different_rows
    )
    notices += [f"{side.name}: {text}" for side in sides for text in side.frame.notices]
    by_name: dict[str, list[SeedRun]] = {}
    unnamed: dict[str, list[ComparedRun]] = {}
    for (name, _), side in zip(named_paths, sides, strict=True):
        seed = _seed_run(name, side)
        by_name.setdefault(seed.name, []).append(seed)
        if not name:
            unnamed.setdefault(seed.name, []).append(side)
    for model, sides_of_model in unnamed.items():
        _refuse_different_seeds(model, sides_of_model, tasks)
    if k is None:
        fewest, name = min((most_rollouts(seeds, tasks), name) for name, seeds in by_name.items())
        k = min(fewest, _K)
        if k < _K:
            notices.append(f"k is {k}: {name} has {amount(k, 'rollout')} of each task")
    models = tuple(score_model(seeds, tasks, k) for seeds in by_name.values())
    return ScoreTable(k, models, tuple(notices))


def _shared_tasks(
    sides: Sequence[ComparedRun], *, allow_unmatched: bool, allow_different_rows: bool
) -> tuple[list[TaskIndex], list[str]]:
    """Return the tasks that all runs have, and notices. Options and errors are those of
    `pair_tasks`.
    """
    first = sides[0]
    tasks = list(first.frame.requests.tasks)
    notices: list[str] = []
    for next_side in sides[1:]:
        pairs = pair_tasks(
            first,
            next_side,
            allow_unmatched=allow_unmatched,
            allow_different_rows=allow_different_rows,
            anyway="scores them beside each other when each has a name, as in plain=A verbose=B",
        )
        notices += [f"{next_side.name}: {text}" for text in pairs.notices]
        shared = set(pairs.tasks)
        tasks = [task for task in tasks if task in shared]
    if not tasks:
        raise InputDataError("no task is in all of the runs")
    return tasks, notices


def _refuse_different_seeds(
    model: str, sides: Sequence[ComparedRun], tasks: Sequence[TaskIndex]
) -> None:
    """Raise InputDataError: runs without a name, so of one model, have different rows. A mean over
    them would be of no prompt.
    """
    first = sides[0]
    for side in sides[1:]:
        differing = sum(first.fingerprints[task] != side.fingerprints[task] for task in tasks)
        if differing:
            raise InputDataError(
                f"{first.rollouts} and {side.rollouts} are both of the model {model}, and "
                f"{differing} of {len(tasks)} tasks have another prompt or row: they are not seeds of "
                "one model",
                hint="give each run a name, as in plain=A verbose=B; runs of one name are its seeds",
            )


def _seed_run(name: str, side: ComparedRun) -> SeedRun:
    answers = read_answers(side.frame)
    label = name or answers.model or side.frame.rollouts_path.parent.name or side.rollouts
    return SeedRun(label, side.rollouts, side.frame, answers)
