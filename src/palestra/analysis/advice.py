"""Writes advice about a run for the users of the program that collected it."""

import re
import shlex
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from palestra.analysis.reverify_commands import PathText, command_of_run, with_files_of
from palestra.analysis.run_head import run_head
from palestra.analysis.sources import Files, rollout_files
from palestra.errors import InputDataError
from palestra.programs import collector_program, with_flags_of, with_settings_of
from palestra.rollouts import argument_of, outputs_of
from palestra.schema import SELECT_FAILED, RunPaths, bare_name
from palestra.system import shown, unused

Advice = Callable[[str], str]
"""Completes advice about one run."""
_OUTPUT: Final = "--output"
STEM: Final = "<stem>"
"""Stands for the path of a run, without an ending, in advice about its files."""
_REVERIFY: Final = re.compile(
    r"`palestra reverify(?: --with-failures)?(?: --judge MODEL)?((?: --only [^`]+)?)`"
)
"""A command that verifies a run again and does not name it."""


def advice_about(run: Files) -> Advice:
    """Return what completes advice about a run: as `completion_for`, and it writes the flags of a
    collection as the command takes them that collected the run.

    `run`: what names it in a command, or its outputs. Advice about anything else stays as it is.
    """
    try:
        outputs = _outputs(run)
        recorded = run_head(outputs).command
    except InputDataError:
        return str
    program = collector_program(recorded)

    def completed(advice: str) -> str:
        advice = _completed(outputs, shown, advice)
        advice = with_flags_of(program, advice, only_of_collections=True)
        return with_settings_of(recorded, advice)

    return completed


def completion_for(run: Files, spell: PathText = shown) -> Advice:
    """Return what completes advice about a run: it writes the path of the run, a new file, and the
    command that verifies the run again, where the advice leaves them open.

    `run`: as of `advice_about`. `spell`: how a command names a path.
    """
    try:
        outputs = _outputs(run)
    except InputDataError:
        return str
    return partial(_completed, outputs, spell)


def environment_options(run: Files) -> Sequence[str]:
    """Return the words with which `palestra reverify` names the environment of a run, and its judge;
    empty when they are not known.
    """
    command = completion_for(run)("`palestra reverify`").strip("`")
    words = shlex.split(command)
    return words[words.index(_OUTPUT) + 2 :] if _OUTPUT in words else []


def _outputs(run: Files) -> Sequence[Path]:
    """Return the outputs of a run, or of the shards that a glob names. Raises InputDataError."""
    if not isinstance(run, str | Path):
        return [Path(output) for output in run]
    try:
        return outputs_of(run)
    except InputDataError:
        return rollout_files(run)


def _completed(outputs: Sequence[Path], spell: PathText, advice: str) -> str:
    if SELECT_FAILED in advice:
        advice = advice.replace(SELECT_FAILED, _select_failed(outputs, spell))
    if len(outputs) != 1:
        return advice
    [output] = outputs
    advice = advice.replace(STEM, spell(output.with_name(bare_name(output)).with_suffix("")))
    if _REVERIFY.search(advice) and (command := command_of_run(output)) is not None:
        advice = _REVERIFY.sub(lambda match: f"`{command.text}{match[1]}`", advice)
    return with_files_of(output, advice, spell)


def _select_failed(outputs: Sequence[Path], spell: PathText) -> str:
    """Return the command that writes the tasks without a score to a file that does not exist."""
    stem = Path(bare_name(RunPaths.for_files(outputs).output)).stem
    file = unused(outputs[0].parent / f"{stem}_again.jsonl", lambda path: (path,))
    run = spell(Path(argument_of(outputs)))
    return shlex.join(("palestra", "select", run, "--failed", "--out", spell(file)))
