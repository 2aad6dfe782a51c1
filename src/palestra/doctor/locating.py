"""Locate what `palestra diagnose RUN` reads: outputs, logs, or a Slurm job."""

import re
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from palestra.doctor.reading import LogObservation
from palestra.doctor.slurm import JOB_ID, SlurmJob, read_job
from palestra.errors import BadInput
from palestra.rollouts import import_command
from palestra.schema import TASK_INDEX, RunPaths, read_jsonl, run_beside

LOG_SUFFIXES: Final = frozenset({".log", ".out", ".err"})
LOG_NAMES: Final = frozenset({"log", "stdout", "stderr"})
MOST_FILES: Final = 500
_RAY_FAILED: Final = re.compile(r"timed out during startup|Failed to start the dashboard")
_EVENT: Final = b'{"event":'
NO_LOGS: Final = frozenset(
    {*(".csv", ".tsv", ".html", ".json", ".yaml", ".yml", ".toml", ".py", ".md", ".parquet")}
)
"""File name endings that no log has. Such a file is rejected instead of searched without a result.
"""
_OF_A_RUN: Final = (
    "_materialized_inputs.jsonl",
    "_failures.jsonl",
    "_manifest.json",
    "_reward_profiling.jsonl",
    "_aggregate_metrics.json",
    "_agent_metrics.json",
)
_GIVE: Final = (
    "give an output (out/run.jsonl, or its stem), the folder of a run, a log file, or a job's "
    "number; a command that ended before its first rollout leaves only what it printed: "
    "`palestra … 2>&1 | tee run.log`, then `palestra diagnose run.log`"
)


@dataclass(frozen=True, slots=True)
class LocatedFiles:
    """The files to read. `outputs`: rollouts files, which may not exist themselves."""

    outputs: tuple[Path, ...] = ()
    logs: tuple[Path, ...] = ()
    job: SlurmJob | None = None


def locate(subject_name: str, *, folder: Path) -> LocatedFiles:
    """Return the files that `subject_name` names, relative to `folder`. Raises BadInput: it names
    none.
    """
    path = folder / subject_name
    if path.is_dir():
        return _in_folder(path)
    if path.is_file():
        return _of_file(path)
    if JOB_ID.fullmatch(subject_name):
        job = read_job(subject_name)
        return LocatedFiles(logs=job.logs, job=job)
    jsonl_path = path.with_name(f"{path.name}.jsonl")
    for output in (path,) if path.suffix == ".jsonl" else (jsonl_path, path):
        if any(file.exists() for file in RunPaths(output).recorded()):
            return LocatedFiles((output,), tuple(_logs_beside(output)))
    raise BadInput(
        f"{subject_name} is not a run: not an output, a folder, a log or the number of a Slurm job",
        hint=_GIVE,
    )


def _of_file(path: Path) -> LocatedFiles:
    for ending in _OF_A_RUN:
        if path.name.endswith(ending):
            output = path.with_name(path.name.removesuffix(ending) + ".jsonl")
            return LocatedFiles((output,), tuple(_logs_beside(output)))
    if not _is_events(path) and (run_output := run_beside(path)) is not None:
        return LocatedFiles((run_output,), tuple(_logs_beside(run_output)))
    if path.suffix == ".jsonl" and not _is_events(path):
        _check_results(path)
        return LocatedFiles((path,), tuple(_logs_beside(path)))
    if path.suffix in NO_LOGS:
        raise BadInput(f"{path} is not a run: it has neither results nor a log", hint=_GIVE)
    return LocatedFiles(logs=(path,))


def _check_results(path: Path) -> None:
    """Raise BadInput when a JSONL file holds something other than results, such as a run's task
    rows.
    """
    if any(file.exists() for file in RunPaths(path).recorded() if file != path):
        return  # whatever became of it
    first = next((line for line in read_jsonl(path)), None)
    if first is None:
        raise BadInput(f"{path} is empty, and its folder has no other files of a run", hint=_GIVE)
    if isinstance(first.row, dict) and TASK_INDEX not in first.row:
        if command := import_command(path):
            raise BadInput(
                f"{path} has rollouts, and is not the output of a run: its rows have no {TASK_INDEX}",
                hint=f"`{command}` makes a run of them",
            )
        raise BadInput(
            f"{path} holds no results of a run: its first row has no {TASK_INDEX}",
            hint=f"`palestra doctor --input {path.name} …` checks task rows; " + _GIVE,
        )


def _in_folder(folder: Path) -> LocatedFiles:
    """Return all runs and logs in a folder and its direct subfolders. Raises BadInput: there are
    none.
    """
    files = [path for path in _files(folder) if path.is_file()]
    stems = {
        path.with_name(path.name.removesuffix(ending) + ".jsonl")
        for path in files
        for ending in _OF_A_RUN[:3]
        if path.name.endswith(ending)
    }
    logs = [path for path in files if _is_log(path)]
    if not stems and not logs:
        raise BadInput(
            f"{folder} holds neither the files of a run nor logs",
            hint="give the folder that holds <stem>_manifest.json, or *.log, *.out or *.err files",
        )
    return LocatedFiles(tuple(sorted(stems)), tuple(sorted(logs)))


def _files(folder: Path) -> Iterator[Path]:
    for subfolder in (folder, *sorted(path for path in folder.iterdir() if path.is_dir())):
        if not subfolder.name.startswith("."):
            yield from sorted(subfolder.iterdir())[:MOST_FILES]


def _is_log(path: Path) -> bool:
    if path.suffix in LOG_SUFFIXES or path.name in LOG_NAMES:
        return True
    return path.suffix == ".jsonl" and _is_events(path)


def _is_events(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(_EVENT)) == _EVENT


def _logs_beside(output: Path) -> Iterable[Path]:
    """Return the logs in the output's folder whose names begin like the output's."""
    if not output.parent.is_dir():
        return []
    siblings = (p for p in output.parent.iterdir() if p.name.startswith(output.stem))
    return sorted(path for path in siblings if path.is_file() and _is_log(path))


def ray_log_of(observations: Iterable[LogObservation]) -> Path | None:
    """Return Ray's own error log when an observation says that Ray failed to start; else None."""
    log = Path(tempfile.gettempdir()) / "ray" / "session_latest" / "logs" / "raylet.err"
    failed = any(_RAY_FAILED.search(observation.text) for observation in observations)
    return log if failed and log.is_file() else None


def outputs_named(log: Path, names: Iterable[str], *, folder: Path) -> Iterator[Path]:
    """Yield the outputs that a log's command wrote, if they are found near `log` or in `folder`."""
    for name in dict.fromkeys(names):
        for parent in (log.parent, folder):
            output = parent / name
            if any(path.exists() for path in RunPaths(output).recorded()):
                yield output
                break
