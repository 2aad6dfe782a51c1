"""`--resume` without `--output`: the newest unfinished run that the command would have made."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from palestra.cli.console import notice, shown
from palestra.errors import ConfigError, InputDataError
from palestra.rollouts import RunPaths, differences, read_manifest, unscored_in
from palestra.schema import Remedy, Unscored

RUNS: Final = Path("runs")
OUTPUT: Final = "rollouts.jsonl"
_STAMP: Final = r"-\d{8}-\d{6}"
MOST_NAMED: Final = 5


@dataclass(frozen=True, slots=True)
class _Candidate:
    """An unfinished run of the same name; `changed`: what the command says otherwise."""

    output: Path
    requested: int
    unscored: Unscored
    changed: tuple[str, ...]

    def goes_on(self, *, more_attempts: bool) -> bool:
        """Whether resuming it would run anything."""
        counts = self.unscored.counts
        tried_again = more_attempts and counts.get(Remedy.MORE_ATTEMPTS)
        return bool(counts.get(Remedy.RESUME) or tried_again)

    @property
    def description(self) -> str:
        left = self.unscored.counts.get(Remedy.RESUME, 0)
        why = f"; {self.changed[0]}" if self.changed else ""
        more = f" and {len(self.changed) - 1} more differences" if len(self.changed) > 1 else ""
        return f"{shown(self.output)} ({left} of {self.requested} left{why}{more})"


def tasks_beside(output: Path) -> Path:
    """The rows that an evaluation has made for its run."""
    return output.with_name(f"{output.stem}_tasks.jsonl")


def unfinished_run(
    name: str, semantics: Mapping[str, Any], *, tasks: bytes | None, more_attempts: bool
) -> Path:
    """The output of the newest one of `name` that was made from what `semantics` says.

    `tasks`: the lines of the rows that the command makes; None where it reads a file of rows.
    `more_attempts`: rollouts that have spent their attempts may run again. Says which run it is.
    Raises ConfigError, which names the candidates, when there is none.
    """
    unfinished: list[_Candidate] = []
    for candidate in _candidates(name, semantics, tasks):
        if not candidate.goes_on(more_attempts=more_attempts):
            continue
        if not candidate.changed:
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
        f"--resume: no unfinished run of {name} was made from what this command says:\n  {named}",
        hint="give the same model and settings again, name the run with --output, or leave "
        "--resume out to start a new run",
    )


def _candidates(
    name: str, semantics: Mapping[str, Any], tasks: bytes | None
) -> Iterator[_Candidate]:
    """The runs of that name, the newest first."""
    folders = RUNS.iterdir() if RUNS.is_dir() else ()
    pattern = re.compile(re.escape(name) + _STAMP)
    for folder in sorted((f for f in folders if pattern.fullmatch(f.name)), reverse=True):
        paths = RunPaths((folder / OUTPUT).absolute())
        try:
            manifest = read_manifest(paths.manifest)
            unscored = unscored_in(paths, requested=manifest.requested)
            same_rows = tasks is None or tasks_beside(paths.output).read_bytes() == tasks
        except (InputDataError, OSError):
            continue  # not a run, or one that cannot be continued
        changed = tuple(differences(manifest.semantics, semantics))
        if not same_rows:
            changed = ("the input rows differ", *changed)
        yield _Candidate(paths.output, manifest.requested, unscored, changed)
