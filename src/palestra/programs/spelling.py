"""The program that the user called, and how a hint writes Palestra's commands for its users.

Hints quote commands as `palestra` spells them. A user of `gym`, `ng` or `ng_*` reads the command
that has the same work there. A command stays as it is when there is none, or when one of its flags
is missing there. Quoted overrides become the flags that `gym eval run` has for them. Flags, quoted or
in the middle of a sentence, become the overrides that `ng_*` takes. For `gym`, flags that it lacks do.
A user of Python reads the arguments of the function.
"""

import re
import sys
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, get_args

from palestra.programs.gym_commands import COMMANDS, command_at
from palestra.programs.gym_selectors import flag_of_override

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

PALESTRA: Final = "palestra"
GYM: Final = "gym"
PYTHON: Final = "python"
"""Calls of `palestra.evaluate` and `palestra.collect`, as a program."""
_OUR_PROGRAMS: Final = frozenset({PALESTRA, "__main__.py"})
_GYM_PROGRAMS: Final = frozenset({GYM, "ng"})
_FIELD_PREFIXES: Final = ("ng_", "nemo_gym_")
"""How the names of NeMo Gym's older programs start, which Palestra has too."""
_ARGUMENTS: Final = {
    "agent_name": "agent",
    "config_paths": "configs",
    "input": "data",
    "learnability": "by_learnability",
    "input_jsonl_fpath": "data",
    "num_repeats": "repeats",
    "num_samples_in_parallel": "concurrency",
    "out": "path",
    "output_jsonl_fpath": "output",
    "responses_create_params": "sampling",
    "resume_from_cache": "resume",
    "rollout_timeout": "rollout_timeout_s",
    "target": "environment",
    "timeout": "timeout_s",
}
"""The settings and the flags that Python's functions call by another name."""
_OF_COLLECTIONS: Final = frozenset(
    {"concurrency", "limit", "max_attempts", "output", "repeats", "resume", "rollout_timeout_s"}
)
"""The arguments that `evaluate` and `collect` share."""
_SWITCHES: Final = frozenset(
    {
        *("allow_different_rows", "allow_partial", "allow_unmatched", "decided_only", "failed"),
        *("fresh_judge", "overwrite", "resume", "with_failures"),
    }
)
"""The arguments that are True or False."""
_STARTS_AGAIN: Final = re.compile(
    r"start again(?: with --overwrite"
    r"|: `--on-stale restart` \(or `--overwrite`\) moves the files of that run to names with \.bak)"
)
"""Advice to replace a run, which `evaluate` and `collect` do not do."""
_FUNCTIONS: Final = {
    "diagnose": "Run.diagnose()",
    "diagnose RUN": "Run.diagnose()",
    "runs": "palestra.runs()",
}
"""The functions with the work of a command."""
_OVERRIDES_TOO: Final = re.compile(r" \(or `\+[^`]+`\)")
"""The overrides that do the same as a flag."""
_QUOTED_OVERRIDES: Final = re.compile(r"`(\+[^`]+)`")
_QUOTED_FLAGS: Final = re.compile(r"`(--[a-z][^`]*)`")
_QUOTED: Final = re.compile(rf"`{PALESTRA} ([^`]+)`")
_NAMED_FLAG: Final = re.compile(
    r"(?<![\w-])(--[a-z][a-z-]*)\b"
    r"(?:[ =](?P<value>[A-Z]+(?:/[A-Z]+)?\b|\d+(?!\w|\.\w)|auto\b|restart\b|-(?!\S)))?"
)
"""A flag in the middle of a sentence, and its value."""
_CLAUSES: Final = re.compile(r"(; |\n)")
_BARE_COMMAND: Final = re.compile(
    r"\b(?:(?:palestra|gym|ng|docker|pip|podman|ray|uv|vllm) [a-z]|(?:salloc|sbatch|srun) )"
)
"""The start of a command outside of quotes, also of another program. The flags of its clause are its
own."""


def typed_program() -> str:
    """Return the program that the user called, such as `gym`, `palestra gym` or `ng_run`."""
    name = Path(sys.argv[0]).name
    if name in _OUR_PROGRAMS:
        return f"{PALESTRA} {GYM}" if sys.argv[1:2] == [GYM] else PALESTRA
    return name


def has_flags(program: str) -> bool:
    """Whether the users of `program` give settings as flags of `palestra`. Those of NeMo Gym's
    programs take overrides.
    """
    return program == PALESTRA


def takes_overrides(program: str) -> bool:
    """Whether `program` is one of NeMo Gym's older programs, which have no flags."""
    return program.startswith(_FIELD_PREFIXES)


def command_words(command: str, program: str) -> str:
    """Return the words that call a command of `palestra` for users of `program`."""
    return _in_words_of(program, command) or f"{PALESTRA} {command}"


def with_commands_of(program: str, text: str) -> str:
    """Return `text` with each quoted command of `palestra` in the words of `program`, and flags as
    its users give these settings.
    """

    def quoted(match: re.Match[str]) -> str:
        words = _in_words_of(program, match[1])
        return f"`{words}`" if words else match[0]

    text = with_flags_of(program, _QUOTED.sub(quoted, text))
    return _QUOTED_OVERRIDES.sub(_as_flags, text) if _is_gym(program) else text


def with_flags_of(program: str, text: str, *, only_of_collections: bool = False) -> str:
    """Return `text` in which flags of `palestra` are given as the users of `program` do. Quoted
    commands stay as they are, and so do the flags of a clause with a command.

    `only_of_collections`: the other flags are of another program, and stay.
    """
    if program == PYTHON:
        return with_arguments(text, _OF_COLLECTIONS)
    if not (_is_gym(program) or takes_overrides(program)):
        return text

    def changed(flag: str, value: str) -> str:
        if only_of_collections and not _is_of_collections(flag):
            return ""
        return _flag_of(program, flag, value)

    return _with_flags(text, changed)


def argument_of(setting: str) -> str:
    """Return how Python's functions name a setting: `sampling.temperature` for
    `responses_create_params.temperature`.
    """
    name, dot, key = setting.partition(".")
    return f"{_ARGUMENTS.get(name, name)}{dot}{key}"


def with_arguments(text: str, names: Collection[str]) -> str:
    """Return `text` for users of a function of Python with arguments of these names: flags are its
    arguments, and some quoted commands are functions.
    """

    def changed(flag: str, value: str) -> str:
        name = argument_of(flag.removeprefix("--").replace("-", "_"))
        if name not in names:
            return ""
        if name in _SWITCHES:
            return f"{name}=True {value}".rstrip()
        return f"{name}={value}" if value else name

    def quoted(match: re.Match[str]) -> str:
        function = _FUNCTIONS.get(match[1])
        return f"`{function}`" if function else match[0]

    if "overwrite" not in names:
        text = _STARTS_AGAIN.sub("choose another output", text)
    return _with_flags(_QUOTED.sub(quoted, _OVERRIDES_TOO.sub("", text)), changed)


def _with_flags(text: str, changed: Callable[[str, str], str]) -> str:
    """Return `text` with each flag as `changed` writes it, with its value; where this is empty, the
    flag stays.
    """

    def flag(match: re.Match[str]) -> str:
        return changed(match[1], match["value"] or "") or match[0]

    def flags(match: re.Match[str]) -> str:
        parts = [part.partition(" ") for part in re.split(r"(?:^| )(?=--)", match[1]) if part]
        words = [changed(name, value) for name, _, value in parts]
        return f"`{' '.join(words)}`" if all(words) else match[0]

    parts = _QUOTED_FLAGS.sub(flags, text).split("`")
    for at in range(0, len(parts), 2):
        clauses = _CLAUSES.split(parts[at])
        parts[at] = "".join(
            clause if _BARE_COMMAND.search(clause) else _NAMED_FLAG.sub(flag, clause)
            for clause in clauses
        )
    return "`".join(parts)


def _flag_of(program: str, flag: str, value: str) -> str:
    """Return a flag of `palestra` as users of `program` give it, with its value; empty when they
    cannot.
    """
    if _is_gym(program) and (name := _flag_of_gym(flag)):
        return f"{name} {value}".rstrip()
    from palestra.settings import settings_by_flag

    name, field = settings_by_flag().get(flag, ("", None))
    if field is None:
        return "+config_paths=[FILE]" if flag == "--config" else ""
    if field.annotation is bool:
        return f"+{name}=true {value}".rstrip()
    return f"+{name}={value or _placeholder(name, field)}"


def _is_of_collections(flag: str) -> bool:
    """Whether a flag of `palestra` is one of a collection."""
    from palestra.settings import CollectArgs, settings_by_flag

    return settings_by_flag().get(flag, ("", None))[0] in CollectArgs.model_fields


def _placeholder(name: str, field: "FieldInfo") -> str:
    """Return what stands for a value that a hint leaves open."""
    from palestra.config import Flag

    if metavar := next((item.metavar for item in field.metadata if isinstance(item, Flag)), None):
        return metavar
    if {*get_args(field.annotation), field.annotation} & {int, float}:
        return "N"
    return "FILE" if name.endswith("_fpath") else "VALUE"


def _flag_of_gym(flag: str) -> str:
    """Return the flag of `gym` for a flag of `palestra`; empty when there is none. A flag of a
    collection is one of `gym eval run`.
    """
    from palestra.settings import settings_by_flag

    name, _ = settings_by_flag().get(flag, ("", None))
    run = command_at("eval", "run")
    commands = [run] if run and _is_of_collections(flag) else COMMANDS
    flags = [flag_of_gym for command in commands for flag_of_gym in command.flags]
    names = [name for flag_of_gym in flags for name in flag_of_gym.names if name == flag]
    same = [flag_of_gym.names[0] for flag_of_gym in flags if name and flag_of_gym.setting == name]
    return next(iter((*names, *same)), "")


def _as_flags(overrides: re.Match[str]) -> str:
    """Return quoted overrides as the flags that `gym eval run` has for them. Another override stays
    as it is.
    """
    run = command_at("eval", "run")
    flags = {flag.setting: flag.names[0] for flag in run.flags if flag.setting} if run else {}
    words = []
    for word in overrides[1].split():
        name, equals, value = word.lstrip("+").partition("=")
        flag = f"{flags[name]} {value}" if equals and name in flags else flag_of_override(word)
        words.append(flag or word)
    return f"`{' '.join(words)}`"


def _is_gym(program: str) -> bool:
    return program in _GYM_PROGRAMS or program == f"{PALESTRA} {GYM}"


def _in_words_of(program: str, command: str) -> str:
    """Return the same command for users of `program`; empty when it has none."""
    name, dash, flags = command.partition(" -")
    if _is_gym(program):
        words, known_flags = _gym_command(name)
        typed_flags = {word for word in f"{dash}{flags}".split() if word.startswith("-")}
        return f"{program} {words}{dash}{flags}" if words and typed_flags <= known_flags else ""
    prefix = next((prefix for prefix in _FIELD_PREFIXES if program.startswith(prefix)), "")
    field_name = _field_names().get(name, "") if prefix and not dash else ""
    return field_name.replace("ng_", prefix, 1) if field_name else ""


def _gym_command(name: str) -> tuple[str, frozenset[str]]:
    """Return the words and the flags of the `gym` command that does what `palestra NAME` does."""
    for command in COMMANDS:
        if name in command.same_as:
            return command.words, frozenset(n for flag in command.flags for n in flag.names)
    return "", frozenset()


def _field_names() -> Mapping[str, str]:
    """Return the `ng_*` program of each command of `palestra` that has one."""
    return {
        name: field_name
        for command in COMMANDS
        for name, field_name in zip(
            command.same_as, re.findall(r"ng_\w+", command.replaces), strict=False
        )
    }
