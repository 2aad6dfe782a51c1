"""The flags of the commands about a fleet and its host, and of `eval` and `collect`."""

from typing import TYPE_CHECKING

import typer

from palestra.cli.console import guarded
from palestra.cli.flags import (
    AS_JSON,
    Configs,
    Flags,
    JsonFlag,
    Overrides,
    run,
    settings_command,
    with_configs,
)

if TYPE_CHECKING:
    from palestra.settings import ModelArgs


def register(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    settings_command(app, "ModelArgs", name="run")(run_fleet)
    settings_command(app, "ServeRolloutsArgs", "ModelArgs", name="serve-rollouts")(serve_rollouts)
    settings_command(app, "StatusArgs")(status)
    app.command()(config)
    settings_command(app, "PipListArgs", name="pip-list")(pip_list)
    app.command()(version)
    settings_command(app, "CollectArgs", "ModelArgs", "JsonArgs", required=False)(collect)
    settings_command(app, "EvalArgs", "RunArgs", name="eval")(evaluate)


def run_fleet(flags: Flags, configs: Configs = None, overrides: Overrides = None) -> None:
    """Start every server of the configuration, and serve until Ctrl-C. Same as ng_run."""

    def command() -> int:
        from palestra.cli.environment_flags import with_models
        from palestra.cli.fleet_commands import run_fleet as serve

        words = _overrides("run", configs, overrides)
        words, extra = with_models(_models(flags), words, {})
        return serve(words, ng=False, extra=extra)

    guarded(command)


def serve_rollouts(flags: Flags, configs: Configs = None, overrides: Overrides = None) -> None:
    """Serve rollouts over HTTP to any trainer, until Ctrl-C.

    Clients send the token that is in PALESTRA_ROLLOUTS_TOKEN, which is required when other machines
    can connect. GET /openapi.json describes the service.
    """

    def command() -> int:
        from palestra.cli.environment_flags import with_models
        from palestra.cli.rollout_service import serve
        from palestra.settings import ServeRolloutsArgs, args_from

        words = _overrides("serve-rollouts", configs, overrides)
        words, extra = with_models(_models(flags), words, {})
        return serve(args_from(ServeRolloutsArgs, flags), words, extra=extra)

    guarded(command)


def _overrides(command: str, configs: Configs, overrides: Overrides) -> list[str]:
    """Return the overrides of a command. Raises ConfigError: a word is none."""
    from palestra.cli.bare_words import refuse_bare_words

    words = with_configs(configs, overrides)
    refuse_bare_words(command, words)
    return words


def _models(flags: Flags) -> "ModelArgs":
    """Return the settings of the models, and remove them from `flags`."""
    from palestra.settings import ModelArgs, args_from

    fields = {name: flags.pop(name) for name in ModelArgs.model_fields if name in flags}
    return args_from(ModelArgs, fields)


def status(flags: Flags, overrides: Overrides = None) -> None:
    """Print one line per server of the running fleet. Exits 0 only if all are ready."""
    run("palestra.cli.fleet_commands:status", "StatusArgs", flags, overrides or [])


def config(
    configs: Configs = None,
    overrides: Overrides = None,
    as_json: JsonFlag = False,
) -> None:
    """Print the resolved configuration, with secrets masked. Same as ng_dump_config."""
    from palestra.cli.fleet_commands import dump_config

    guarded(
        lambda: dump_config(_overrides("config", configs, overrides), ng=False, as_json=as_json)
    )


def pip_list(flags: Flags) -> None:
    """List the packages of the environment that a server runs in. Same as ng_pip_list."""
    run("palestra.cli.packages:pip_list", "PipListArgs", flags)


def version(as_json: JsonFlag = False) -> None:
    """Print the installed version, and where it is installed."""
    from palestra.cli.installed import print_version

    guarded(lambda: print_version(as_json=as_json))


def collect(flags: Flags, configs: Configs = None, overrides: Overrides = None) -> None:
    """Run rows through agents and record how each rollout ends. Same as ng_collect_rollouts.

    Uses the running fleet. When none runs, starts the servers of --config inside this command. An
    environment in one file is a config: palestra collect shelf.py --output out.jsonl.
    """

    def command() -> int:
        from palestra.cli.collecting import collect as collect_rollouts
        from palestra.cli.environment_flags import with_models
        from palestra.errors import ConfigError

        if {"input_jsonl_fpath", "split"} <= flags.keys():
            raise ConfigError("--input and --split cannot be combined: each names the rows")
        as_json = flags.pop(AS_JSON, False)
        words = _overrides("collect", configs, overrides)
        models = _models(flags)
        words, extra = with_models(models, words, flags)
        settings = {**extra, **flags}
        return collect_rollouts(words, ng=False, extra=settings, models=models, as_json=as_json)

    guarded(command)


def evaluate(flags: Flags, overrides: Overrides = None) -> None:
    """Run one environment against one model and profile the rollouts, all in this process."""

    def command() -> int:
        from palestra.cli.evaluating import evaluate as evaluate_environment
        from palestra.settings import EvalArgs, RunArgs, args_from

        fields = {name: flags.pop(name) for name in EvalArgs.model_fields if name in flags}
        args_from(RunArgs, flags)  # before the environment is looked for
        args = args_from(EvalArgs, {**fields, "collecting": flags})
        return evaluate_environment(args, overrides or [])

    guarded(command)
