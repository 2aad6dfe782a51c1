"""Writes the selected tasks as a dataset for a new collection, and a file with their origin."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

import numpy as np
import orjson

from palestra.analysis.frame import RunFrame
from palestra.analysis.samples import sample_reader
from palestra.analysis.selection.select import Selection
from palestra.analysis.writing import encode, replacing
from palestra.errors import InputDataError, KnownCause
from palestra.rollouts import SelectedFrom, provenance_path, read_manifest
from palestra.schema import CREATE_PARAMS, JsonDict, JsonObject, RunPaths


def check_destination(out: Path, rollouts: Iterable[Path], *, overwrite: bool) -> None:
    """Raise InputDataError: `out` is a file of the run, or it exists and `overwrite` is false.

    `rollouts`: the rollouts files of the run; files of this run are never overwritten.
    """
    if any(RunPaths(run).writes(out) for run in rollouts):
        raise InputDataError(f"{out} is a file of the run itself", hint="choose another --out")
    existing = [path for path in (out, provenance_path(out)) if path.exists()]
    if existing and not overwrite:
        raise InputDataError(
            f"{existing[0]} exists already",
            hint="choose another --out, or replace it with --overwrite",
            cause=KnownCause.OUTPUT_EXISTS,
        )


def export_selection(
    frame: RunFrame, selection: Selection, out: Path, *, provenance: JsonObject
) -> None:
    """Write the kept tasks to `out`, and `provenance` with one entry per row to a second file.
    Either file is written completely or not at all.

    Each row is the task's first materialized row, byte for byte, without the two indices. If the
    run added a seed to each rollout, the seed is removed too: otherwise all rollouts of a new
    collection would be equal. Raises InputDataError: a file cannot be written.
    """
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with ExitStack() as both:
            rows = both.enter_context(replacing(out))
            provenance_file = both.enter_context(replacing(provenance_path(out)))
            for row in _rows(frame, selection):
                rows.write(row + b"\n")
            entries = list(_entries(selection))
            provenance_file.write(
                orjson.dumps({**provenance, "tasks": entries}, option=orjson.OPT_INDENT_2) + b"\n"
            )
    except OSError as error:
        raise InputDataError(f"cannot write {out}: {error.strerror}") from error


def selection_origin(frame: RunFrame) -> JsonDict:
    """Return the origin of a selection: the run's files, the digests of its manifest, a digest of
    its keys and rewards, the number of its tasks, and the runs from which they were selected.
    """
    return {
        "rollouts": [str(path.absolute()) for path in frame.rollout_places.files],
        "materialized_inputs": [str(path.absolute()) for path in frame.requests.places.files],
        "manifest": _manifest(RunPaths(frame.rollouts_path).manifest),
        "rewards_digest": rewards_digest(frame),
        "tasks": len(frame.requests.tasks),
        "selected_from": [asdict(run) for run in selected_from(frame)],
    }


def selected_from(frame: RunFrame) -> tuple[SelectedFrom, ...]:
    """Return the runs by whose rewards the tasks of a run were chosen; empty without a readable
    manifest.
    """
    try:
        return read_manifest(RunPaths(frame.rollouts_path).manifest).selected_from
    except InputDataError:
        return ()


def rewards_digest(frame: RunFrame) -> str:
    """Return the SHA-256 of all scored keys and rewards; the order of rows does not change it."""
    rollouts = frame.rollouts
    digest = hashlib.sha256(encode([rollouts.tasks, rollouts.starts.tolist()]))
    digest.update(rollouts.rollout_index.astype("<i8").tobytes())
    digest.update(rollouts.reward.astype("<f8").tobytes())
    return digest.hexdigest()


def _rows(frame: RunFrame, selection: Selection) -> Iterator[bytes]:
    requests = frame.requests
    seeded = _adds_seeds(frame)
    first = requests.starts[:-1][np.array(selection.kept, dtype=np.int64)]
    with sample_reader(requests.places.take(first)) as samples:
        for row, position in enumerate(selection.kept):
            fields = samples.fragments(row, requests.tasks[position])
            if seeded:
                params = samples.read(row, requests.tasks[position])[CREATE_PARAMS]
                fields[CREATE_PARAMS] = _without_seed(params)
            yield encode(fields)


def _entries(selection: Selection) -> Iterator[JsonDict]:
    for line, position in enumerate(selection.kept, start=1):
        judged: JsonDict = orjson.loads(orjson.dumps(selection.tasks[position]))
        del judged["verdict"]
        yield {"line": line, **judged}


def _adds_seeds(frame: RunFrame) -> bool:
    """Whether the run set each rollout's index as its seed, checked on two rollouts of one task."""
    requests = frame.requests
    several = np.flatnonzero(np.diff(requests.starts) > 1)
    if not len(several):
        return False
    rows = requests.starts[several[0]] + np.arange(2)
    task = requests.tasks[several[0]]
    with sample_reader(requests.places.take(rows)) as samples:
        seeds = [
            _extra_body(samples.read(row, task).get(CREATE_PARAMS)).get("seed") for row in (0, 1)
        ]
    return bool(seeds == requests.keys.rollout[rows].tolist())


def _without_seed(params: JsonObject) -> JsonDict:
    extra = {name: value for name, value in _extra_body(params).items() if name != "seed"}
    metadata = {name: value for name, value in params["metadata"].items() if name != "extra_body"}
    if extra:
        metadata["extra_body"] = encode(extra).decode()
    remaining = {name: value for name, value in params.items() if name != "metadata"}
    return {**remaining, "metadata": metadata} if metadata else remaining


def _extra_body(params: object) -> JsonObject:
    metadata = params.get("metadata") if isinstance(params, Mapping) else None
    raw = metadata.get("extra_body") if isinstance(metadata, Mapping) else None
    try:
        extra = orjson.loads(raw) if isinstance(raw, str) else raw
    except orjson.JSONDecodeError:
        extra = None
    return extra if isinstance(extra, Mapping) else {}


def _manifest(path: Path) -> JsonObject | None:
    """Return the digests from the run's manifest; None without a readable manifest."""
    try:
        manifest = orjson.loads(path.read_bytes())
        names: Sequence[str] = ("digest", "input_digest", "palestra_version")
        return {name: manifest[name] for name in names}
    except (OSError, ValueError, KeyError, TypeError):
        return None
