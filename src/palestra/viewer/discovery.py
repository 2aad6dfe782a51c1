"""Finds the runs that the arguments of `palestra view` name."""

import glob
import hashlib
import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from palestra.analysis import rollout_files
from palestra.errors import InputDataError
from palestra.rollouts import (
    MANIFEST_SUFFIX,
    argument_of,
    kind_of,
    output_beside,
    outputs_of,
    runs_of,
)
from palestra.schema import (
    RunPaths,
    bare_name,
    goes_with_a_run,
    with_compressed,
)

DEEPEST: Final = 4
"""How many folders below an argument are searched."""
ID_CHARACTERS: Final = 16
_DERIVED: Final = (".html", ".json")
_SKIPPED: Final = frozenset({"node_modules", "__pycache__"})
_JOBS_FOLDER: Final = "cluster"
"""A run over many jobs keeps plans, inputs and logs in it. A run may have this name, too."""


@dataclass(frozen=True, slots=True)
class RunPlace:
    """A run on disk. `id`: the digest of the real path of its first output."""

    id: str
    outputs: tuple[Path, ...]

    @classmethod
    def of(cls, outputs: Sequence[Path]) -> "RunPlace":
        """Return the place of the run with these outputs."""
        return cls(digest_of(outputs[0]), tuple(path.absolute() for path in outputs))

    @property
    def path(self) -> Path:
        """The first output."""
        return self.outputs[0]

    @property
    def argument(self) -> str:
        """What names the whole run in a command: its output, or the folder or a glob of its shards."""
        return argument_of(self.outputs)

    def output_of(self, path: Path) -> Path:
        """Return the output that a file of the run belongs to: itself, or the one that it is beside."""
        bare = bare_name(path)
        for output in self.outputs:
            recorded = RunPaths(output).recorded()
            if path.parent == output.parent and bare in {bare_name(file) for file in recorded}:
                return output
        return self.path

    @property
    def name(self) -> str:
        """The name of the run: of its folder, when the output has the usual name or is in shards."""
        stem = Path(bare_name(self.path)).stem
        if stem == "rollouts" or len(self.outputs) > 1:
            return Path(os.path.commonpath([path.parent for path in self.outputs])).name
        return stem


@dataclass(frozen=True, slots=True)
class ClusterPlace:
    """The output folder of a run over many jobs."""

    id: str
    folder: Path

    @property
    def name(self) -> str:
        return self.folder.name


@dataclass(frozen=True, slots=True)
class Places:
    """What the arguments name."""

    runs: tuple[RunPlace, ...]
    clusters: tuple[ClusterPlace, ...]


def digest_of(path: Path) -> str:
    """Return the id of a path: a digest of its real path."""
    return hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:ID_CHARACTERS]


def find_places(arguments: Sequence[str]) -> Places:
    """Return the runs and clusters that the arguments name: outputs, stems, globs, folders.

    Raises InputDataError: an argument names no run. The message says what it names instead.
    """
    runs: dict[str, RunPlace] = {}
    clusters: dict[str, ClusterPlace] = {}
    for argument in arguments or (".",):
        path = Path(argument)
        folders = list(_folders(path)) if path.is_dir() else []
        for folder in folders:
            if _has_jobs(folder):
                run_place = ClusterPlace(digest_of(folder), folder.absolute())
                clusters[run_place.id] = run_place
        run_places = _runs_in(folders) if folders else [_run_of_argument(argument)]
        runs |= {run_place.id: run_place for run_place in run_places}
        if folders and not run_places and not clusters:
            raise InputDataError(
                f"no run is in {path} or in the folders below it, {DEEPEST} levels deep",
                hint="give an output of `palestra collect` or `eval`, such as runs/NAME",
            )
    return Places(tuple(runs.values()), tuple(clusters.values()))


def _folders(root: Path, depth: int = 0) -> Iterator[Path]:
    yield root
    if depth == DEEPEST:
        return
    skipped = _SKIPPED | ({_JOBS_FOLDER} if _has_jobs(root) else set())
    try:
        children = sorted(entry.path for entry in os.scandir(root) if _is_searched(entry, skipped))
    except OSError:
        return
    for child in children:
        yield from _folders(Path(child), depth + 1)


def _has_jobs(folder: Path) -> bool:
    """Whether a folder is that of a run over many jobs."""
    if not (folder / _JOBS_FOLDER).is_dir():
        return False
    from palestra.cluster import RunFiles  # here: it needs the code of servers, most runs do not

    return bool(RunFiles(folder).submissions())


def _is_searched(entry: "os.DirEntry[str]", skipped: Collection[str]) -> bool:
    name = entry.name
    return entry.is_dir(follow_symlinks=False) and not name.startswith(".") and name not in skipped


def _runs_in(folders: Sequence[Path]) -> list[RunPlace]:
    """Return the runs in these folders: files with a manifest or inputs beside them, and files of
    other programs that hold rollouts.
    """
    files = [path for folder in folders for path in _files(folder)]
    manifests = runs_of(path for path in files if path.name.endswith(MANIFEST_SUFFIX))
    recorded = [[output_beside(path) for path, _ in run] for run in manifests]
    # the shards of a merged run are in no group, and are no runs of their own
    output_files = {output_beside(path) for path in files if path.name.endswith(MANIFEST_SUFFIX)}
    others = [
        [path]
        for path in files
        if path not in output_files and _may_be_output(path)
        if kind_of(path) in {"rollouts", "outcomes"}
    ]
    return [RunPlace.of(outputs) for outputs in (*recorded, *others)]


def _files(folder: Path) -> list[Path]:
    try:
        return sorted(Path(entry.path) for entry in os.scandir(folder) if entry.is_file())
    except OSError:
        return []


def _may_be_output(path: Path) -> bool:
    return bare_name(path).endswith(".jsonl") and not goes_with_a_run(path)


_INSTEAD: Final = {
    "failures": "the failures of a run",
    "inputs": "the inputs of a run",
    "dataset": "a dataset: it has tasks, and no rollouts",
    "other": "not a file of rollouts",
}


def _run_of_argument(argument: str) -> RunPlace:
    path = Path(argument)
    if glob.has_magic(argument) and not path.exists():
        return RunPlace.of([Path(file) for file in rollout_files(argument)])
    path = with_compressed(path) or with_compressed(path.with_name(f"{path.name}.jsonl")) or path
    if path.is_file() and _may_be_output(path):
        if kind_of(path) in _INSTEAD and with_compressed(RunPaths(path).manifest) is None:
            raise _no_run(path)
        return RunPlace.of([path])
    try:
        outputs = outputs_of(argument)
    except InputDataError:
        if path.is_file():
            raise _no_run(path) from None
        raise
    first = RunPaths(outputs[0])
    if not any(map(with_compressed, (first.output, first.manifest))):
        raise _no_run(path)
    return RunPlace.of(outputs)


def _no_run(path: Path) -> InputDataError:
    """Return the error for a file without a run: what it is, and what to give."""
    kind = "report or summary" if path.suffix in _DERIVED else kind_of(path)
    return InputDataError(
        f"{path} is {_INSTEAD.get(kind, 'a report or a summary')}, and no run is beside it",
        hint="give the output with the scored rows (.jsonl), its stem, or its folder",
    )
