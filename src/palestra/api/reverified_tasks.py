"""The task rows of a re-verification: those that the user names, else those in the usual places."""

import contextlib
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from palestra.analysis import amount
from palestra.api.environment_files import lines_of
from palestra.config import NamedFile, ResolvedConfig, ServerType
from palestra.datasets import records_of
from palestra.errors import InputDataError, Phrase
from palestra.rollouts import FoundTaskRows, TaskRows, read_manifest, scored_beside
from palestra.schema import CREATE_PARAMS, JsonDict, Line, RunPaths, bare_name, read_jsonl
from palestra.settings import ReverifyArgs, existing_path, existing_paths
from palestra.system import shown

_OTHER_FORMATS: Final = frozenset({".csv", ".tsv", ".json", ".parquet"})


def named_inputs(args: ReverifyArgs) -> tuple[Path, ...]:
    """Return the files of task rows that the user named."""
    return () if args.inputs is None else existing_paths(args.inputs)


def own_inputs(args: ReverifyArgs) -> Path:
    """Return the path of the materialized inputs of the stored run; the file may be missing."""
    return RunPaths(scored_rows(args)).materialized_inputs


def scored_rows(args: ReverifyArgs) -> Path:
    """Return the path of the scored rows of the stored run; the file may be missing."""
    return args.scored or scored_beside(args.rollouts) or args.rollouts


def has_raw_inputs(args: ReverifyArgs) -> bool:
    """Whether the user named rows without a prompt, as an environment in one file takes them."""
    paths = [path for path in named_inputs(args) if path.is_file()]
    first = next((record for path in paths for record in _records(path)), None)
    return (
        first is not None
        and isinstance(first.row, Mapping)
        and not isinstance(first.row.get(CREATE_PARAMS), Mapping)
    )


def _records(path: Path) -> Iterator[Line]:
    """Yield the rows of a file, which is of JSON lines unless its name says otherwise."""
    suffix = Path(bare_name(path)).suffix.lower()
    yield from records_of(path) if suffix in _OTHER_FORMATS else read_jsonl(path)


@contextlib.contextmanager
def tasks_of(
    args: ReverifyArgs, config: ResolvedConfig, environment_rows: Iterable[JsonDict]
) -> Iterator[TaskRows | FoundTaskRows]:
    """Yield the task rows from `args.inputs`; without it, from the usual places.

    These are: the run's own inputs, `example.jsonl` in the folder of the rollouts, and the example
    datasets of the configured agents. `environment_rows`: those of an environment in one file, made
    of `args.inputs` where these have no prompts. Raises InputDataError: they have none, and the
    environment is no such file.
    """
    with contextlib.ExitStack() as stack:
        if args.inputs is None:
            yield stack.enter_context(_usual_tasks(args, config))
        elif not has_raw_inputs(args):
            yield stack.enter_context(TaskRows(*named_inputs(args)))
        elif NamedFile.parse(args.environment or "") is None:
            raise InputDataError(
                Phrase("{file} has rows without a prompt", file=shown(named_inputs(args)[0])),
                hint="only an environment in one file takes such rows, and must be named; others need "
                "rows with responses_create_params",
            )
        else:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="palestra-")))
            file = folder / "tasks.jsonl"
            file.write_bytes(lines_of(environment_rows))
            yield stack.enter_context(TaskRows(file, sources=named_inputs(args)))


def tasks_of_run(args: ReverifyArgs) -> Iterator[JsonDict]:
    """Yield the rows that are today in the files of which the stored run was made; a file that is
    gone or has become unreadable ends them.
    """
    with contextlib.suppress(InputDataError, OSError, EOFError):
        for path in read_manifest(RunPaths(scored_rows(args)).manifest).inputs:
            for record in _records(Path(path)):
                row = record.row
                if isinstance(row, dict) and isinstance(row.get(CREATE_PARAMS), Mapping):
                    yield row


def changed_tasks(tasks: TaskRows | FoundTaskRows, rows: Iterable[JsonDict]) -> Phrase | None:
    """Return a sentence when `rows`, which the run was made of, are not those of the run any more; None
    when they are, or the user named inputs.
    """
    if isinstance(tasks, TaskRows):
        return None
    count, names = tasks.changed(rows)
    if not count:
        return None
    return Phrase(
        "warning: {count} of the environment has another {names} today than in the run, and is verified "
        "as in the run: --inputs FILE with its data verifies by today's",
        count=amount(count, "task"),
        names=" and ".join(names),
    )


def _usual_tasks(args: ReverifyArgs, config: ResolvedConfig) -> FoundTaskRows:
    shipped = [
        existing_path(str(dataset["jsonl_fpath"]))
        for agent in config.instances_of(ServerType.AGENT)
        for dataset in agent.datasets
        if dataset.get("type") == "example" and dataset.get("jsonl_fpath")
    ]
    example_file = args.rollouts.with_name("example.jsonl")
    others = [
        path
        for path in (example_file, *shipped)
        if path.absolute() != args.rollouts.absolute() and path.suffix != ".py"
    ]
    return FoundTaskRows(own_inputs(args), others)


def taken_from(tasks: TaskRows | FoundTaskRows) -> Iterator[str]:
    """Yield a sentence for each file that supplied fields which the rollouts lack."""
    if isinstance(tasks, FoundTaskRows):
        for path in tasks.used():
            yield f"what rollouts lack of their tasks is taken from {shown(path.absolute())}"
