"""`gym eval submit`: one submission of rollouts per benchmark.

The file is YAML. `benchmarks` lists names as for `--benchmark`, or maps each name to options of its
own; `output_path` is the folder of all runs. All other keys are options of `palestra cluster
rollouts`. They may stand under `services`, `compute`, `driver` and `job`, which only group them.
"""

import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from palestra.cli.clustering.runs import submit as submit_rollouts
from palestra.cli.console import say, warn_all
from palestra.cli.gym.grammar import Invocation
from palestra.cli.gym.selection import select
from palestra.config import SearchPaths, line_at, parse_yaml
from palestra.errors import ConfigError
from palestra.programs import SELECTORS, command_words, typed_program
from palestra.settings import InvalidSettings, config_list, datasets_of, existing_path, load
from palestra.system import file_and_line, shown

SECTIONS: Final = ("services", "compute", "driver", "job")
BENCHMARKS: Final = "benchmarks"
OUTPUT_PATH: Final = "output_path"


@dataclass(frozen=True, slots=True)
class SubmissionFile:
    """The content of the file of `--config`."""

    output_path: Path
    benchmarks: Mapping[str, Mapping[str, Any]]
    """The options of each benchmark, by its name."""
    options: Mapping[str, Any]
    """The options of all benchmarks."""


def submit(invocation: Invocation, overrides: list[str]) -> int:
    """Submit one run per benchmark; with `--dry-run`, only write the scripts."""
    file = read_submission(Path(invocation.flags["config"]))
    folder = file.output_path.absolute() / f"gym-job-{time.strftime('%Y%m%d-%H%M%S')}"
    for name in file.benchmarks:
        say(f"{name} -> {shown(folder / name)}")
        options = {**file.options, **file.benchmarks[name]}
        if invocation.flags.get("dry_run"):
            options["dry_run"] = True
        _submit_one(name, folder / name, options, overrides)
    return 0


def _submit_one(name: str, folder: Path, options: dict[str, Any], overrides: list[str]) -> None:
    """Submit one benchmark: its scripts and rollouts are below `artifacts`, its logs in `logs`."""
    config, warning = select(SELECTORS["benchmark"], name, SearchPaths.of())
    warn_all([warning] if warning else [])
    config_paths = [str(existing_path(config)), *config_list(options.pop("config_paths", ()))]
    filled = {
        "expname": name.replace("/", "-"),
        "log_dir": str(folder / "logs"),
        **options,
        "config_paths": config_paths,
        "output_dir": str(folder / "artifacts"),
    }
    filled.setdefault("input_file", _rows_of(config_paths, name))
    submit_rollouts(filled, overrides)
    scripts = sorted((folder / "artifacts").rglob("*.sh"))
    if scripts:
        shutil.copyfile(scripts[0], folder / "job.sh")


def _rows_of(config_paths: list[str], name: str) -> str:
    """Return the file of a benchmark's rows.

    Raises ConfigError: the configuration has no dataset of type benchmark, or several.
    """
    config = load([], ng=True, extra={"config_paths": config_paths}, require_all=False, required=())
    files = datasets_of(config, "benchmark")
    if len(files) != 1:
        raise ConfigError(
            f"benchmark {name} has {len(files)} datasets of type benchmark",
            hint="set input_file for it: benchmarks: {" + name + ": {input_file: ROWS.jsonl}}",
        )
    if not files[0].path.is_file():
        prepare = command_words("benchmark prepare", typed_program())
        raise ConfigError(
            f"{shown(files[0].path)} does not exist",
            hint=f"make it first: {prepare} --benchmark {name}",
        )
    return str(files[0].path.absolute())


def read_submission(path: Path) -> SubmissionFile:
    """Return the content of a submission file.

    Raises ConfigError: it cannot be read. Raises InvalidSettings: `benchmarks` or `output_path` is
    missing or has another form.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"--config {path} cannot be read: {error}") from error
    tree, _ = parse_yaml(text, where=f"--config {shown(path)}")
    benchmarks = _benchmarks(tree.pop(BENCHMARKS, None))
    output_path = tree.pop(OUTPUT_PATH, None)
    missing = [
        name for name, value in ((BENCHMARKS, benchmarks), (OUTPUT_PATH, output_path)) if not value
    ]
    if missing:
        raise InvalidSettings(
            f"{file_and_line(path, line_at(path, missing[:1]))}: {' and '.join(missing)}: is required",
            hint="benchmarks: [aime]; output_path: results; all other keys are options of "
            "`palestra cluster rollouts`",
        )
    return SubmissionFile(Path(str(output_path)), benchmarks, dict(_options(tree)))


def _benchmarks(value: Any) -> Mapping[str, Mapping[str, Any]]:
    if isinstance(value, str):
        value = [value]
    if isinstance(value, list):
        return {str(name): {} for name in value}
    if isinstance(value, dict):
        return {str(name): options or {} for name, options in value.items()}
    return {}


def _options(tree: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the options at the top and in the sections."""
    for name, value in tree.items():
        if name in SECTIONS and isinstance(value, Mapping):
            yield from value.items()
        else:
            yield str(name), value
