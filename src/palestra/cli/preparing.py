"""`prepare`: check and measure the datasets of agents, and write them in the format of a trainer."""

import os
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from palestra.api import doors_of_agents, files_behind, lines_of, read_rows
from palestra.cli.console import masking, notice, say, say_json, warn_all
from palestra.cli.tables import print_table
from palestra.cli.transfers import patience_of, transfers
from palestra.config import ConfigTree, ResolvedConfig, ServerType
from palestra.datasets import (
    EXAMPLES,
    LICENCES,
    REQUESTS,
    SAMPLING,
    TEMPERATURE,
    TOKENS,
    TOOLS,
    TURNS,
    USERS,
    WORDS,
    AgentDataset,
    Located,
    PreparedFile,
    PrepareSettings,
    Sources,
    credentials_in,
    datasets_of_agents,
    fetch,
    in_scope,
    locate,
    prepare_datasets,
    tokenizer_at,
)
from palestra.errors import ConfigError
from palestra.fleet import start_timeout_of
from palestra.schema import JsonDict, JsonObject
from palestra.settings import PrepareArgs, args_from, existing_path, load, refuse_no_config
from palestra.system import shown, write_whole

TOKENIZER = "tokenizer.json"
NUMBERS = {
    "Total # non-null values": "values",
    "Average": "average",
    "Min": "min",
    "Max": "max",
    "Standard deviation": "std dev",
}
"""The numbers of a statistic, by their name in a metrics file -> the column in the printed table.
"""


def prepare(
    overrides: list[str],
    *,
    ng: bool,
    extra: ConfigTree | None = None,
    types: Collection[str] | None = None,
    as_json: bool = False,
) -> int:
    """Check, measure and write the datasets of the configuration.

    `types`: only datasets of these types; None: all types of the mode. `as_json`: print the files
    as one JSON document in the end.
    """
    config = load(overrides, ng=ng, extra=extra, require_all=False, required=())
    warn_all(config.warnings)
    args = args_from(PrepareArgs, config.tree)
    config = _with_file_rows(config, args)
    tokenizer = _tokenizer(args.tokenizer)
    with masking(config.secrets | credentials_in(os.environ)):
        located = _located(config, args, types)
        if ng:
            _warn_of_licences(located)
        _fetch(located, config, args)
        agents = dict.fromkeys(dataset_found.dataset.agent for dataset_found in located)
        prepared = prepare_datasets(
            located,
            PrepareSettings(
                output_dirpath=Path(args.output_dirpath),
                overwrite_metrics_conflicts=args.overwrite_metrics_conflicts,
                tokenizer=tokenizer,
                place=existing_path,
                project=Path.cwd(),
            ),
            doors=doors_of_agents(config, agents, report=notice),
        )
    _report(prepared)
    if as_json:
        say_json([_document(file) for file in prepared])
    return 0


def _warn_of_licences(located: Iterable[Located]) -> None:
    """Print the licences of datasets that NeMo Gym would refuse."""
    names = dict.fromkeys(dataset.entry.license for dataset in located)
    for name in names:
        if name is not None and name not in LICENCES:
            notice(
                f"warning: NeMo Gym refuses the license {name!r}; it takes {'; '.join(LICENCES)}"
            )


def _document(file: PreparedFile) -> JsonDict:
    """Return a prepared file as JSON values. `dataset` is null for all datasets of one type."""
    dataset = file.dataset
    return {
        "file": str(file.path.absolute()),
        "metrics_file": str(file.metrics.absolute()),
        "agent": dataset.agent if dataset else None,
        "dataset": dataset.entry.name if dataset else None,
        "examples": file.examples,
        "rows": file.rows,
        "statistics": file.summary,
    }


def _with_file_rows(config: ResolvedConfig, args: PrepareArgs) -> ResolvedConfig:
    """Write the rows of environments in one file, and name them as datasets of the mode."""
    instances = dict(config.instances)
    training = args.mode == "train_preparation"
    for agent, (server, source_file) in files_behind(config).items():
        own_values = server.settings.get("settings") or {}
        rows = read_rows(source_file, own_values, start_timeout_of(config.tree), notice).rows
        path = Path(args.output_dirpath).absolute() / f"{server.name}_tasks.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, lines_of(rows))
        dataset = {
            "name": server.name,
            "type": "train" if training else "example",
            "jsonl_fpath": str(path),
            "license": "not stated",
        }
        instances[agent] = replace(instances[agent], datasets=(dataset,))
    return replace(config, instances=instances)


def _located(
    config: ResolvedConfig, args: PrepareArgs, types: Collection[str] | None
) -> list[Located]:
    """Return the datasets for the mode; print which agents have datasets, and which files exist."""
    datasets = datasets_of_agents(config.instances.values())
    in_mode = [
        dataset
        for dataset in in_scope(datasets, args.mode)
        if types is None or dataset.entry.type in types
    ]
    scope = args.mode if types is None else f"type {' or '.join(sorted(types))}"
    refuse_no_config(config, f"for {scope}")
    _introduce(config, datasets, in_mode, scope)
    if not in_mode:
        raise ConfigError(
            f"no agent of the configuration has a dataset for {scope}",
            hint="list datasets under an agent: {name, type, jsonl_fpath}; train_preparation "
            "uses the types train, validation and benchmark, example_validation the type "
            "example",
        )
    located = locate(in_mode, existing_path)
    for is_there, word in ((True, "found"), (False, "missing")):
        for dataset_found in located:
            if dataset_found.there is is_there:
                say(
                    f"  {word:7}  {shown(dataset_found.path)}  ({dataset_found.entry.type}, {dataset_found.dataset})"
                )
    return located


def _introduce(
    config: ResolvedConfig,
    datasets: Sequence[AgentDataset],
    in_mode: Sequence[AgentDataset],
    scope: str,
) -> None:
    agents = [agent.name for agent in config.instances_of(ServerType.AGENT)]
    having = {dataset.agent for dataset in datasets}
    chosen = {dataset.agent for dataset in in_mode}
    say(f"agents with datasets: {_listed(a for a in agents if a in having)}")
    say(f"agents without datasets: {_listed(a for a in agents if a not in having)}")
    say(f"in scope of {scope}: {_listed(a for a in agents if a in chosen)}")


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"


def _fetch(located: Sequence[Located], config: ResolvedConfig, args: PrepareArgs) -> None:
    with transfers() as progress:
        sources = Sources(config.tree, os.environ, progress, patience_of(config.tree))
        fetch(
            located,
            download=sources if args.should_download else None,
            preferred=args.data_source,
            report=notice,
        )


def _tokenizer(tokenizer: str | None) -> Path | None:
    if tokenizer is None:
        return None
    path = existing_path(tokenizer)
    file = path / TOKENIZER if path.is_dir() else path
    if not file.is_file():
        raise ConfigError(
            f"tokenizer {tokenizer}: {file} does not exist",
            hint="pass the tokenizer.json of a model, or its folder",
        )
    tokenizer_at(file)  # before a row is read
    return file


def _report(prepared: Sequence[PreparedFile]) -> None:
    print_table(
        ("dataset", "examples", "rows"),
        [
            (str(file.dataset or f"all of {file.path.stem}"), file.examples, file.rows)
            for file in prepared
        ],
        right="examples,rows",
    )
    for file in prepared:
        if file.dataset is not None or len(prepared) > 2:
            _report_statistics(str(file.dataset or f"all of {file.path.stem}"), file.summary)
    for file in prepared:
        for path in (file.path, file.metrics):
            say(f"  {shown(path.absolute())}")


def _report_statistics(name: str, summary: JsonObject) -> None:
    """Print the statistics of the requests. The metrics file also has those of the rows' other
    fields.
    """
    say(f"{name}: {EXAMPLES} {summary[EXAMPLES]}")
    sampling = {f"{SAMPLING}: {key}": value for key, value in summary[SAMPLING].items()}
    measured = {
        key: summary[key] for key in (TOOLS, TOKENS, WORDS, TURNS, TEMPERATURE) if key in summary
    } | sampling
    print_table(
        ("statistic", *NUMBERS.values()),
        [(key, *(_number_text(value[of]) for of in NUMBERS)) for key, value in measured.items()],
        right=",".join(NUMBERS.values()),
    )
    for key in (REQUESTS, USERS):
        say(f"  {key}: {summary[key]['unique_count']} of {summary[key]['total_count']}")


def _number_text(number: object) -> str:
    return "-" if number is None else str(number)
