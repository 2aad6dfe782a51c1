"""Finds the files of a run: one of each kind, or one per shard, by name, folder or glob."""

import glob
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from palestra.config import did_you_mean_path
from palestra.errors import InputDataError
from palestra.rollouts import import_advice, outputs_of, provenance_path, why_no_rollouts
from palestra.schema import (
    FAILURES_ENDING,
    INPUTS_ENDING,
    RunPaths,
    bare_name,
    goes_with_a_run,
    run_beside,
    with_compressed,
)
from palestra.system import matching_files

Files = Path | str | Sequence[Path | str]
"""One file or its stem, the folder of a run, a quoted glob of shards, or several of these."""


def rollout_files(files: Files) -> list[Path]:
    """Return the rollouts files. A glob skips other files of a run, such as inputs, failures and
    reports.

    Raises InputDataError: a file is missing or a glob matches no file.
    """
    return _files_of_arguments(files)


def run_files(inputs: Files | None, rollouts: Files) -> tuple[list[Path], list[Path]]:
    """Return the materialized inputs and the rollouts files.

    Without `inputs`, the inputs file next to each rollouts file is used. Raises InputDataError: a
    file is missing or a glob matches no file.
    """
    input_paths = (
        None
        if inputs is None
        else _files_of_arguments(inputs, ending=INPUTS_ENDING, of_output=_inputs_beside)
    )
    rollout_paths = rollout_files(rollouts)
    return [
        _inputs_beside(path) for path in rollout_paths
    ] if input_paths is None else input_paths, rollout_paths


def _inputs_beside(rollouts: Path) -> Path:
    inputs = with_compressed(RunPaths(rollouts).materialized_inputs)
    if inputs is None:
        raise without_inputs(
            rollouts,
            hint="keep the files of a run in one folder; --inputs FILE names them elsewhere",
        )
    return inputs


def without_inputs(rollouts: Path, *, hint: str) -> InputDataError:
    """Return the error for a file with no materialized inputs beside it: it is the output of no run,
    or they are missing, and `hint` helps.
    """
    if what := why_no_rollouts(rollouts):
        if provenance_path(rollouts).exists():
            what += ": `palestra select` wrote it, for a run of these tasks"
        return InputDataError(
            f"{rollouts} {what}",
            hint="give the scored rows of a run (.jsonl), or its folder; `palestra runs` lists the "
            "runs",
        )
    materialized = RunPaths(rollouts).materialized_inputs
    return InputDataError(
        f"the materialized inputs of {rollouts} are missing: {materialized} does not exist",
        hint=hint + import_advice(rollouts),
    )


def failure_files(files: Files | None, rollouts: Sequence[Path]) -> list[Path]:
    """Return the failures files named by `files`; without `files`, those that exist next to
    `rollouts`.
    """
    if files is not None:
        return _files_of_arguments(files, ending=FAILURES_ENDING, of_output=_failures_beside)
    failure_paths = (with_compressed(RunPaths(path).failures) for path in rollouts)
    return [path for path in failure_paths if path is not None]


def rollouts_beside(failures: Path) -> Path | None:
    """Return the rollouts file to which a failures file belongs; None when there is none."""
    name = bare_name(failures)
    stem = name.removesuffix(FAILURES_ENDING)
    return None if stem == name else with_compressed(failures.with_name(f"{stem}.jsonl"))


def _failures_beside(rollouts: Path) -> Path:
    return RunPaths(rollouts).failures


def _itself(rollouts: Path) -> Path:
    return rollouts


def _files_of_arguments(
    files: Files, *, ending: str = "", of_output: Callable[[Path], Path] = _itself
) -> list[Path]:
    """Return each file once, sorted by path, so that the order of the arguments does not matter.

    `ending`: that of the wanted files beside an output; empty for the output itself. `of_output`:
    returns the wanted file of a run, for an argument that names the whole run.
    """
    items = [str(files)] if isinstance(files, Path | str) else [str(item) for item in files]
    matched: dict[Path, Path] = {}
    for item in items:
        outputs = _run_named(item, takes_any_file=not ending)
        paths = map(of_output, outputs) if outputs else _matches(item, ending)
        matched |= {path.resolve(): path for path in paths}
    if not matched:
        raise InputDataError("no file of rows was passed")
    return sorted(matched.values())


def _run_named(item: str, *, takes_any_file: bool) -> list[Path]:
    """Return the outputs of the run whose folder or stem `item` is; empty when it is neither.

    `takes_any_file`: each file of a run stands for the run.
    """
    path = Path(item)
    output = run_beside(path) if takes_any_file and path.is_file() else None
    if output is not None and output.exists():
        return [output]
    is_stem = not path.exists() and RunPaths(Path(f"{item}.jsonl")).manifest.exists()
    return outputs_of(path) if path.is_dir() or is_stem else []


def _matches(item: str, ending: str) -> Iterator[Path]:
    path = Path(item)
    if (existing := with_compressed(path)) is not None:
        yield existing
        return
    if not glob.has_magic(item):
        raise InputDataError(
            f"cannot read {path}: No such file or directory{did_you_mean_path(path)}",
            hint="relative paths start at the working directory",
        )
    names = matching_files(item)
    accepted = [
        name
        for name in names
        if (ending and bare_name(name).endswith(ending)) or not goes_with_a_run(name)
    ]
    if not accepted:
        what = (
            f"only companion files of a run ({names[0]}), not its rollouts" if names else "nothing"
        )
        raise InputDataError(f"{item} matches {what}")
    yield from accepted
