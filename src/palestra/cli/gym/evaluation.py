"""`gym eval prepare|run|aggregate|profile`: rollouts and their rewards."""

from pathlib import Path
from typing import Final

from palestra.cli import benchmarks, collecting, merging, preparing, profiling_commands
from palestra.cli.console import notice
from palestra.cli.fleet_commands import refuse_bad_values
from palestra.cli.gym.driver import DRIVER, drive
from palestra.cli.gym.grammar import Invocation, UsageError, as_text
from palestra.config import ConfigTree
from palestra.settings import CollectArgs, InvalidSettings, SettingProblem, args_from, load
from palestra.system import shown

SPLIT: Final = "split"
INPUT: Final = "input_jsonl_fpath"
OUTPUT: Final = "output_jsonl_fpath"
REUSE: Final = "reuse_existing_data_preparation"
PREPROCESSED: Final = "preprocessed_datasets"
EXAMPLE: Final = "example"


def prepare(_invocation: Invocation, overrides: list[str]) -> int:
    """Run the scripts that make the files of benchmarks."""
    return benchmarks.prepare(overrides, ng=True)


def aggregate(_invocation: Invocation, overrides: list[str]) -> int:
    """Merge shards, and ask the agents for the metrics of the whole."""
    return merging.aggregate_rollouts(overrides)


def profile(invocation: Invocation, overrides: list[str]) -> int:
    """Compute the reward statistics of a run from its files."""
    return profiling_commands.profile(overrides, ng=True, as_json=invocation.json)


def run(invocation: Invocation, overrides: list[str]) -> int:
    """Run the datasets of a split on servers of this command; with `--no-serve`, a file of rows on
    the running servers.

    Raises UsageError: a driver is configured, whose result `--json` cannot print.
    """
    settings = load(overrides, ng=True, require_all=False, required=()).tree
    no_serve = bool(invocation.flags.get("no_serve"))
    needed = (INPUT, OUTPUT) if no_serve else (OUTPUT,)
    missing = [name for name in needed if settings.get(name) is None]
    if not no_serve and settings.get(SPLIT) is None and settings.get(INPUT) is None:
        missing.insert(0, SPLIT)
    if missing:
        raise InvalidSettings.of(
            [SettingProblem(name, (), "is required", is_missing=True) for name in missing],
            hint="give --output, and --split or --input; --no-serve needs --input",
        )
    args_from(CollectArgs, settings)  # before anything is downloaded
    if invocation.json and settings.get(DRIVER) is not None:
        raise UsageError(
            f"--json prints the run that was collected, and +{DRIVER} replaces the collection",
            hint="leave --json out",
        )
    if not no_serve and settings.get(INPUT) is None:
        refuse_bad_values(load(overrides, ng=True))  # before anything is written
        rows = _collated(settings, overrides)
        overrides = [*overrides, f"++{INPUT}={as_text(str(rows))}"]
    if settings.get(DRIVER) is not None:
        return drive(str(settings[DRIVER]), overrides, serve=not no_serve)
    fleet: collecting.FleetToUse = "running" if no_serve else "own"
    return collecting.collect(overrides, ng=True, fleet=fleet, as_json=invocation.json)


def _collated(settings: ConfigTree, overrides: list[str]) -> Path:
    """Write the configuration's datasets of the split to one file, and return its path."""
    split = str(settings[SPLIT])
    folder = Path(str(settings[OUTPUT])).absolute().with_suffix("") / PREPROCESSED
    rows = folder / f"{split}.jsonl"
    if settings.get(REUSE) and rows.is_file():
        notice(f"using {shown(rows)}, which exists already (+{REUSE})")
        return rows
    mode = "example_validation" if split == EXAMPLE else "train_preparation"
    forced = (
        f"++output_dirpath={as_text(str(folder))}",
        f"++mode={mode}",
        "++should_download=true",
    )
    preparing.prepare([*overrides, *forced], ng=True, types={split})
    return rows
