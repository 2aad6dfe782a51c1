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
from palestra.programs import collector_program, with_flags_of, with_settings_of
from palestra.rollouts import (
    argument_of,
    options_of_reverify,
    outputs_of,
    unused_reverified,
)
from palestra.schema import SELECT_FAILED, RunPaths, bare_name
from palestra.system import shown, unused

_VERIFIED_FILES: Final = re.compile(
    r"--rollouts (?P<rollouts>'[^']*'|[^\s'`]+) --with-failures --output (?:'[^']*'|[^\s'`]+)"
)
"""The files of the run in a command of `reverify_command`."""
_FILE_OPTION: Final = re.compile(r"(--(?:config|environment) )('[^']*'|[^\s'`]+)")
_FILES: Final = frozenset({".py", ".yaml", ".yml"})
_FILE_LIST: Final = re.compile(r"(config_paths=\[)([^\]]*)")
_PLAIN: Final = re.compile(r"[\w./:@+-]+")
"""A path that needs quotes neither in a shell nor in an override."""


Advice = Callable[[str], str]
"""Completes advice about one run."""


def advice_about(run: Files) -> Advice:
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
    return partial(_completed, outputs, recorded)


def _outputs(run: Files) -> Sequence[Path]:
    """Return the outputs of a run, or of the shards that a glob names. Raises InputDataError."""
    if not isinstance(run, str | Path):
        return [Path(output) for output in run]
    try:
        return outputs_of(run)
    except InputDataError:
        return rollout_files(run)


def _completed(outputs: Sequence[Path], recorded: str, advice: str) -> str:
    if SELECT_FAILED in advice:
        advice = advice.replace(SELECT_FAILED, _select_failed(outputs))
    if len(outputs) == 1:
        advice = _with_files_from_here(outputs[0], advice)
        advice = _VERIFIED_FILES.sub(partial(_of_this_run, outputs[0]), advice)
    advice = with_flags_of(collector_program(recorded), advice, only_of_collections=True)
    return with_settings_of(recorded, advice)


def _with_files_from_here(output: Path, advice: str) -> str:
    """Return advice whose recorded command names its config files and its environment as seen from
    the working directory. It was recorded in the folder in which the run was collected.
    """
    recorded = _VERIFIED_FILES.search(advice)
    folder = None if recorded is None else _folder_of(output, recorded)
    if folder is None or folder == Path.cwd():
        return advice

    def in_option(option: re.Match[str]) -> str:
        (word,) = shlex.split(option[2])
        return option[1] + shlex.quote(_from_here(folder, word))

    def in_list(listed: re.Match[str]) -> str:
        return listed[1] + ",".join(_from_here(folder, word) for word in listed[2].split(","))

    return _FILE_LIST.sub(in_list, _FILE_OPTION.sub(in_option, advice))


def _folder_of(output: Path, recorded: re.Match[str]) -> Path | None:
    """Return the folder from which a recorded command named this output; None when it cannot be
    known, because the path is absolute or the run was moved.
    """
    parts = Path(*shlex.split(recorded["rollouts"])).parts
    all_parts = output.absolute().parts
    return Path(*all_parts[: -len(parts)]) if all_parts[-len(parts) :] == parts else None


def _from_here(folder: Path, word: str) -> str:
    """Return a file of `folder` as seen from the working directory; anything else as it is."""
    file, colon, class_name = word.partition(":")
    path = folder / file
    if (Path(file).suffix not in _FILES and "/" not in file) or not path.exists():
        return word
    typed = f"{shown(path)}{colon}{class_name}"
    return typed if _PLAIN.fullmatch(typed) else word


def _of_this_run(output: Path, recorded: re.Match[str]) -> str:
    """Return the files of a recorded `reverify` command; those of `output` when the run was moved or
    copied since. Where an earlier re-verification wrote, a name that is not used.
    """
    (rollouts,) = shlex.split(recorded["rollouts"])
    reverified = unused_reverified(output)
    is_first = reverified == RunPaths(output).reverified
    if is_first and Path(rollouts).absolute() == output.absolute():
        return recorded[0]
    return shlex.join(options_of_reverify(output, reverified=reverified))


def _select_failed(outputs: Sequence[Path]) -> str:
    """Return the command that writes the tasks without a score to a file that does not exist."""
    stem = Path(bare_name(RunPaths.for_files(outputs).output)).stem
    file = unused(outputs[0].parent / f"{stem}_again.jsonl", lambda path: (path,))
    run = shown(Path(argument_of(outputs)))
    return shlex.join(("palestra", "select", run, "--failed", "--out", shown(file)))
