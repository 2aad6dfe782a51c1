"""The file names of a run. All of them are derived from the stem of the rollouts file."""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Final

COMPRESSED_SUFFIXES = (".gz", ".zst")
INPUTS_ENDING: Final = "_materialized_inputs.jsonl"
FAILURES_ENDING: Final = "_failures.jsonl"
_MANIFEST: Final = "_manifest.json"
_TASKS: Final = "_tasks.jsonl"
"""The ending of the task rows that `palestra eval` writes beside a run."""
_COMPANION_ENDINGS: Final = (
    INPUTS_ENDING,
    FAILURES_ENDING,
    _MANIFEST,
    "_aggregate_metrics.json",
    "_reward_profiling.jsonl",
    "_agent_metrics.json",
    "_report.html",
    "_events.jsonl",
)
_NOT_FINAL: Final = re.compile(r"\.(?:bak\d*|tmp|new(?:-[^.]*)?|merging|partial)$")
"""The ending of files that were moved aside, or are not whole yet."""


@dataclass(frozen=True, slots=True)
class RunPaths:
    """The paths of all files of one run, derived from its output path.

    For `out/rollouts.jsonl` the stem is `out/rollouts`. A compressed rollouts file has the same
    stem as an uncompressed one.
    """

    output: Path
    """The file with the scored rows."""

    @classmethod
    def for_files(cls, rollouts: Sequence[Path]) -> "RunPaths":
        """Return the paths for several shards. The stem is the common beginning of their names.

        `jobs/part0.jsonl` and `jobs/part1.jsonl` are profiled in
        `jobs/part_reward_profiling.jsonl`.
        """
        if len(rollouts) == 1:
            return cls(rollouts[0])
        folders = {path.parent for path in rollouts}
        together = folders.pop() if len(folders) == 1 else _common(folders)
        names = [Path(bare_name(path)).stem for path in rollouts]
        stem = _common_beginning(names).rstrip("0123456789._-") or "rollouts"
        return cls(together / f"{stem}.jsonl")

    def _sibling(self, ending: str) -> Path:
        return self.output.with_name(Path(bare_name(self.output)).stem + ending)

    @property
    def materialized_inputs(self) -> Path:
        """The expanded rows, one per requested rollout."""
        return self._sibling(INPUTS_ENDING)

    def new_inputs(self, token: str) -> Path:
        """Return a temporary path for materialized inputs. `token`: makes the path unique to one
        command.
        """
        return self._sibling(f"_materialized_inputs.jsonl.new-{token}")

    @property
    def reverified(self) -> Path:
        """The rows of a re-verification, unless its command names another output."""
        return self.output.with_name(f"{self.output.stem}_reverified.jsonl")

    @property
    def failures(self) -> Path:
        """The file with one row per failed attempt."""
        return self._sibling(FAILURES_ENDING)

    @property
    def manifest(self) -> Path:
        """The file that records the inputs and settings of the run."""
        return self._sibling(_MANIFEST)

    @property
    def new_manifest(self) -> Path:
        """The temporary path of a manifest that is not in place yet."""
        return self._sibling("_manifest.json.new")

    @property
    def aggregate_metrics(self) -> Path:
        """The file with metrics per agent, as the environments return them."""
        return self._sibling("_aggregate_metrics.json")

    @property
    def reward_profiling(self) -> Path:
        """The file with statistics per task."""
        return self._sibling("_reward_profiling.jsonl")

    @property
    def agent_metrics(self) -> Path:
        """The file with statistics per agent."""
        return self._sibling("_agent_metrics.json")

    @property
    def report(self) -> Path:
        """The HTML page with charts, tasks and transcripts."""
        return self._sibling("_report.html")

    @property
    def events(self) -> Path:
        """The file with the events of the run, when the user writes them there (`--json-events`)."""
        return self._sibling("_events.jsonl")

    def owns(self, path: Path) -> bool:
        """Whether a file is the output or one beside it, by its name; also when it was moved aside."""
        name = bare_name(path.with_name(_NOT_FINAL.sub("", path.name)))
        is_beside = name.startswith(self._sibling("_").name) and name.endswith(
            (*_COMPANION_ENDINGS, _TASKS)
        )
        return path.parent == self.output.parent and (is_beside or name == bare_name(self.output))

    def writes(self, path: Path) -> bool:
        """Whether the run writes a file at `path`, now or later, packed or not; by its name, or
        through a link. The file of its events is not meant, as the user names that one.
        """
        return _unpacked(path) in map(_unpacked, (*self.all(), self._sibling(_TASKS)))

    def recorded(self) -> tuple[Path, ...]:
        """Return every file that a run writes."""
        return (
            self.output,
            self.materialized_inputs,
            self.failures,
            self.manifest,
            self.aggregate_metrics,
        )

    def derived(self) -> tuple[Path, ...]:
        """Return the files that `profile` writes for a run; they are outdated once the run changes."""
        return (self.reward_profiling, self.agent_metrics)

    def all(self) -> tuple[Path, ...]:
        """Return the paths of all files, whether they exist or not."""
        return (*self.recorded(), *self.derived(), self.report)


def run_beside(path: Path) -> Path | None:
    """Return the output of the run of which `path` is another file, by its name: a manifest, the
    inputs, a report and so on. None for an output, and where no such run is in the folder. The output
    may not exist, as of a run without a scored row.
    """
    own_files = RunPaths(path)
    if own_files.manifest.exists() or with_compressed(own_files.materialized_inputs):
        return None
    name = bare_name(path)
    for ending in _COMPANION_ENDINGS:
        stem = name.removesuffix(ending)
        run = RunPaths(path.with_name(f"{stem}.jsonl"))
        if stem and stem != name and any(map(with_compressed, run.recorded())):
            return with_compressed(run.output) or run.output
    runs = _runs_owning(path) if name.endswith(_TASKS) else iter(())
    return next((with_compressed(run.output) or run.output for run in runs), None)


def goes_with_a_run(path: Path) -> bool:
    """Whether a file is one that a run has beside its output, or one that was moved aside, and not
    the output of a run itself.
    """
    if _NOT_FINAL.search(path.name):
        return True
    own_files = RunPaths(path)
    if own_files.manifest.exists() or with_compressed(own_files.materialized_inputs):
        return False
    name = bare_name(path)
    # Another program may end the names of its outputs so.
    return name.endswith(_COMPANION_ENDINGS) or (name.endswith(_TASKS) and any(_runs_owning(path)))


def _runs_owning(path: Path) -> Iterator[RunPaths]:
    """Yield the runs in a file's folder to which it belongs."""
    for ending in (_MANIFEST, INPUTS_ENDING):
        for file in path.parent.glob(f"*{ending}"):
            run = RunPaths(file.with_name(f"{file.name.removesuffix(ending)}.jsonl"))
            if run.owns(path):
                yield run


def _common(folders: Iterable[Path]) -> Path:
    return Path(os.path.commonpath([folder.absolute() for folder in folders]))


def _common_beginning(names: Sequence[str]) -> str:
    # the first and the last in order differ where any two do
    low, high = min(names), max(names)
    same = takewhile(lambda pair: pair[0] == pair[1], zip(low, high, strict=False))
    return "".join(letter for letter, _ in same)


def bare_name(path: Path) -> str:
    """Return the file's name without a compression suffix."""
    return path.stem if path.suffix in COMPRESSED_SUFFIXES else path.name


def _unpacked(path: Path) -> Path:
    resolved = path.resolve()
    return resolved.with_name(bare_name(resolved))


def with_compressed(path: Path) -> Path | None:
    """Return `path` if it exists, else the compressed file with the same name; None when neither
    exists.
    """
    candidates = (path, *(path.with_name(path.name + suffix) for suffix in COMPRESSED_SUFFIXES))
    return next((candidate for candidate in candidates if candidate.exists()), None)
