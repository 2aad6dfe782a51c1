"""`benchmark list` and `benchmark prepare`."""

import os
from collections.abc import Iterator, Sequence
from typing import Any, Final

from palestra.cli.console import masking, notice, say, say_json, warn_all
from palestra.cli.tables import print_table
from palestra.config import ConfigTree, Redactor, nearest, search_roots
from palestra.datasets import (
    Located,
    Preparing,
    credentials_in,
    datasets_of_agents,
    locate,
    prepare_benchmarks,
)
from palestra.errors import ConfigError, KnownCause
from palestra.schema import JsonDict
from palestra.settings import BenchmarkArgs, args_from, existing_path, load
from palestra.system import shown

PLACES: Final = (
    "benchmarks/*/*.yaml",
    "benchmarks/*/configs/*.yaml",
    "resources_servers/*/configs/*.yaml",
    "responses_api_agents/*/configs/*.yaml",
)
"""Where configs with benchmarks are searched when the user names no config."""


def list_benchmarks(
    overrides: list[str], *, ng: bool, extra: ConfigTree | None = None, as_json: bool = False
) -> int:
    """Print every benchmark of the configuration; without a configuration, of the project and the
    package.
    """
    located = _benchmarks(overrides, ng=ng, extra=extra)
    if as_json:
        say_json([_as_json(benchmark) for benchmark in located])
        return 0
    if not located:
        say("no agent has a dataset of type benchmark")
        return 0
    print_table(
        ("benchmark", "agent", "file", "state"),
        [
            (
                benchmark.entry.name,
                benchmark.dataset.agent,
                shown(benchmark.path),
                _state(benchmark),
            )
            for benchmark in located
        ],
    )
    return 0


def _state(benchmark: Located) -> str:
    if benchmark.there:
        return "ready"
    return "to prepare" if benchmark.entry.prepare_script else "missing"


def _as_json(benchmark: Located) -> JsonDict:
    return {
        "name": benchmark.entry.name,
        "agent": benchmark.dataset.agent,
        "path": str(benchmark.path),
        "state": _state(benchmark),
    }


def prepare(
    overrides: list[str],
    *,
    ng: bool,
    names: Sequence[str] = (),
    extra: ConfigTree | None = None,
) -> int:
    """Run the prepare scripts of the benchmarks `names`; of all benchmarks when `names` is empty."""
    located = _benchmarks_named(_benchmarks(overrides, ng=ng, extra=extra), names)
    config = load(overrides, ng=ng, extra=extra, require_all=False, required=())
    args = args_from(BenchmarkArgs, config.tree)
    # A script that fails is shown with what it printed, which may be anything that it was given.
    secrets = config.secrets | credentials_in(os.environ)
    how = Preparing(
        place=existing_path,
        arguments=args.prepare_script_args,
        use_cached=args.use_cached_prepared_benchmarks,
        at_once=args.num_prepare_benchmark_processes,
        config=config.tree,
        mask=Redactor(secrets),
    )
    with masking(secrets):
        prepared = prepare_benchmarks(located, how, report=notice)
    for path, rows in prepared.items():
        say(f"  {shown(path)}: {rows} rows")
    return 0


def _benchmarks_named(located: Sequence[Located], names: Sequence[str]) -> list[Located]:
    if not located:
        missing = f"there is no benchmark {names[0]!r}: " if names else ""
        raise ConfigError(
            f"{missing}no agent has a dataset of type benchmark",
            hint="pass the benchmark's config file with --config",
            cause=KnownCause.NO_DATASET,
        )
    known_names = [benchmark.entry.name for benchmark in located]
    for name in names:
        if name not in known_names:
            near = nearest(name, known_names)
            raise ConfigError(
                f"there is no benchmark {name!r}" + (f"; did you mean {near!r}?" if near else ""),
                hint=f"benchmarks: {', '.join(known_names)}",
            )
    return [benchmark for benchmark in located if not names or benchmark.entry.name in names]


def _benchmarks(overrides: list[str], *, ng: bool, extra: ConfigTree | None) -> list[Located]:
    config = load(overrides, ng=ng, extra=extra, require_all=False, required=())
    warn_all(config.warnings)
    if config.instances:
        return _of_instances(config.instances.values())
    located: list[Located] = []
    for path in _configs():
        try:
            loaded = load(
                [], ng=False, extra={"config_paths": [path]}, require_all=False, required=()
            )
            located += _of_instances(loaded.instances.values())
        except ConfigError as error:
            notice(f"warning: {path} is left out: {error.message}")
    return located


def _of_instances(instances: Any) -> list[Located]:
    datasets = datasets_of_agents(instances)
    return locate(
        [dataset for dataset in datasets if dataset.entry.type == "benchmark"], existing_path
    )


def _configs() -> Iterator[str]:
    """Yield the configs of the project and of the package that contain the word `benchmark`."""
    seen_names: set[str] = set()
    for root in search_roots():
        for pattern in PLACES:
            for path in sorted(root.glob(pattern)):
                name = str(path.relative_to(root))
                if name not in seen_names and "benchmark" in path.read_text(errors="replace"):
                    seen_names.add(name)
                    yield name
