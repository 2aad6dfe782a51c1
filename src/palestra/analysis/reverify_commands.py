"""The command that verifies a run's responses again, for all that advise it: as the run's manifest
records it, else made from what the manifest says of the run.
"""

import itertools
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from palestra.analysis.run_head import environment_servers, resources_servers
from palestra.config import ENVIRONMENT_FILE
from palestra.errors import InputDataError
from palestra.programs import collector_of
from palestra.rollouts import Manifest, options_of_reverify, read_manifest, unused_reverified
from palestra.schema import JsonObject, ReverifyCommand, RunPaths
from palestra.system import shown

PathText = Callable[[Path], str]
"""Returns how a command names a path."""
_JUDGE: Final = "--judge"
_RUN_FILES: Final = re.compile(
    r"--rollouts (?P<rollouts>'[^']*'|[^\s'`]+) --with-failures --output (?:'[^']*'|[^\s'`]+)"
)
"""The files of the run in a recorded command."""
_FILE_OPTION: Final = re.compile(r"(--(?:config|environment) )('[^']*'|[^\s'`]+)")
_FILES: Final = frozenset({".py", ".yaml", ".yml"})
_FILE_LIST: Final = re.compile(r"(config_paths=\[)([^\]]*)")
_PLAIN: Final = re.compile(r"[\w./:@+-]+")
"""A path that needs quotes neither in a shell nor in an override."""


def command_of_run(output: Path) -> ReverifyCommand | None:
    """Return the command that verifies the responses of the run at `output` again; None without a
    manifest that can be read.
    """
    try:
        manifest = read_manifest(RunPaths(output).manifest)
    except InputDataError:
        return None
    return manifest.reverify or _command_from(manifest, output)


def _command_from(manifest: Manifest, output: Path) -> ReverifyCommand:
    """Return the command for a run whose manifest does not record it."""
    names = environment_arguments(manifest)
    environment = ["--environment", *names] if len(names) == 1 else []
    judge = _option_in(manifest.command, _JUDGE)
    judge_options = [_JUDGE, judge] if judge else []
    words = ["palestra", "reverify", *options_of_reverify(output), *environment, *judge_options]
    return ReverifyCommand(shlex.join(words), names_judge=bool(judge))


def _option_in(recorded: str, option: str) -> str:
    """Return the value of an option in a command that collected a run; empty without one."""
    _, words = collector_of(recorded)
    values = [word.removeprefix(f"{option}=") for word in words if word.startswith(f"{option}=")]
    pairs = itertools.pairwise(words)
    return next(iter((*values, *(value for name, value in pairs if name == option))), "")


def environment_arguments(manifest: Manifest) -> Sequence[str]:
    """Return how `palestra reverify --environment` names each of a run's environments: those of its
    agents, or all where the agents name none.
    """
    servers = environment_servers(manifest) or resources_servers(manifest)
    return list(dict.fromkeys(map(_environment_argument, servers.values())))


def environment_names(rollouts: Path) -> Sequence[str]:
    """Return the names of the environments of the run with these rollouts, as
    `environment_arguments`; none without a manifest.
    """
    try:
        return environment_arguments(read_manifest(RunPaths(rollouts).manifest))
    except InputDataError:
        return ()


def _environment_argument(server: JsonObject) -> str:
    settings = server.get("settings")
    if server.get("implementation") != ENVIRONMENT_FILE or not isinstance(settings, Mapping):
        return str(server.get("implementation"))
    class_name = settings.get("class_name")
    return f"{settings['path']}:{class_name}" if class_name else str(settings["path"])


def with_files_of(output: Path, advice: str, spell: PathText = shown) -> str:
    """Return advice whose recorded command names the files of the run at `output`, and config files
    and environments as seen from the working directory.

    The command was recorded in the folder in which the run was collected, and the run may have been
    moved or copied since. Where an earlier re-verification wrote, the command has an output that is
    not used.
    """

    def of_this_run(recorded: re.Match[str]) -> str:
        (rollouts,) = shlex.split(recorded["rollouts"])
        reverified = unused_reverified(output)
        is_first = reverified == RunPaths(output).reverified
        if is_first and spell is shown and Path(rollouts).absolute() == output.absolute():
            return recorded[0]
        return shlex.join(options_of_reverify(output, reverified=reverified, spell=spell))

    return _RUN_FILES.sub(of_this_run, _with_files_from_here(output, advice, spell))


def _with_files_from_here(output: Path, advice: str, spell: PathText) -> str:
    """Return advice whose recorded command names its config files and its environment as seen from
    the working directory.
    """
    recorded = _RUN_FILES.search(advice)
    folder = None if recorded is None else _folder_of(output, recorded)
    if folder is None or (folder == Path.cwd() and spell is shown):
        return advice

    def in_option(option: re.Match[str]) -> str:
        (word,) = shlex.split(option[2])
        return option[1] + shlex.quote(_from_here(folder, word, spell))

    def in_list(listed: re.Match[str]) -> str:
        words = listed[2].split(",")
        return listed[1] + ",".join(_from_here(folder, word, spell) for word in words)

    return _FILE_LIST.sub(in_list, _FILE_OPTION.sub(in_option, advice))


def _folder_of(output: Path, recorded: re.Match[str]) -> Path | None:
    """Return the folder from which a recorded command named this output; None when it cannot be
    known, because the path is absolute or the run was moved.
    """
    parts = Path(*shlex.split(recorded["rollouts"])).parts
    all_parts = output.absolute().parts
    return Path(*all_parts[: -len(parts)]) if all_parts[-len(parts) :] == parts else None


def _from_here(folder: Path, word: str, spell: PathText) -> str:
    """Return a file of `folder` as `spell` names it; anything else as it is."""
    file, colon, class_name = word.partition(":")
    path = folder / file
    if (Path(file).suffix not in _FILES and "/" not in file) or not path.exists():
        return word
    typed = f"{spell(path)}{colon}{class_name}"
    return typed if _PLAIN.fullmatch(typed) else word
