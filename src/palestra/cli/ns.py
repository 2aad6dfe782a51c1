"""`ns`: the command of NeMo Skills, limited to `ns nemo_gym_rollouts` and `ns run_cmd`.

The script is installed with Palestra. If NeMo Skills is installed later, its own `ns` replaces this
script. If NeMo Skills is already installed, this script calls its `ns` with the same arguments. So
in an environment with NeMo Skills, `ns` is always the command of NeMo Skills.
"""

import sys
from collections.abc import Callable
from importlib.machinery import PathFinder
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final, NoReturn

from palestra.cli.entry import exits_on_interrupt
from palestra.cli.ng import HELP, with_dashes

COMMANDS: Final = {"nemo_gym_rollouts": "rollouts", "run_cmd": "run-cmd"}


@exits_on_interrupt
def main() -> NoReturn:
    """Run `ns COMMAND …`."""
    if theirs := their_command():
        raise SystemExit(theirs())
    from palestra.cli.console import guarded, say

    command, *arguments = sys.argv[1:] or ["--help"]
    if command in HELP:
        say(f"ns COMMAND …: {', '.join(COMMANDS)}; each has --help")
        raise SystemExit(0)
    name = command.replace("-", "_")
    if name not in COMMANDS:
        guarded(lambda: _refuse(name))
    from palestra.cli.main import run_as

    # The words of a command stay as they are: its options are read up to there.
    options = arguments if name == "run_cmd" else with_dashes(arguments)
    run_as(f"ns {name}", ("cluster", COMMANDS[name]), options)


def their_command() -> Callable[[], Any] | None:
    """Return the function behind `ns` of NeMo Skills; None when NeMo Skills is not installed."""
    if PathFinder.find_spec("nemo_skills") is None:
        return None
    scripts = entry_points(group="console_scripts", name="ns")
    theirs: EntryPoint | None = next((s for s in scripts if s.module != __name__), None)
    return theirs.load() if theirs else None


def _refuse(name: str) -> int:
    from palestra.config import nearest
    from palestra.errors import ConfigError, not_provided_text

    near = nearest(name, COMMANDS, cutoff=0.0)
    missing = not_provided_text(name, "NeMo Skills'")
    raise ConfigError(
        f"{missing}: the nearest command is `{near}`",
        hint="install NeMo Skills for the rest of its commands",
    )
