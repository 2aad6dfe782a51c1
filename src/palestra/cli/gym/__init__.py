"""The `gym` command line (also `ng`, `palestra gym`): NeMo Gym's commands over Palestra's."""

from collections.abc import Sequence
from typing import NoReturn

from palestra.cli.entry import ending_imports_on_interrupt, exits_on_interrupt

__all__ = ["main", "run"]


@exits_on_interrupt
def main() -> NoReturn:
    """Run the console scripts `gym` and `ng`."""
    with ending_imports_on_interrupt():
        from palestra.cli.gym import program
    program.main()


def run(words: Sequence[str], *, program: str) -> NoReturn:
    """Run the command line `words`, and exit with its code. `program`: its name in the help."""
    from palestra.cli.gym.program import run as run_words

    run_words(words, program=program)
