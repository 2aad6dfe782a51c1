"""Writes advice about a run for the users of the program that collected it."""

import re
import shlex
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from palestra.analysis.run_head import run_head
from palestra.analysis.sources import Files, rollout_files
from palestra.errors import InputDataError
from palestra.programs import collector_program, with_flags_of
from palestra.rollouts import argument_of, options_of_reverify, outputs_of
from palestra.schema import SELECT_FAILED, RunPaths, bare_name
from palestra.system import shown, unused

_VERIFIED_FILES: Final = re.compile(
    r"--rollouts (?P<rollouts>'[^']*'|[^\s'`]+) --with-failures --output (?:'[^']*'|[^\s'`]+)"
)
"""The files of the run in a command of `reverify_command`."""


def advice_about(run: Files) -> Callable[[str], str]:
    """Return what completes advice about a run: it writes the path of the run and a new file where the
    advice leaves them open, and the flags of a collection as the command takes them that collected
    the run.

    `run`: what names it in a command, or its outputs. Advice about anything else stays as it is.
    """
    try:
        outputs = _outputs(run)
        recorded = run_head(outputs).command
    except InputDataError:
        return str
    return partial(_completed, outputs, collector_program(recorded))


def _outputs(run: Files) -> Sequence[Path]:
    """Return the outputs of a run, or of the shards that a glob names. Raises InputDataError."""
    if not isinstance(run, str | Path):
        return [Path(output) for output in run]
    try:
        return outputs_of(run)
    except InputDataError:
        return rollout_files(run)


def _completed(outputs: Sequence[Path], program: str, advice: str) -> str:
    if SELECT_FAILED in advice:
        advice = advice.replace(SELECT_FAILED, _select_failed(outputs))
    if len(outputs) == 1:
        advice = _VERIFIED_FILES.sub(partial(_of_this_run, outputs[0]), advice)
    return with_flags_of(program, advice, only_of_collections=True)


def _of_this_run(output: Path, recorded: re.Match[str]) -> str:
    """Return the files of a recorded `reverify` command; those of `output` when the run was moved or
    copied since.
    """
    (rollouts,) = shlex.split(recorded["rollouts"])
    if Path(rollouts).absolute() == output.absolute():
        return recorded[0]
    return shlex.join(options_of_reverify(output))


def _select_failed(outputs: Sequence[Path]) -> str:
    """Return the command that writes the tasks without a score to a file that does not exist."""
    stem = Path(bare_name(RunPaths.for_files(outputs).output)).stem
    file = unused(outputs[0].parent / f"{stem}_again.jsonl", lambda path: (path,))
    run = shown(Path(argument_of(outputs)))
    return shlex.join(("palestra", "select", run, "--failed", "--out", shown(file)))
