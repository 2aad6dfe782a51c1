"""The commands that collect rollouts, in a command line that a run recorded."""

import shlex
from typing import Final

from palestra.programs.sentences import PALESTRA
from palestra.programs.spelling import PYTHON

_COLLECTORS: Final = (
    ("palestra", "eval"),
    ("palestra", "collect"),
    ("palestra", "gym", "eval", "run"),
    ("gym", "eval", "run"),
    ("ng", "eval", "run"),
    ("ng_collect_rollouts",),
    ("nemo_gym_collect_rollouts",),
    ("ng_e2e_collect_rollouts",),
    ("nemo_gym_e2e_collect_rollouts",),
)
"""The commands that take rows and write rollouts."""
CALLS: Final = ("palestra.evaluate(", "palestra.collect(")
"""How calls in Python that do so begin."""


def collector_of(recorded: str) -> tuple[tuple[str, ...], list[str]]:
    """Return which of `_COLLECTORS` a recorded command calls, and all its words; both empty when it is
    another one.
    """
    try:
        words = shlex.split(recorded)
    except ValueError:
        return (), []
    if words[:1] == ["__main__.py"]:  # python -m palestra
        words[0] = PALESTRA
    program = next((start for start in _COLLECTORS if tuple(words[: len(start)]) == start), ())
    return (program, words) if program else ((), [])


def collector_program(recorded: str) -> str:
    """Return the program that a recorded command calls, as `with_flags_of` takes it: `python` for a
    call in Python, and `palestra` for a command that collects no rollouts.
    """
    if recorded.startswith(CALLS):
        return PYTHON
    words, _ = collector_of(recorded)
    return " ".join(words[:2] if words[1:2] == ("gym",) else words[:1]) or PALESTRA
