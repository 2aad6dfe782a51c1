"""A run as a value: what it is, how it ended, its rollouts, and what can be computed from it."""

import contextlib
import glob
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from palestra.analysis import (
    NOTHING_FAILED,
    RateBand,
    RunFrame,
    Selection,
    SelectionCriteria,
    TaskVerdict,
    environment_arguments,
    html_table,
    load_run,
    rollout_files,
    run_head,
    write_report,
)
from palestra.api.arguments import Above, AtLeast, python_function
from palestra.api.diagnosis import diagnose
from palestra.api.environment_objects import is_of_cell, refuse_in_import, target_of
from palestra.api.reverification import prepared_reverification
from palestra.api.rollout_reading import matching, read_rollouts, unsorted_query
from palestra.api.run_table import NOT_ENDED, arrow_table, data_frame
from palestra.api.runs import RunProfile, profile, select
from palestra.api.waiting import away_from_loop, run_blocking
from palestra.doctor import Diagnosis
from palestra.errors import ConfigError, PalestraError
from palestra.fleet import forget_servers
from palestra.metrics import TaskIndex
from palestra.records import RolloutRecord, RunState, rollout_key, rollout_record, run_entry
from palestra.rollouts import Manifest, outputs_of, read_manifest
from palestra.rollouts import merge as merge_shards
from palestra.schema import JsonDict, JsonObject, RunPaths
from palestra.settings import MergeArgs, ReverifyArgs, SelectArgs, args_from

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


@dataclass(frozen=True, slots=True, repr=False)
class Run:
    """A run on disk. The values are those of the moment at which it was opened; `refresh` reads it
    again.
    """

    path: Path
    """The file with the scored rows; of a run in shards, the first one."""
    name: str
    environment: str
    model: str
    settings: Mapping[str, Any]
    """Sampling parameters, repeats, prompt template and the settings of the environment."""
    started_at: datetime | None
    ended_at: datetime | None
    requested: int
    outcomes: Mapping[str, int]
    """The number of rollouts by outcome: `scored`, the failure classes, `not ended`."""
    mean_reward: float | None
    """The mean over the scored rollouts; None without one."""
    live: bool
    """Whether a command or a process was working on it."""
    outputs: Sequence[Path] = field(default=())
    """All files with scored rows: one, or one per shard."""

    @property
    def scored(self) -> int:
        """The number of rollouts with a reward."""
        return self.outcomes.get("scored", 0)

    @property
    def failed(self) -> int:
        """The number of rollouts that ended without a reward."""
        return self.requested - self.scored - self.outcomes.get(NOT_ENDED, 0)

    def __repr__(self) -> str:
        """Return one line: name, environment, model, counts and mean reward."""
        mean = "" if self.mean_reward is None else f", mean reward {self.mean_reward:.3f}"
        state = ", running" if self.live else ""
        return (
            f"<Run {self.name}: {self.environment}, {self.model}, {self.scored} of "
            f"{self.requested} scored, {self.failed} failed{mean}{state}>"
        )

    def _repr_html_(self) -> str:
        rows = [(name, value) for name, value in self.to_dict().items() if value not in ("", None)]
        return html_table(("", ""), rows, caption=self.name)

    def to_dict(self) -> JsonDict:
        """Return the fields as JSON values."""
        times = {
            name: None if value is None else value.isoformat()
            for name, value in (("started_at", self.started_at), ("ended_at", self.ended_at))
        }
        return {
            **asdict(self),
            **times,
            "path": str(self.path),
            "outputs": [str(path) for path in self.outputs],
        }

    @python_function
    def refresh(self) -> "Run":
        """Return the run as it is now."""
        return _opened(list(self.outputs))

    # Rollouts

    @python_function
    def rollouts(self, filter: str | None = None) -> Iterator[RolloutRecord]:  # noqa: A002
        """Yield the rollouts, one at a time, in the order of the tasks.

        `filter`: a query, such as `reward<1 tools:search`; see `palestra.analysis.queries`. A
        UserWarning names the values that no rollout has when none matches. Raises ConfigError: the
        query cannot be read, or no rollout has one of its fields.
        """
        return matching(read_rollouts(self.outputs), unsorted_query(filter or ""))

    @python_function
    def rollout(self, task: TaskIndex, index: int | None = None) -> RolloutRecord:
        """Return one rollout: `rollout(17, 3)`, or as commands write it, `rollout("17:3")`; `17` is short for `17:0`.

        Raises InputDataError: the run has no such rollout. Raises ConfigError: `task` is no text such
        as `17:3`, and there is no `index`.
        """
        if index is None:
            task, index = rollout_key(str(task))
        return rollout_record(self.outputs, task, index)

    @python_function
    def failures(self) -> list[RolloutRecord]:
        """Return the rollouts that ended without a reward, each with what helps."""
        return [
            record
            for record in read_rollouts(self.outputs)
            if record.result is None and record.attempts
        ]

    # Analysis

    @python_function
    def profile(self, *, group_by: str | None = None) -> RunProfile:
        """Return the statistics of the run; they and the report are also written beside it."""
        return profile(self.outputs, allow_partial=True, group_by=group_by)

    @python_function
    def diagnose(self) -> Diagnosis:
        """Return what went wrong, with evidence and the next action."""
        return away_from_loop(lambda: diagnose(str(self.path)))

    @python_function
    def report(self) -> Path:
        """Write the HTML report beside the run, and return its path."""
        frame = self._frame()
        path = RunPaths.for_files(frame.rollout_places.files).report
        write_report(frame, path)
        return path

    @python_function
    def select(
        self,
        *,
        band: tuple[float, float] | None = None,
        min_rollouts: Annotated[int, AtLeast(1)] = 1,
        max_tokens: Annotated[float, AtLeast(0)] | None = None,
        by_learnability: bool = False,
        decided_only: bool = False,
        solved_at: float = 1.0,
        limit: Annotated[int, AtLeast(1)] | None = None,
        failed: bool = False,
    ) -> "TaskSelection":
        """Choose tasks to train on. `band`: the pass rates to keep, both ends included; by default
        the tasks that were solved sometimes, but not always.

        `by_learnability`: the most learnable first. `failed`: the tasks with at least one rollout
        that has no reward, to collect them again; only `limit` goes with it. The other parameters
        are the options of `palestra select`. Raises ConfigError: `band` is not a range of pass
        rates, `failed` is set with another criterion, or `decided_only` without a band.
        """
        if decided_only and band is None:
            raise ConfigError(
                "decided_only=True does nothing without a band",
                hint="pass one, for example band=(0.1, 0.9)",
            )
        criteria = SelectionCriteria(
            band=None if band is None else _band(band),
            min_rollouts=min_rollouts,
            max_tokens=max_tokens,
            solved_at=solved_at,
            by_learnability=by_learnability,
            decided_only=decided_only,
            limit=limit,
            failed=failed,
        )
        return TaskSelection(select(self._one_output(), criteria), criteria, self._one_output())

    @python_function
    def reverify(
        self,
        output: Path | str | None = None,
        *,
        environment: Any = None,
        with_failures: bool = True,
        fresh_judge: bool = False,
        judge: str | None = None,
        limit: Annotated[int, AtLeast(0)] | None = None,
        only: Sequence[str] = (),
        concurrency: Annotated[int, AtLeast(1)] = 64,
        timeout_s: Annotated[float, Above(0)] = 600.0,
        overwrite: bool = False,
        resume: bool = False,
    ) -> "Reverified":
        """Run today's verifier over the stored answers, without the model.

        `output`: where the new rows go, by default beside the run. `environment`: as of `evaluate`, by
        default that of the run; that of a notebook's cell must be named. The run's settings apply.
        `only`: the rollouts to verify, such as `"17:3"`; empty for all. The other
        parameters are the options of `palestra reverify`. Raises BadInput: an argument or a row
        cannot be used.
        """
        refuse_in_import("Run.reverify")
        manifest = read_manifest(RunPaths(self.path).manifest)
        destination = RunPaths(self.path).reverified if output is None else Path(output)
        arguments = {
            "rollouts": Path(self._one_output()),
            "output": destination,
            "environment": _environment_argument(manifest)
            if environment is None
            else target_of(environment),
            "with_failures": with_failures,
            "fresh_judge": fresh_judge,
            "judge": judge,
            "limit": limit,
            "only": tuple(only),
            "concurrency": concurrency,
            "timeout_s": timeout_s,
            "overwrite": overwrite,
            "resume": resume,
        }
        args = args_from(ReverifyArgs, arguments)

        with contextlib.ExitStack() as until_verified:
            preparation = prepared_reverification(args, [], option_prefix="")
            prepared = away_from_loop(lambda: until_verified.enter_context(preparation))
            forget_servers(prepared.config)
            return Reverified(prepared.paths.output, run_blocking(prepared.run()))

    # Tables

    @python_function
    def to_arrow(self) -> "pa.Table":
        """Return one row per requested rollout: task, rollout, outcome, then every number of its
        scored row or, without one, of its task (booleans as 0 and 1, components as
        `reward_components.NAME`), then every text at the top level of its scored row or task, up to
        1,000 characters.

        Raises ConfigError: PyArrow is not installed.
        """
        return arrow_table(self._frame())

    @python_function
    def to_pandas(self) -> "pd.DataFrame":
        """Return one row per requested rollout, as `to_arrow`, in a data frame.

        Raises ConfigError: pandas is not installed.
        """
        return data_frame(self._frame())

    def _frame(self) -> RunFrame:
        return _frame_of(self.outputs)

    def _one_output(self) -> str:
        if len(self.outputs) == 1:
            return str(self.path)
        raise ConfigError(
            f"{self.name} has {len(self.outputs)} shards",
            hint="merge them first: palestra.merge(run.outputs, FILE)",
        )


@dataclass(frozen=True, slots=True, repr=False)
class TaskSelection:
    """The tasks that were chosen from a run, and why each was kept or not."""

    selection: Selection
    criteria: SelectionCriteria
    rollouts: str

    @property
    def kept(self) -> Sequence[TaskIndex]:
        """The chosen tasks, in the order of the export."""
        return [self.selection.tasks[at].task for at in self.selection.kept]

    @python_function
    def save(self, path: Path | str, *, overwrite: bool = False) -> Path:
        """Write the chosen tasks to a `.jsonl` file, and where they come from beside it.

        Raises ConfigError: no task was chosen, or the name does not end with `.jsonl`. Raises
        InputDataError: the file exists.
        """
        destination = args_from(SelectArgs, {"rollouts": self.rollouts, "out": path}).out
        if not self.selection.kept:
            raise ConfigError(
                "no task was chosen",
                hint=NOTHING_FAILED
                if self.criteria.failed
                else "widen the band, or lower min_rollouts",
            )
        select(
            self.rollouts,
            self.criteria,
            out=destination,
            overwrite=overwrite,
            command="palestra.api",
        )
        return Path(path)

    def __len__(self) -> int:
        return len(self.selection.kept)

    def __repr__(self) -> str:
        """Return one line: how many tasks were chosen of how many."""
        return f"<TaskSelection: {len(self)} of {len(self.selection.tasks)} tasks>"

    def _repr_html_(self) -> str:
        heads = ("task", "verdict", "scored", "pass rate")
        rows = ((t.task, t.verdict, t.scored, t.pass_rate) for t in self.selection.tasks)
        return html_table(heads, rows, caption=repr(self))

    def to_dict(self) -> JsonDict:
        """Return the criteria, the counts and each task's verdict as JSON values."""
        return {
            "criteria": asdict(self.criteria),
            "counts": {verdict.value: len(self.selection.of(verdict)) for verdict in TaskVerdict},
            "failures": dict(self.selection.failures),
            "kept": list(self.kept),
            "tasks": [
                {**asdict(task), "verdict": task.verdict.value} for task in self.selection.tasks
            ],
        }


@dataclass(frozen=True, slots=True, repr=False)
class Reverified:
    """The result of a re-verification. `output`: the file with the new rows."""

    output: Path
    result: JsonObject
    """The counts and the changes, as `palestra reverify --json` prints them."""

    @property
    def outputs(self) -> Sequence[Path]:
        """The file with the new rows, for `compare` and `profile`."""
        return (self.output,)

    @property
    def failed(self) -> int:
        """The number of rows that could not be verified."""
        return sum(self.result["failed"].values())

    @property
    def changed(self) -> int:
        """The number of rows whose reward changed."""
        return sum(changes["changed"] for changes in self.result["environments"].values())

    def __repr__(self) -> str:
        """Return one line: how many rows were verified, and how many changed."""
        return (
            f"<Reverified: {self.result['verified']} of {self.result['rows']} rows, "
            f"{self.changed} changed, {self.failed} failed>"
        )

    def _repr_html_(self) -> str:
        rows = [
            (
                name,
                c["rows"],
                c["changed"],
                c["failed"],
                c["mean_before"],
                c["mean_after"],
                c["mean_reward"],
            )
            for name, c in self.result["environments"].items()
        ]
        heads = (
            "environment",
            "rows",
            "changed",
            "failed",
            "mean before",
            "mean after",
            "mean of all",
        )
        return html_table(heads, rows, caption=repr(self))

    def to_dict(self) -> JsonDict:
        """Return the counts and the changes as JSON values."""
        return {"output": str(self.output), **self.result}


@python_function
def merge(
    shards: Sequence[Path | str],
    output: Path | str,
    *,
    allow_partial: bool = False,
    overwrite: bool = False,
) -> Run:
    """Merge the shards of a run into one output, and return the merged run.

    `shards`: their outputs, or folders or globs of them. `allow_partial`: merge what is there of an
    unfinished run. Raises MergeIncomplete: rollouts are missing. Raises InputDataError: the shards
    are damaged, or of different runs.
    """
    arguments = {"output": Path(output), "shards": tuple(map(str, shards))}
    args = args_from(MergeArgs, arguments)
    merge_shards(args.output, args.shards, allow_partial=allow_partial, overwrite=overwrite)
    return open_run(args.output)


@python_function
def open_run(path: Path | str) -> Run:
    """Open a run: by its output, its stem, its folder, or a glob of shards; a running one, too.

    Raises InputDataError: there is no such run, or its files cannot be read.
    """
    is_glob = glob.has_magic(str(path)) and not Path(path).exists()
    return _opened(rollout_files(path) if is_glob else outputs_of(path))


def _opened(outputs: Sequence[Path]) -> Run:
    frame = _frame_of(outputs)
    output = outputs[0].absolute()
    head = run_head(outputs)
    requests = frame.requests
    codes, counts = np.unique(requests.outcome, return_counts=True)
    names = (*requests.outcome_names, NOT_ENDED)
    reward = frame.rollouts.reward
    return Run(
        path=output,
        name=output.parent.name if output.name == "rollouts.jsonl" else output.stem,
        environment=head.environment,
        model=head.model,
        settings=head.settings,
        started_at=head.started_at,
        ended_at=head.ended_at,
        requested=len(requests),
        outcomes={
            names[code]: count for code, count in zip(codes.tolist(), counts.tolist(), strict=True)
        },
        mean_reward=float(reward.mean()) if len(reward) else None,
        live=_is_live(output),
        outputs=tuple(path.absolute() for path in outputs),
    )


def _band(band: tuple[float, float]) -> RateBand:
    """Return the band of pass rates. Raises ConfigError: it is none."""
    rates = RateBand(*band)
    if not rates.is_valid:
        raise ConfigError(
            f"band={band!r} is not (LOW, HIGH) with 0 <= LOW <= HIGH <= 1",
            hint="for example band=(0.1, 0.9)",
        )
    return rates


def _is_live(output: Path) -> bool:
    try:
        return run_entry(output).state is RunState.RUNNING
    except PalestraError:
        return False


def _frame_of(outputs: Sequence[Path]) -> RunFrame:
    return load_run(None, list(outputs), allow_partial=True, allow_unscored=True)


def _environment_argument(manifest: Manifest) -> str:
    """Return how `palestra reverify --environment` names the environment of a run.

    Raises ConfigError: it is not the only one.
    """
    names = environment_arguments(manifest)
    if len(names) != 1:
        raise ConfigError(
            f"the run has {len(names)} environments",
            hint="name the one that verifies: run.reverify(environment=…)",
        )
    if is_of_cell(names[0]):
        raise ConfigError(
            "the run's environment was defined in a notebook's cell, which may have changed since",
            hint="name what verifies: run.reverify(environment=…), with the class or function",
        )
    return names[0]
