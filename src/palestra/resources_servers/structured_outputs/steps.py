"""The steps that what a model wrote can make slow, and the program that runs one of them.

Imports nothing of ours: `limited_child.py` runs this file in a process of its own, which reads a JSON
array (the step's name and what it needs) and prints a JSON object.
"""

import json
import resource
import sys
import tomllib
from itertools import islice
from typing import Any, Final

from jsonschema_rs import FancyRegexOptions, RegexOptions, ValidationError, validator_for

CPU_LIMIT_S: Final = 2
MEMORY_LIMIT: Final = 1 << 30
LONGEST_MESSAGE: Final = 300
MASK: Final = "the value"
"""Stands for the value in messages: it may be a whole document."""


def problem_of(schema: Any, value: Any, *, backtracking: bool = False) -> str | None:
    """What is wrong with a value, in a sentence with its place; None when it is valid."""
    validator = made_validator(schema, backtracking=backtracking)
    if validator.is_valid(value):
        return None
    errors = islice(validator.iter_errors(value), 1)
    return next((sentence(error) for error in errors), "not valid")


def made_validator(schema: Any, *, backtracking: bool = False) -> Any:
    """A validator that fetches nothing.

    `backtracking` allows patterns that look around, whose search may be slow; without it they
    are refused. Raises ValidationError or ValueError for what is no schema.
    """
    patterns = FancyRegexOptions() if backtracking else RegexOptions()
    return validator_for(schema, pattern_options=patterns, retriever=_refuse, mask=MASK)


def sentence(error: ValidationError) -> str:
    """An error with its place, cut to a length that one wants to read."""
    place = "".join(f"/{step}" for step in error.instance_path)
    return f"{place or 'the whole'}: {error.message}"[:LONGEST_MESSAGE]


def toml_value(text: str) -> Any:
    """The JSON value of a TOML document, dates and times as text.

    Raises ValueError, RecursionError or MemoryError for one that is none.
    """
    told = json.dumps(tomllib.loads(text), default=_isoformat, allow_nan=False)
    return json.loads(told)


def _refuse(uri: str) -> Any:
    raise ValueError(f"{uri} is outside of the schema, and nothing is fetched")


def _isoformat(moment: Any) -> str:
    return str(moment.isoformat())


def _main() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_LIMIT_S, CPU_LIMIT_S + 1))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    step, *given = json.load(sys.stdin)
    try:
        if step == "toml":
            answer = {"value": toml_value(*given)}
        else:
            answer = {"value": problem_of(*given, backtracking=True)}
    except (ValueError, RecursionError, MemoryError) as error:
        answer = {"refused": str(error)[:LONGEST_MESSAGE] or type(error).__name__}
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    _main()
