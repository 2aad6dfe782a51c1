"""`dataset import` and `render-prompts`: make task rows from a user's own data."""

import os
import shlex
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from palestra.analysis import amount
from palestra.api import EvaluationTarget, doors_of_agents, find_target
from palestra.cli.console import masking, notice, say, warn_all
from palestra.cli.file_imports import rows_for_file
from palestra.cli.transfers import patience_of, transfers
from palestra.config import ConfigTree, NamedFile, ResolvedConfig, ServerType
from palestra.datasets import (
    ColumnMapping,
    RowEndpoint,
    Sources,
    credentials_in,
    fill_row,
    load_prompt,
    missing_file,
    records_of,
    write_rows,
)
from palestra.errors import ConfigError, InputDataError
from palestra.rollouts import import_command, import_rollouts, is_scored_rollout
from palestra.schema import JsonDict, Line, RunPaths, bare_name, read_jsonl, with_compressed
from palestra.settings import (
    EvalArgs,
    HubDownload,
    ImportArgs,
    RenderArgs,
    args_from,
    existing_path,
    existing_paths,
    load,
)
from palestra.system import shown

HUB: Final = "hf:"
_OF_TASKS: Final = {"map": "maps", "answer": "answer", "prompt": "prompt", "env": "environment"}
"""The flags that make tasks of rows -> their settings."""
PROMPT_USED: Final = "prompt_config_used"


def import_rows(args: ImportArgs, overrides: list[str]) -> int:
    """Make task rows from a file, check them against an environment's request models, and write
    them.
    """
    _refuse_what_cannot_be(args)
    if args.rollouts:
        return _import_run(args, overrides)
    prompt_file = existing_path(args.prompt) if args.prompt else None
    prompt = load_prompt(prompt_file) if prompt_file else None
    columns = ColumnMapping(_fields(args.maps), args.answer, prompt)
    in_file = args.environment if NamedFile.parse(args.environment or "") else None
    # An environment in one file is loaded with the rows, which it is to make.
    config = _config(None if in_file else args.environment, overrides, quiet=bool(in_file))
    with masking(config.secrets | credentials_in(os.environ)), _sources(args, config) as sources:
        output = args.output or _usual_output(sources)
        reader: Callable[[Path], Iterable[Line]] = records_of
        make: Callable[[Any], JsonDict] = columns.row
        if in_file:
            file_rows = rows_for_file(in_file, sources, columns, overrides)
            config = _config_of(file_rows.target, overrides)
            reader, make = file_rows.of, dict
        _refuse_rollouts(sources)
        written = write_rows(
            sources, reader, make, output, doors=_doors(config), prompt=prompt_file
        )
    say(f"wrote {written.rows} rows to {shown(written.path.absolute())}")
    if in_file:
        words = ["palestra", "eval", in_file, "--input", shown(written.path)]
        say(f"next: {shlex.join(words)}")
        return 0
    say("next: put this under your agent, and `palestra prepare` writes what a trainer reads")
    say("  datasets:")
    say(f"  - {{name: train, type: train, license: TBD, jsonl_fpath: {written.path}}}")
    return 0


def _import_run(args: ImportArgs, overrides: list[str]) -> int:
    """Make a run of a file of scored rollouts."""
    config = _config(None, overrides, quiet=True)
    with masking(config.secrets | credentials_in(os.environ)), _sources(args, config) as sources:
        if args.output is None and len(sources) == 1:
            output = Path(f"{bare_name(sources[0]).removesuffix('.jsonl')}_run.jsonl")
        else:
            output = args.output or _usual_output(sources)
        imported = import_rollouts(sources, records_of, output)
    run = shown(imported.output.absolute())
    say(
        f"wrote {amount(imported.rollouts, 'rollout')} of {amount(imported.tasks, 'task')} to {run}"
    )
    if imported.results:
        say(
            "not in the tasks, because rollouts of one task differ in them: "
            f"{', '.join(imported.results)}"
        )
    say(f"next: {shlex.join(('palestra', 'profile', run))}")
    return 0


def _refuse_rollouts(sources: Sequence[Path]) -> None:
    """Raise InputDataError: the first row of a file is a scored rollout, and no task."""
    for source in sources:
        first = next(iter(records_of(source)), None)
        if first is None or not is_scored_rollout(first.row):
            continue
        inputs = with_compressed(RunPaths(source).materialized_inputs)
        command = import_command(source)
        if inputs is not None:
            hint = f"its tasks are in {shown(inputs)}"
        elif command:
            hint = (
                f"`{command}` makes a run of them, which `profile`, `show` and `compare` read; "
                f"`palestra reverify {shlex.quote(shown(source))} --environment NAME --output FILE` "
                "verifies them again"
            )
        else:
            hint = "`palestra runs` lists the runs"
        raise InputDataError(
            f"{shown(source)} has scored rollouts (rows with a response and a reward), not tasks",
            hint=hint,
        )


def _usual_output(sources: Sequence[Path]) -> Path:
    """Return the output that is named after the source. Raises ConfigError: there are several."""
    if len(sources) > 1:
        raise ConfigError(
            f"--output is missing: {len(sources)} files are imported into one",
            hint="name it, such as --output rows.jsonl",
        )
    return Path(f"{sources[0].stem}_rows.jsonl")


def _refuse_what_cannot_be(args: ImportArgs) -> None:
    """Raise ConfigError when options have no effect or contradict each other."""
    flags_given = [f"--{name}" for name in ("split", "artifact") if getattr(args, name) is not None]
    if not args.source.startswith(HUB) and flags_given:
        raise ConfigError(
            f"{' and '.join(flags_given)}: only for a repository of the Hugging Face hub, but "
            f"{args.source} is a file",
            hint="a repository is written as hf:organization/name",
        )
    tasks_only = [f"--{name}" for name in _OF_TASKS if getattr(args, _OF_TASKS[name])]
    if args.rollouts and tasks_only:
        raise ConfigError(
            f"--rollouts takes rows as they are, and {' and '.join(tasks_only)} cannot be combined with it",
            hint=f"leave out {' and '.join(tasks_only)}",
        )
    if args.source == HUB:
        raise ConfigError(
            "the name of the repository is missing after hf:", hint="write hf:organization/name"
        )
    if len(flags_given) > 1:
        raise ConfigError(
            "--split (all rows of a split) and --artifact (one file) cannot be combined: give "
            "one of them"
        )


def _fields(maps: Sequence[str]) -> dict[str, str]:
    """Parse `--map` options of the form `field=column` into field -> column."""
    fields: dict[str, str] = {}
    for mapping in maps:
        name, equals, column = mapping.partition("=")
        if not (name and equals and column):
            raise ConfigError(
                f"--map {mapping}: must be FIELD=COLUMN, for example --map question=problem"
            )
        if name in fields:
            raise ConfigError(f"--map {mapping}: {name} is already mapped to {fields[name]!r}")
        fields[name] = column
    return fields


def _config(environment: str | None, overrides: list[str], *, quiet: bool) -> ResolvedConfig:
    """Return the configuration of an environment. `quiet`: without the warnings about it."""
    target = None
    if environment is not None:
        target = find_target(EvalArgs(target=environment), overrides, notice)
    return _config_of(target, overrides, quiet=quiet)


def _config_of(
    target: EvaluationTarget | None, overrides: list[str], *, quiet: bool = False
) -> ResolvedConfig:
    extra = {} if target is None else {**target.extra, "config_paths": list(target.configs)}
    config = load(overrides, ng=False, extra=extra, require_all=False, required=())
    if not quiet:
        warn_all(config.warnings)
    return config


def _doors(config: ResolvedConfig) -> list[RowEndpoint]:
    """Return the endpoints, of all agents and their environments, that must accept the rows."""
    agents = [agent.name for agent in config.instances_of(ServerType.AGENT)]
    if not agents:
        if config.instances:
            notice(
                "warning: the configuration has no agent, so the rows are not checked against "
                "an environment"
            )
        return []
    return [
        door for doors in doors_of_agents(config, agents, report=notice).values() for door in doors
    ]


@contextmanager
def _sources(args: ImportArgs, config: ResolvedConfig) -> Iterator[Sequence[Path]]:
    """Yield the files to read. A file from the hub is downloaded, and deleted after the body."""
    if not args.source.startswith(HUB):
        yield existing_paths(args.source)
        return
    repo, split = args.source.removeprefix(HUB), args.split or "train"
    name = Path(args.artifact).name if args.artifact else f"{repo.rpartition('/')[2]}_{split}.jsonl"
    with tempfile.TemporaryDirectory(prefix="palestra-import-") as folder, transfers() as progress:
        path = Path(folder) / name
        hub_file = {"artifact_fpath": args.artifact, "split": None if args.artifact else split}
        settings = {"repo_id": repo, "output_fpath": str(path), **hub_file}
        Sources(config.tree, os.environ, progress, patience_of(config.tree)).from_hub(
            args_from(HubDownload, settings)
        )
        yield [path]


def render(overrides: list[str], *, ng: bool, extra: ConfigTree | None = None) -> int:
    """Fill rows into a prompt template, and add the template's name to each row."""
    config = load(overrides, ng=ng, extra=extra, require_all=False, required=())
    warn_all(config.warnings)
    args = args_from(RenderArgs, config.tree)
    prompt_file = existing_path(args.prompt_config)
    prompt = load_prompt(prompt_file)

    def filled(row: Any) -> JsonDict:
        if not isinstance(row, Mapping):
            raise ValueError("not a JSON object")  # noqa: TRY004  # data, not code
        return {**fill_row(prompt, row), PROMPT_USED: args.prompt_config}

    sources = existing_paths(args.input_jsonl_fpath)
    for source in sources:
        if not source.is_file():
            raise missing_file(source, "the input file")
    written = write_rows(
        sources, read_jsonl, filled, Path(args.output_jsonl_fpath), prompt=prompt_file
    )
    say(f"wrote {written.rows} rows to {shown(written.path.absolute())}")
    warn_all(filter(None, [prompt.warning(prompt_file)]))
    return 0
