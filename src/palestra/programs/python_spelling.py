"""How messages and hints read for users of Python's functions: flags are arguments, and commands are
calls.
"""

import re
import shlex
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from palestra.programs.sentences import PALESTRA, QUOTED_COMMAND, with_each_flag

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
    "set": "settings",
    "target": "environment",
    "timeout": "timeout_s",
}
"""The settings and the flags that Python's functions call by another name."""
OF_COLLECTIONS: Final = frozenset(
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
CALLS: Final[Mapping[str, frozenset[str]]] = {
    "compare": frozenset({"allow_unmatched", "allow_different_rows"}),
    "diagnose": frozenset(),
    "merge": frozenset({"allow_partial", "overwrite"}),
    "profile": frozenset({"group_by"}),
    "reverify": frozenset(
        {
            *("output", "environment", "fresh_judge", "judge", "limit", "only", "concurrency"),
            *("timeout_s", "overwrite", "resume"),
        }
    ),
    "runs": frozenset(),
    "scores": frozenset({"k", "allow_unmatched", "allow_different_rows"}),
    "select": frozenset(
        {
            *("min_rollouts", "max_tokens", "by_learnability", "decided_only", "solved_at"),
            *("limit", "failed"),
        }
    ),
}
"""The commands whose work a function or a method of a run does, by the same name, and the arguments
that the command has as flags."""
_OF_A_RUN: Final = frozenset({"diagnose", "profile", "reverify", "select"})
_ALWAYS: Final[Mapping[str, str]] = {"profile": "allow_partial", "reverify": "with_failures"}
"""The switches that a method has on by default."""
_RUN: Final = "RUN"
"""What stands for a run in a command."""
_AGAIN: Final = re.compile(
    r"; or start again: `--on-stale restart` \(or `--overwrite`\) moves the files of that run to names with \.bak"
)
"""Advice to replace a run, which `evaluate` and `collect` do not do."""
_OVERWRITES: Final = re.compile(r"start again with --overwrite")
_OVERRIDES_TOO: Final = re.compile(r" \(or `\+[^`]+`\)")
"""The overrides that do the same as a flag."""
_NUMBER: Final = re.compile(r"-?\d+(?:\.\d+)?")
_SEPARATOR: Final = "; "
"""What is between the clauses of a hint."""


def argument_of(setting: str) -> str:
    """Return how Python's functions name a setting: `sampling.temperature` for
    `responses_create_params.temperature`.
    """
    name, dot, key = setting.partition(".")
    return f"{_ARGUMENTS.get(name, name)}{dot}{key}"


def with_arguments(text: str, names: Collection[str]) -> str:
    """Return `text` for users of a function of Python with arguments of these names: flags are its
    arguments. Other flags stay.
    """

    def changed(flag: str, value: str) -> str:
        name = _argument_of_flag(flag)
        if name not in names:
            return ""
        if name in _SWITCHES:
            return f"{name}=True {value}".rstrip()
        return f"{name}={_literal(value)}" if value else name

    if "overwrite" not in names:
        text = _OVERWRITES.sub("choose another output", _AGAIN.sub("", text))
    return with_each_flag(_OVERRIDES_TOO.sub("", text), changed, separator=", ")


def hint_with_arguments(hint: str, names: Collection[str]) -> str:
    """Return a hint for users of a function of Python with arguments of these names.

    Commands that a function does are its calls. Clauses about a flag that the function lacks are left
    out: there is nothing that its users could do.
    """
    hint = QUOTED_COMMAND.sub(lambda match: f"`{_call_of(match[1]) or match[0][1:-1]}`", hint)
    clauses = with_arguments(hint, names).split(_SEPARATOR)
    return _SEPARATOR.join(clause for clause in clauses if not any(_flags_in(clause)))


def _flags_in(clause: str) -> Iterator[str]:
    """Yield the flags of `palestra` in a clause, also those in quotes; not those of a command."""
    from palestra.settings import settings_by_flag

    flags: list[str] = []

    def note(flag: str, _value: str) -> str:
        flags.append(flag)
        return ""

    with_each_flag(clause, note)
    yield from (flag for flag in flags if flag in settings_by_flag())


def _argument_of_flag(flag: str) -> str:
    return argument_of(flag.removeprefix("--").replace("-", "_"))


def _literal(value: str) -> str:
    """Return a value of a command line as Python writes it: a number, a name such as `N` that stands
    for a value, or a text. `{name}` stands for a value of a phrase.
    """
    if value.startswith("{"):
        return f"{value[:-1]}!r}}"
    is_name = value.isidentifier() and value.isupper()
    return value if is_name or _NUMBER.fullmatch(value) else repr(value)


def _call_of(command: str) -> str:
    """Return the call of Python that does the work of a command of `palestra`; empty when there is
    none, or when it cannot have one of the words.
    """
    try:
        name, *words = shlex.split(command)
    except ValueError:
        return ""
    values, arguments = _arguments_of(words)
    values += arguments.pop("rollouts", [])
    path = arguments.pop("path", []) if name == "select" else []
    arguments.pop(_ALWAYS.get(name, ""), None)
    if name not in CALLS or arguments.keys() - CALLS[name] or len(values) > (name in _OF_A_RUN):
        return ""
    call = f"{name}({', '.join(_written(arguments))})"
    if name not in _OF_A_RUN:
        return f"{PALESTRA}.{call}"
    run = "Run" if values in ([], [_RUN]) else f"{PALESTRA}.open_run({values[0]})"
    return ".".join([run, call, *(f"save({file})" for file in path)])


def _arguments_of(words: list[str]) -> tuple[list[str], dict[str, list[str]]]:
    """Return the values of a command without a flag, and those of each flag by its argument, as Python
    writes them. A short flag and an override are values of no argument.
    """
    values: list[str] = []
    arguments: dict[str, list[str]] = {}
    remaining_words = iter(words)
    for word in remaining_words:
        if word.startswith("--"):
            name = _argument_of_flag(word)
            value = "True" if name in _SWITCHES else _literal(next(remaining_words, ""))
            arguments.setdefault(name, []).append(value)
        elif word.startswith(("-", "+", "~")) or "=" in word:
            arguments[word] = []
        else:
            values.append(_literal(word))
    return values, arguments


def _written(arguments: Mapping[str, list[str]]) -> list[str]:
    """Return arguments as a call has them. `only` takes a list."""
    return [
        f"{name}=[{', '.join(values)}]" if name == "only" else f"{name}={values[0]}"
        for name, values in arguments.items()
    ]
