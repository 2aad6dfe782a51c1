"""Finds the runs in a folder, and the files of one run, by their manifests."""

import contextlib
import glob
from collections.abc import Iterable, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Final

from palestra.config import did_you_mean_path
from palestra.errors import InputDataError
from palestra.rollouts.file_kinds import why_no_rollouts
from palestra.rollouts.manifest import Manifest, read_manifest
from palestra.rollouts.reverification.files import REVERIFY_SUFFIX, is_reverified
from palestra.rollouts.same_run import setting_differences
from palestra.schema import RunPaths, bare_name, run_beside, with_compressed

MANIFEST_SUFFIX: Final = "_manifest.json"
_INPUTS_SUFFIX: Final = "_materialized_inputs.jsonl"

RunManifests = list[tuple[Path, Manifest | None]]
"""The manifests of one run: one, or one per shard. None for one that cannot be read."""


def outputs_of(name: Path | str) -> list[Path]:
    """Return the outputs of the run that `name` refers to: an output, its stem, any other file of
    the run, or a folder with the files of one run. Several outputs are the shards of one run.

    Raises InputDataError: there is no such run, or the folder holds several.
    """
    path = Path(name)
    if path.is_dir():
        return _outputs_in(path)
    if (run_output := run_beside(path)) is not None:
        return [run_output]
    output = path.with_name(f"{bare_name(path).removesuffix('.jsonl')}.jsonl")
    recorded = [file for file in RunPaths(output).recorded() if with_compressed(file) is not None]
    if recorded == [output] and (what := why_no_rollouts(with_compressed(output) or output)):
        raise InputDataError(f"{name} {what}", hint="`palestra runs` lists the runs")
    if recorded:
        return [with_compressed(output) or output]
    problem = (
        f"{name} is no file of a run"
        if path.exists()
        else f"there is no run {name}{did_you_mean_path(path)}"
    )
    raise InputDataError(problem, hint="`palestra runs` lists the runs")


def argument_of(outputs: Sequence[Path]) -> str:
    """Return what names the whole run in a command: its output, or the folder or a glob of its shards."""
    if len(outputs) == 1:
        return str(outputs[0])
    folder = outputs[0].parent
    with contextlib.suppress(InputDataError):
        if {path.absolute() for path in outputs_of(folder)} == {p.absolute() for p in outputs}:
            return str(folder)
    return str(Path(*map(_glob_of, zip(*(path.parts for path in outputs), strict=False))))


def _glob_of(names: Sequence[str]) -> str:
    """Return a pattern that matches all names, with one star where they differ."""
    if len(set(names)) == 1:
        return glob.escape(names[0])
    first = _beginning(names)
    last = _beginning([name[len(first) :][::-1] for name in names])[::-1]
    return f"{glob.escape(first)}*{glob.escape(last)}"


def _beginning(names: Sequence[str]) -> str:
    """Return the characters that all names begin with."""
    columns = zip(*names, strict=False)  # of the shortest name
    return "".join(c[0] for c in takewhile(lambda column: len(set(column)) == 1, columns))


def _outputs_in(folder: Path) -> list[Path]:
    runs = [[output_beside(path) for path, _ in manifests] for manifests in runs_in(folder)]
    if not runs:  # of a program that writes no manifest
        inputs = (path for path in sorted(folder.iterdir()) if path.is_file())
        names = [bare_name(path) for path in inputs if _INPUTS_SUFFIX in path.name]
        outputs = [folder / f"{name.removesuffix(_INPUTS_SUFFIX)}.jsonl" for name in names]
        runs = [[with_compressed(output) or output] for output in outputs]
    collected = [run for run in runs if not is_reverified(run[0])] or runs
    if len(collected) == 1:
        return collected[0]
    if not runs:
        raise InputDataError(
            f"{folder} has no files of a run: neither *{MANIFEST_SUFFIX} nor *{_INPUTS_SUFFIX}",
            hint="palestra runs lists the runs",
        )
    raise InputDataError(
        f"{folder} has the files of {len(runs)} runs",
        hint=f"choose one of them: {', '.join(str(run[0]) for run in runs[:3])}; "
        f"palestra runs {folder} lists them",
    )


def runs_in(root: Path) -> list[RunManifests]:
    """Return the manifests of each run in a folder and below it. Shards of a run are together, and
    left out where the merged run exists. A re-verified run has no manifest: its path is that of none.
    """
    reverified: list[RunManifests] = [
        [(RunPaths(output).manifest, None)]
        for path in sorted(root.rglob(f"*{REVERIFY_SUFFIX}"))
        if (output := with_compressed(_output_beside(path, REVERIFY_SUFFIX))) is not None
        and is_reverified(output)
    ]
    return [*runs_of(sorted(root.rglob(f"*{MANIFEST_SUFFIX}"))), *reverified]


def runs_of(paths: Iterable[Path]) -> list[RunManifests]:
    """Return the manifests at `paths`, those of each run together, as `runs_in` does."""
    manifests = [read_if_valid(path) for path in paths if path.is_file()]
    merged_by_rows: dict[str, RunManifests] = {}
    for path, manifest in manifests:
        if manifest is not None and manifest.shard is None:
            merged_by_rows.setdefault(manifest.input_digest, []).append((path, manifest))
    groups: list[RunManifests] = []
    groups_by_rows: dict[str, list[RunManifests]] = {}
    for path, manifest in manifests:
        if manifest is None or manifest.shard is None:
            groups.append([(path, manifest)])
            continue
        merged = merged_by_rows.get(manifest.input_digest, ())
        if any(_is_of_run(path, manifest, run) for run in merged):
            continue
        shards_of = groups_by_rows.setdefault(manifest.input_digest, [])
        group = next((run for run in shards_of if _is_of_run(path, manifest, run[0])), None)
        if group is None:
            group = []
            shards_of.append(group)
            groups.append(group)
        group.append((path, manifest))
    return groups


def _is_of_run(path: Path, manifest: Manifest, run: tuple[Path, Manifest | None]) -> bool:
    """Whether a shard of the same input rows has the settings of a run."""
    run_path, run_manifest = run
    files = (RunPaths(output_beside(file)).materialized_inputs for file in (run_path, path))
    return run_manifest is not None and not setting_differences(
        run_manifest.semantics, manifest.semantics, files
    )


def read_if_valid(path: Path) -> tuple[Path, Manifest | None]:
    """Return the path of a manifest, and the manifest; None when it cannot be read."""
    try:
        return path, read_manifest(path)
    except InputDataError:
        return path, None


def output_beside(manifest: Path) -> Path:
    """Return the output of the run whose manifest this is."""
    output = _output_beside(manifest, MANIFEST_SUFFIX)
    return with_compressed(output) or output


def _output_beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name.removesuffix(suffix) + ".jsonl")
