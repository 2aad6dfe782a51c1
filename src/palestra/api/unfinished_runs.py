"""Finds the unfinished run that an evaluation continues."""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from palestra.api.endpoint_waiting import Tell
from palestra.errors import ConfigError, InputDataError, Phrase
from palestra.records import RUNS_FOLDER
from palestra.rollouts import (
    Manifest,
    changes,
    read_manifest,
    unfinished_rollouts,
    why_not_writable,
)
from palestra.schema import RunPaths
from palestra.system import shown

OUTPUT: Final = "rollouts.jsonl"
"""The name of the output in a run's folder."""
_STAMP: Final = r"-\d{8}-\d{6}(-\d+)?"
MOST_NAMED: Final = 5


@dataclass(frozen=True, slots=True)
class _Candidate:
    """An unfinished run with the wanted name; `obstacles`: why this command cannot continue it."""

    output: Path
    requested: int
    left: int
    obstacles: tuple[str, ...]

    @property
    def description(self) -> str:
        why = f"; {self.obstacles[0]}" if self.obstacles else ""
        further_obstacles = len(self.obstacles) - 1
        others = f" and {further_obstacles} more differences" if further_obstacles > 0 else ""
        remaining = (
            f"{self.left} of {self.requested} left"
            if self.left
            else "all rollouts ended, not yet counted"
        )
        return f"{shown(self.output)} ({remaining}{why}{others})"


def unfinished_run(
    name: str,
    intended: Manifest,
    agents: Collection[str],
    *,
    max_attempts: int,
    report: Tell = str,
) -> Path:
    """Return the output of the newest unfinished run of `name` that matches `intended`, and report
    which one.

    `agents`: those that the rows name. `max_attempts`: the limit of this command, which may be
    higher than the limit of the old run. Raises ConfigError, with the candidates: no unfinished run
    matches.
    """
    unfinished: list[_Candidate] = []
    for candidate in _candidates(name, intended, agents, max_attempts):
        if not candidate.obstacles:
            report(
                f"continuing {candidate.description}, the newest unfinished run of {name} (--resume)"
            )
            return candidate.output
        unfinished.append(candidate)
    if not unfinished:
        raise ConfigError(
            Phrase(
                "--resume: there is no unfinished run of {name} in {folder}/",
                name=name,
                folder=RUNS_FOLDER,
            ),
            hint="leave it out to start a new run, or name the run with --output",
        )
    descriptions = "\n  ".join(candidate.description for candidate in unfinished[:MOST_NAMED])
    raise ConfigError(
        Phrase(
            "--resume: no unfinished run of {name} can continue with these settings:\n  "
            "{descriptions}",
            name=name,
            descriptions=descriptions,
        ),
        hint="use the same rows, model and settings, name the run with --output, or start "
        "a new run without --resume",
    )


def _candidates(
    name: str, intended: Manifest, agents: Collection[str], max_attempts: int
) -> Iterator[_Candidate]:
    """Yield the unfinished runs of `name`, the newest first."""
    folders = RUNS_FOLDER.iterdir() if RUNS_FOLDER.is_dir() else ()
    pattern = re.compile(re.escape(name) + _STAMP)
    for folder in sorted((f for f in folders if pattern.fullmatch(f.name)), reverse=True):
        paths = RunPaths((folder / OUTPUT).absolute())
        try:
            manifest = read_manifest(paths.manifest)
            requested = manifest.requested
            unfinished_count = unfinished_rollouts(
                paths, requested=requested, max_attempts=max_attempts
            )
            busy = why_not_writable(paths)
        except (InputDataError, OSError):
            continue  # not a run, or one that cannot be continued
        # A guard may have ended the run for its last rollout: its end is still to come.
        if unfinished_count or manifest.accounted < requested:
            obstacles = (*filter(None, [busy]), *changes(manifest, intended, agents))
            yield _Candidate(paths.output, requested, unfinished_count, obstacles)
