"""The command that collects other rows in the same way as a recorded command."""

import shlex
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Final

from palestra.cli.gym.grammar import HELP, JSON, VERBOSE
from palestra.programs import EVAL as GYM_EVAL
from palestra.programs import FlagKind, collector_of, takes_overrides
from palestra.schema import RunPaths
from palestra.settings import CollectArgs, EvalArgs, flags_of
from palestra.system import shown, unused

_OF_OTHER_ROWS: Final = frozenset(
    {
        *("input", "output", "rows", "seed"),  # of `eval`
        *("input_jsonl_fpath", "output_jsonl_fpath", "limit", "split", "shard"),
        *("resume_from_cache", "overwrite", "on_stale", "prompt_config", "json_events"),
    }
)
"""The settings that are about the rows or the files of the earlier run."""
_INPUT, _OUTPUT = "input_jsonl_fpath", "output_jsonl_fpath"
_END_OF_FLAGS: Final = "--"


def command_for(recorded: str, rows: Path) -> str:
    """Return the command line `recorded` with `rows` as its input and an output that does not exist.

    `palestra eval` without an output makes a folder itself. Empty when `recorded` is no command that
    collects rollouts, such as a call in Python.
    """
    program, words = collector_of(recorded)
    if not program:
        return ""
    items = list(_items(words[len(program) :]))
    other_words = [
        word for name, item in items if name not in _names_of_old_rows() for word in item
    ]
    settings = [(_INPUT, "--input", rows)]
    if program != ("palestra", "eval") or any(name in _output_names() for name, _ in items):
        settings.append((_OUTPUT, "--output", _new_output(rows)))
    if takes_overrides(program[0]):
        added = [f"+{name}={shown(path)}" for name, _, path in settings]
    else:
        added = [word for _, flag, path in settings for word in (flag, shown(path))]
    return shlex.join([*program, *other_words, *added])


def _items(words: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield the flags and overrides of a command line, each with its name and all its words. The
    name of any other word is empty.
    """
    switches = _switches()
    remaining = iter(words)
    for word in remaining:
        name, equals, _ = word.partition("=")
        if word.startswith("-"):
            is_short = not word.startswith("--")
            has_value = word in switches or equals or (is_short and len(word) > len("-o"))
            value = [] if has_value else list(islice(remaining, 1))
            yield (word[:2] if is_short else name), [word, *value]
        else:
            is_override = equals or word.startswith(("+", "~"))
            yield (name.lstrip("+~") if is_override else ""), [word]


def _switches() -> frozenset[str]:
    """Return the flags without a value of all commands that collect rollouts."""
    of_models = (
        flag
        for model in (CollectArgs, EvalArgs)
        for name, setting in model.model_fields.items()
        if setting.annotation is bool
        for flag in flags_of(model, name)
    )
    of_gym = (
        flag
        for command in GYM_EVAL
        for gym_flag in command.flags
        if gym_flag.kind is FlagKind.SWITCH
        for flag in gym_flag.names
    )
    return frozenset({*of_models, *of_gym, *HELP, *VERBOSE, JSON, _END_OF_FLAGS})


def _names_of_old_rows() -> frozenset[str]:
    """Return the settings of `_OF_OTHER_ROWS` and their flags."""
    flags = (
        flag
        for model in (CollectArgs, EvalArgs)
        for name in _OF_OTHER_ROWS & model.model_fields.keys()
        for flag in flags_of(model, name)
    )
    return _OF_OTHER_ROWS.union(flags)


def _output_names() -> frozenset[str]:
    return frozenset({*flags_of(EvalArgs, "output"), _OUTPUT})


def _new_output(rows: Path) -> Path:
    """Return an output beside `rows` of which no file exists."""
    output = rows.with_name(f"{rows.stem}_rollouts.jsonl")
    return unused(output, lambda path: RunPaths(path).recorded())
