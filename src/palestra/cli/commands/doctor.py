"""`palestra doctor`: the examination before a run, with the very flags of `collect`."""

import inspect
from typing import Annotated, Any, Final

import typer

from palestra.cli.commands.rollouts import collect
from palestra.cli.console import guarded
from palestra.cli.options import given, with_configs

SETTINGS: Final = {
    "input_path": "input_jsonl_fpath",
    "output": "output_jsonl_fpath",
    "agent": "agent_name",
    "concurrency": "num_samples_in_parallel",
    "resume": "resume_from_cache",
}
"""Flags of `collect` whose settings have other names."""


def register(app: typer.Typer) -> None:
    """Add the command to `app`, with whatever flags `collect` has now."""
    own = inspect.signature(doctor, eval_str=True).parameters["as_json"]
    shared = inspect.signature(collect, eval_str=True).parameters.values()
    flags = [*shared, own.replace(kind=inspect.Parameter.POSITIONAL_OR_KEYWORD)]

    def command(**flags: Any) -> None:
        doctor(**flags)

    command.__doc__ = doctor.__doc__
    command.__annotations__ = {flag.name: flag.annotation for flag in flags}
    command.__dict__["__signature__"] = inspect.Signature(flags)
    app.command("doctor")(command)


def doctor(
    *,
    as_json: Annotated[bool, typer.Option("--json", help="The report as JSON.")] = False,
    **flags: Any,
) -> None:
    """Say what would go wrong in a run, before it costs a rollout. Arguments as for collect.

    Checks this machine, the endpoints, the configuration, every row, the verifiers and what an
    earlier run left; then forecasts requests, tokens, time and disk. Exits 1 when it finds an
    error.
    """
    from palestra.cli.doctoring import doctor as examine

    overrides = with_configs(flags.pop("configs"), flags.pop("overrides"))
    extra = given(**{SETTINGS.get(name, name): value for name, value in flags.items()})
    guarded(lambda: examine(overrides, extra=extra, as_json=as_json))
