"""The commands that turn profiles into decisions: `compare`, `select`, `scores`."""

import typer

from palestra.cli.console import guarded
from palestra.cli.flags import Flags, settings_command


def register(app: typer.Typer) -> None:
    """Add the commands to `palestra`."""
    settings_command(app, "palestra.cli.comparing:CompareArgs")(compare)
    settings_command(app, "palestra.cli.selecting:SelectArgs")(select)
    settings_command(app, "palestra.cli.scoring:ScoresArgs")(scores)


def compare(flags: Flags) -> None:
    """Whether run B beats run A, task by task: interval, test, regressions, what is missing.

    The materialized inputs and the failures of a run are found by name beside its rollouts.
    """

    def command() -> int:
        from palestra.cli.comparing import CompareArgs, compare_runs
        from palestra.cli.settings import args_from

        return compare_runs(args_from(CompareArgs, flags))

    guarded(command)


def select(flags: Flags) -> None:
    """Export tasks that are neither too easy nor too hard, as a dataset to collect again.

    Rollouts without a reward never count as difficulty. Beside the output, a provenance file says
    for every row where it comes from and how sure its pass rate is.
    """

    def command() -> int:
        from palestra.cli.selecting import SelectArgs, select_tasks
        from palestra.cli.settings import args_from

        return select_tasks(args_from(SelectArgs, flags))

    guarded(command)


def scores(flags: Flags) -> None:
    """The table of the field: pass@1, maj@k, pass@k in percent, mean ± error over seeds."""

    def command() -> int:
        from palestra.cli.scoring import ScoresArgs, show_scores
        from palestra.cli.settings import args_from

        return show_scores(args_from(ScoresArgs, flags))

    guarded(command)
