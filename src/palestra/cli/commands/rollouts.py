"""`palestra eval`, `collect`: the commands that make rollouts."""

import typer

from palestra.cli.console import guarded
from palestra.cli.flags import Configs, Flags, Overrides, settings_command, with_configs


def register(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    settings_command(app, "CollectArgs", required=False)(collect)
    settings_command(app, "EvalArgs", "RunArgs", name="eval")(evaluate)


def collect(flags: Flags, configs: Configs = None, overrides: Overrides = None) -> None:
    """Run rows through agents and record how each rollout ends. Same as ng_collect_rollouts.

    Uses the running fleet; when none runs, the servers of --config start inside this command.
    """
    from palestra.cli.collecting import collect as collect_rollouts

    guarded(lambda: collect_rollouts(with_configs(configs, overrides), ng=False, extra=flags))


def evaluate(flags: Flags, overrides: Overrides = None) -> None:
    """Run one environment against one model and profile it, all in this process."""

    def command() -> int:
        from palestra.cli.evaluating import evaluate as evaluate_environment
        from palestra.settings import EvalArgs, args_from

        fields = {name: flags.pop(name) for name in EvalArgs.model_fields if name in flags}
        args = args_from(EvalArgs, {**fields, "collecting": flags})
        return evaluate_environment(args, overrides or [])

    guarded(command)
