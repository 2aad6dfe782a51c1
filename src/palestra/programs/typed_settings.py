"""Writes the overrides in advice as the command takes them that the advice is about.

A command that has a flag for a setting refuses an override that contradicts the flag. So the advice
names the flag: `palestra eval --max-output-tokens N`, and not `++responses_create_params.max_output_tokens=N`.
"""

import re
from collections.abc import Sequence
from functools import partial
from typing import Final

from palestra.programs.collectors import CALLS, collector_of
from palestra.programs.gym_commands import command_at
from palestra.programs.sentences import PALESTRA

_SAMPLING: Final = "responses_create_params."
_OVERRIDE: Final = re.compile(
    rf"\+\+(?P<setting>{re.escape(_SAMPLING)}\w+|policy_(?:base_url|model_name|api_key))"
    r"=(?P<value>[^\s;,()`]+)"
)
_FLAGS_OF_EVAL: Final = {
    f"{_SAMPLING}max_output_tokens": "--max-output-tokens",
    f"{_SAMPLING}temperature": "--temperature",
}
"""The parameters of requests that are flags of `palestra eval`."""
_MODEL: Final = "--model"


def with_settings_of(command: str, text: str) -> str:
    """Return `text` with its overrides as the users of `command` give these settings: by the flag of
    the command, or as an argument in Python. An override stays where the command has an override of
    this setting, or no flag for it.

    `command`: a command line, or a call of Python, as runs record it.
    """
    if "++" not in text:
        return text
    if command.startswith(CALLS):
        return _OVERRIDE.sub(_as_argument, text)
    program, words = collector_of(command)
    return _OVERRIDE.sub(partial(_as_flag, program, words), text) if program else text


def _as_argument(override: re.Match[str]) -> str:
    setting, value = override["setting"], override["value"]
    if setting.startswith(_SAMPLING):
        return f'sampling={{"{setting.removeprefix(_SAMPLING)}": {value}}}'
    return override[0]


def _as_flag(program: Sequence[str], words: Sequence[str], override: re.Match[str]) -> str:
    setting, value = override["setting"], override["value"]
    if any(word.lstrip("+").startswith(f"{setting}=") for word in words):
        return override[0]
    if program[0] != PALESTRA or "gym" in program:
        gym = command_at("eval", "run") if "eval" in program else None
        flags = [flag.names[0] for flag in gym.flags if flag.setting == setting] if gym else []
        return f"{flags[0]} {value}" if flags else override[0]
    if "eval" in program and setting in _FLAGS_OF_EVAL:
        return f"{_FLAGS_OF_EVAL[setting]} {value}"
    return _in_model(_value_of(_MODEL, words), setting, value) or override[0]


def _in_model(model: str, setting: str, value: str) -> str:
    """Return `--model` with another name or URL than in `model`; empty when `model` has none."""
    provider, colon, name = model.partition(":")
    name, at, url = name.rpartition("@") if "@http" in name else (name, "", "")
    if name.startswith("http"):
        name, url = "", name
    if setting == "policy_model_name" and name:
        return f"{_MODEL} {provider}{colon}{value}{at}{url}"
    if setting == "policy_base_url" and url:
        return f"{_MODEL} {provider}{colon}{name}{at}{value}"
    return ""


def _value_of(flag: str, words: Sequence[str]) -> str:
    """Return the value of `flag` in a command line; empty when the flag is not there."""
    for word, following in zip(words, (*words[1:], ""), strict=True):
        name, equals, value = word.partition("=")
        if name == flag:
            return value if equals else following
    return ""
