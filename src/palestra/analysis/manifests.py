"""Checks by their manifests, where present, that files belong to one run."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from palestra.errors import InputDataError, KnownCause, Layer
from palestra.rollouts import ShardOf, setting_differences
from palestra.schema import JsonObject, RunPaths, bare_name

_INPUTS = "_materialized_inputs.jsonl"
_MOST_NAMED = 10


class MixedRuns(InputDataError):
    """The files come from different input rows or settings and must not be profiled as one run."""

    layer = Layer.CACHE


@dataclass(frozen=True, slots=True)
class _Fingerprint:
    """The digest, settings and row count from the manifest next to the file `path`."""

    path: Path
    digest: str
    input_digest: str
    semantics: JsonObject
    requested: int | None
    shard: ShardOf | None


@dataclass(frozen=True, slots=True)
class MissingShards:
    """The shards of a run of which no file is there."""

    numbers: tuple[int, ...]
    """Counted from 0."""
    of: int
    """How many shards the run has."""
    rollouts: int
    """How many rollouts of the run are theirs."""
    requested: int
    """How many rollouts the run has."""

    def __str__(self) -> str:
        addition = ", …" if len(self.numbers) > _MOST_NAMED else ""
        numbers = ", ".join(map(str, self.numbers[:_MOST_NAMED])) + addition
        noun = "shard" if len(self.numbers) == 1 else "shards"
        return (
            f"{noun} {numbers} of {self.of} (from 0 on) left no files, so that "
            f"{self.rollouts} of the {self.requested} rollouts of the run are missing"
        )


def check_one_run(
    inputs: Sequence[Path], rollouts: Sequence[Path]
) -> tuple[tuple[str, ...], MissingShards | None]:
    """Raise MixedRuns when two manifests next to these files are of different rows, or of settings
    with a difference that their rows reach.

    Returns a notice naming the files without a manifest when other files have one, and which shards
    are missing. When no file has a manifest, as with files of other tools, nothing is checked.
    """
    manifests = [(path, RunPaths(path).manifest) for path in rollouts]
    manifests += [(path, _of_inputs(path)) for path in inputs]
    fingerprints = [
        _read_fingerprint(path, manifest) for path, manifest in manifests if manifest.exists()
    ]
    if not fingerprints:
        return (), None
    reference = fingerprints[0]
    others = (fingerprint for fingerprint in fingerprints if fingerprint.digest != reference.digest)
    differences = ((fingerprint, _difference(reference, fingerprint)) for fingerprint in others)
    stranger, difference = next((pair for pair in differences if pair[1]), (None, ""))
    if stranger is not None:
        raise MixedRuns(
            f"{stranger.path} belongs to another run than {reference.path}: {difference}",
            hint="pass rollouts and materialized inputs of one run; `palestra compare` compares "
            "two runs",
        )
    missing = _missing_shards(fingerprints)
    without = [str(path) for path, manifest in manifests if not manifest.exists()]
    if not without:
        return (), missing
    addition = f" and {len(without) - _MOST_NAMED} more" if len(without) > _MOST_NAMED else ""
    file_names = ", ".join(without[:_MOST_NAMED]) + addition
    notice = f"no manifest beside {file_names}: that it is of the same run cannot be checked"
    return (notice,), missing


def shards_missing_beside(rollouts: Sequence[Path]) -> MissingShards | None:
    """Return which shards of a run are missing, from the manifests next to these files; None when
    all are there, or nothing says so.

    Raises InputDataError: a manifest cannot be read.
    """
    manifests = [(path, RunPaths(path).manifest) for path in rollouts]
    return _missing_shards([_read_fingerprint(*pair) for pair in manifests if pair[1].exists()])


def _missing_shards(fingerprints: Sequence[_Fingerprint]) -> MissingShards | None:
    requested_by_number = {
        fingerprint.shard.index: fingerprint.requested or 0
        for fingerprint in fingerprints
        if fingerprint.shard is not None
    }
    run_sizes = {(f.shard.of, f.shard.requested) if f.shard else None for f in fingerprints}
    if len(run_sizes) != 1 or (run_size := run_sizes.pop()) is None:
        return None
    of, requested = run_size
    numbers = tuple(number for number in range(of) if number not in requested_by_number)
    if not numbers:
        return None
    rollouts = requested - sum(requested_by_number.values())
    return MissingShards(numbers, of, rollouts, requested)


def requested_beside(inputs: Path) -> int | None:
    """Return the number of rows in the manifest of these materialized inputs; None without a
    manifest or without the number.
    """
    manifest = _of_inputs(inputs)
    return _read_fingerprint(inputs, manifest).requested if manifest.exists() else None


def _of_inputs(inputs: Path) -> Path:
    name = bare_name(inputs)
    stem = name.removesuffix(_INPUTS) if name.endswith(_INPUTS) else Path(name).stem
    return inputs.with_name(f"{stem}_manifest.json")


def _read_fingerprint(path: Path, manifest: Path) -> _Fingerprint:
    try:
        manifest_fields = json.loads(manifest.read_bytes())
        requested = manifest_fields.get("requested")
        return _Fingerprint(
            path,
            str(manifest_fields["digest"]),
            str(manifest_fields.get("input_digest") or ""),
            manifest_fields.get("semantics") or {},
            requested if isinstance(requested, int) else None,
            ShardOf(**shard) if (shard := manifest_fields.get("shard")) else None,
        )
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
        raise InputDataError(
            f"{manifest} cannot be read as the manifest of a run ({error!r})",
            hint="restore the file, or move it away to profile the run without it",
            cause=KnownCause.BROKEN_MANIFEST,
        ) from error


def _difference(first: _Fingerprint, second: _Fingerprint) -> str:
    """Return a clause naming the settings that differ, without their values, or that the input rows
    differ; empty when the rows depend on nothing that differs.
    """
    files = (first.path, second.path)
    differ = [
        line.partition(": ")[0]
        for line in setting_differences(first.semantics, second.semantics, files)
    ]
    if not differ:
        same_rows = first.input_digest == second.input_digest
        is_harmless = same_rows and first.semantics != second.semantics
        return "" if is_harmless else "their input rows differ"
    ellipsis = ", …" if len(differ) > _MOST_NAMED else ""
    return f"they differ in {', '.join(differ[:_MOST_NAMED])}{ellipsis}"
