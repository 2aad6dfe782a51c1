"""`--resume` without `--output`: the newest unfinished run that the command would have made."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from palestra.cli.console import notice, shown
from palestra.errors import ConfigError, InputDataError
from palestra.rollouts import (
    Manifest,
    changes,
    read_manifest,
    unfinished_rollouts,
    why_not_writable,
)
from palestra.schema import RunPaths

RUNS: Final = Path("runs")
OUTPUT: Final = "rollouts.jsonl"
_STAMP: Final = r"-\d{8}-\d{6}(-\d+)?"
MOST_NAMED: Final = 5


@dataclass(frozen=True, slots=True)
class _Candidate:
    """An unfinished run of the same name; `obstacles`: why the command cannot go on with it."""

    output: Path
    requested: int
    left: int
    obstacles: tuple[str, ...]

    @property
    def description(self) -> str:
        why = f"; {self.obstacles[0]}" if self.obstacles else ""
        more = len(self.obstacles) - 1
        others = f" and {more} more differences" if more > 0 else ""
        left = f"{self.left} of {self.requested} left" if self.left else "all have ended, uncounted"
        return f"{shown(self.output)} ({left}{why}{others})"


def tasks_beside(output: Path) -> Path:
    """The rows that an evaluation has made for its run."""
    return output.with_name(f"{output.stem}_tasks.jsonl")


def unfinished_run(name: str, intended: Manifest, *, max_attempts: int) -> Path:
    """The output of the newest one of `name` that was made from what `intended` says.

    `max_attempts`: those of the command, which may be more than the run had. Says which run it is.
    Raises ConfigError, which names the candidates, when there is none.
    """
    unfinished: list[_Candidate] = []
    for candidate in _candidates(name, intended, max_attempts):
        if not candidate.obstacles:
            notice(
                f"continuing {candidate.description}, the newest unfinished run of {name} (--resume)"
            )
            return candidate.output
        unfinished.append(candidate)
    if not unfinished:
        raise ConfigError(
            f"--resume: there is no unfinished run of {name} in {RUNS}/",
            hint="leave --resume out to start a new run, or name the run with --output",
        )
    named = "\n  ".join(candidate.description for candidate in unfinished[:MOST_NAMED])
    raise ConfigError(
        f"--resume: no unfinished run of {name} can go on as this command says:\n  {named}",
        hint="give the same rows, model and settings again, name the run with --output, or leave "
        "--resume out to start a new run",
    )


def _candidates(name: str, intended: Manifest, max_attempts: int) -> Iterator[_Candidate]:
    """The unfinished runs of that name, the newest first."""
    folders = RUNS.iterdir() if RUNS.is_dir() else ()
    pattern = re.compile(re.escape(name) + _STAMP)
    for folder in sorted((f for f in folders if pattern.fullmatch(f.name)), reverse=True):
        paths = RunPaths((folder / OUTPUT).absolute())
        try:
            manifest = read_manifest(paths.manifest)
            requested = manifest.requested
            left = unfinished_rollouts(paths, requested=requested, max_attempts=max_attempts)
            busy = why_not_writable(paths)
        except (InputDataError, OSError):
            continue  # not a run, or one that cannot be continued
        # A guard may have ended the run for its last rollout: its end is still to come.
        if left or manifest.accounted < requested:
            obstacles = (*filter(None, [busy]), *changes(manifest, intended))
            yield _Candidate(paths.output, requested, left, obstacles)
