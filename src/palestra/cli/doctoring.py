"""`doctor`: check a run in advance, with the same arguments as `collect`."""

import contextlib
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import palestra
from palestra.analysis import completion_for
from palestra.api import (
    FleetChoice,
    check_descriptors,
    find,
    most_in_flight,
    run_semantics,
    verified_by,
    with_config_of,
    with_file_rows,
)
from palestra.cli.console import leave_now, notice, say, say_json
from palestra.cli.escaping import visible
from palestra.cli.flags_for_overrides import with_flags_named
from palestra.cli.fleet_commands import OBSERVER
from palestra.cli.loop import CommandStopped, run_to_end
from palestra.cli.tables import plain_console
from palestra.config import ConfigTree, Redactor, ResolvedConfig
from palestra.doctor import (
    CheckRun,
    ExaminedRun,
    Looked,
    Report,
    Round,
    examine,
    finding_of,
    findings_of_load,
)
from palestra.errors import BadInput, ConfigError, Layer, PalestraError, RunFailed
from palestra.settings import (
    CollectArgs,
    CollectSettings,
    ModelArgs,
    args_from,
    existing_path,
    load,
)
from palestra.system import raise_descriptor_limit
from palestra.transport import ServerClient

EXAMPLE: Final = (
    "`palestra doctor --config resources_servers/mcqa/configs/mcqa.yaml --split example "
    "--output runs/mcqa.jsonl --model local`"
)
ENDPOINT_PATIENCE_S: Final = 5.0
"""How long an endpoint that is asked for its model's name may be unreachable, in seconds. A collection
waits for one that is still starting; a check says so."""
_RUN: Final = frozenset({"input_jsonl_fpath", "split", "output_jsonl_fpath"})
"""The settings that name a run: without any of them, nothing was said about one."""


def doctor(
    overrides: list[str],
    *,
    extra: ConfigTree,
    models: ModelArgs | None = None,
    as_json: bool = False,
) -> int:
    """Check the run that `collect` would start with the same arguments; exit 1 when it would go
    wrong. `models`: the flags that name the models.

    Raises ConfigError: the arguments do not describe a run.
    """
    try:
        config = load(overrides, ng=False, extra=extra)
    except ConfigError as error:
        return show(_of_load(with_flags_named(error, sys.argv[1:]), overrides), as_json=as_json)
    if not _RUN & config.tree.keys():
        raise ConfigError(
            "`palestra doctor` checks the run that `palestra collect` would start with the same "
            "flags, and no run is named",
            hint=f"{EXAMPLE}; `palestra diagnose RUN` explains a run that has ended",
        )
    args = args_from(CollectArgs, config.tree)
    try:
        settings = replace(
            args.settings(config), verified_by=verified_by(overrides, config, models=models)
        )
        settings = with_file_rows(settings, config, notice)
    except BadInput as error:
        return report_on(error, as_json=as_json)
    mask = Redactor(config.secrets)
    advice = completion_for(settings.output_jsonl_fpath)
    out = sys.stdout

    def give_up(report: Report) -> None:
        # The event loop is held by a server and may never come back.
        with contextlib.redirect_stdout(out):
            leave_now(show(report.with_advice(advice).masked(mask), as_json=as_json))

    # What a program is to read from standard output is the report alone.
    try:
        with contextlib.redirect_stdout(sys.stderr):
            report = run_to_end(_examine(config, settings, give_up))
    except CommandStopped as stopped:
        notice(f"stopped by {stopped.signal.name}")
        return stopped.exit_code
    return show(report.with_advice(advice).masked(mask), as_json=as_json)


async def _examine(config: ResolvedConfig, settings: CollectSettings, give_up: Any) -> Report:
    open_files = raise_descriptor_limit()
    round_ = Round(on_done=_print_check)
    async with contextlib.AsyncExitStack() as stack:
        try:
            choice: FleetChoice = await stack.enter_async_context(find(config, OBSERVER))
        except PalestraError as error:
            return _of_one(error)
        subject = ExaminedRun(
            config=choice.config,
            own=config,
            settings=with_config_of(choice, settings),
            semantics=run_semantics(choice.config, settings, choice.codes),
            version=palestra.__version__,
            open=lambda: _clients_of(choice),
            descriptors=lambda client, remaining: check_descriptors(
                settings, remaining, client.targets.values(), open_files
            ),
            most_in_flight=lambda client: most_in_flight(client.targets.values(), open_files),
        )
        return await examine(subject, round_=round_, on_frozen=give_up)
    raise AssertionError


@contextlib.asynccontextmanager
async def _clients_of(choice: FleetChoice) -> AsyncIterator[ServerClient]:
    async with choice.open(models=False) as fleet:
        yield fleet.client


def _print_check(run: CheckRun) -> None:
    if sys.stderr.isatty():
        notice(f"{run.layer.value}: {run.name}: {run.looked.said}")


def _of_load(error: ConfigError, overrides: list[str]) -> Report:
    """Return the report of a configuration that cannot be loaded. Nothing else is checked then."""
    findings = findings_of_load(error, _files(overrides))
    run = CheckRun(Layer.CONFIG, "configuration", Looked("cannot be loaded", findings), 0.0)
    return Report((run,), findings, complete=False)


def _of_one(error: PalestraError) -> Report:
    finding = finding_of(error)
    run = CheckRun(finding.layer, "settings", Looked("not usable", (finding,)), 0.0)
    return Report((run,), (finding,), complete=False)


def report_on(error: PalestraError, *, as_json: bool) -> int:
    """Print the report of a run that one error stops before any check; return its exit code."""
    return show(_of_one(error), as_json=as_json)


def _files(overrides: list[str]) -> list[Path]:
    """Return the config files that `overrides` name, and env.yaml, if they exist."""
    config_lists = [
        item.partition("=")[2].strip("[]'\" ") for item in overrides if "config_paths" in item
    ]
    paths = [existing_path(part.strip("'\" ")) for text in config_lists for part in text.split(",")]
    return [path for path in (*paths, Path("env.yaml")) if path.is_file()]


def show(report: Report, *, as_json: bool) -> int:
    """Print a report, and return its exit code."""
    if as_json:
        say_json(report.as_json())
    else:
        _print(report)
    return RunFailed.exit_code if report.failed else 0


def _print(report: Report) -> None:
    console = plain_console()
    for text in report.texts(visible=visible):
        if console.is_terminal:
            console.print(text, soft_wrap=True)
        else:
            say(text.plain)
        say()
