"""Writes selected tasks as a dataset that can be collected again, and where they come from."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import orjson

from palestra.errors import InputDataError
from palestra.profiling.columns import INDICES, ROLLOUT_INDEX
from palestra.profiling.fingerprints import CREATE_PARAMS
from palestra.profiling.frame import RunFrame
from palestra.profiling.paths import ProfilePaths
from palestra.profiling.samples import SampleReader, sample_reader
from palestra.profiling.scan import RawRow, decode_value
from palestra.profiling.selection import Selection
from palestra.profiling.writing import encode, replacing

PROVENANCE = "_provenance.json"


def provenance_path(out: Path) -> Path:
    """The file beside `out` that says where its rows come from."""
    return out.with_name(out.stem + PROVENANCE)


def check_destination(out: Path, paths: ProfilePaths, *, overwrite: bool) -> None:
    """Raise InputDataError when writing to `out` would take something's place unasked."""
    own = [path for path in paths.all() if path.exists() and out.exists() and out.samefile(path)]
    if own:
        raise InputDataError(f"{out} is a file of the run itself", hint="choose another --out")
    there = [path for path in (out, provenance_path(out)) if path.exists()]
    if there and not overwrite:
        raise InputDataError(
            f"{there[0]} exists already", hint="choose another --out, or --overwrite it"
        )


def export(
    frame: RunFrame, selection: Selection, out: Path, *, provenance: Mapping[str, Any]
) -> None:
    """Write the kept tasks to `out`, whole or not at all, and `provenance` with one entry per row.

    A row is the task's first materialized row, byte for byte, without the two indices, and without
    the seed where the run added one to each rollout: collected again it would make all of them
    alike. Raises InputDataError when it cannot be written.
    """
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with ExitStack() as both:
            rows = both.enter_context(replacing(out))
            beside = both.enter_context(replacing(provenance_path(out)))
            for row in _rows(frame, selection):
                rows.write(row + b"\n")
            entries = list(_entries(selection))
            beside.write(
                orjson.dumps({**provenance, "tasks": entries}, option=orjson.OPT_INDENT_2) + b"\n"
            )
    except OSError as error:
        raise InputDataError(f"cannot write {out}: {error.strerror}") from error


def origin(frame: RunFrame, paths: ProfilePaths) -> dict[str, Any]:
    """Which run it was: its files, its manifest's digests, and a digest of keys and rewards."""
    return {
        "rollouts": str(paths.rollouts),
        "materialized_inputs": str(frame.inputs_path),
        "manifest": _manifest(paths.manifest),
        "rewards_digest": rewards_digest(frame),
    }


def rewards_digest(frame: RunFrame) -> str:
    """SHA-256 of every scored key with its reward, the same whatever the order of rows."""
    rollouts = frame.rollouts
    digest = hashlib.sha256(encode([rollouts.tasks, rollouts.starts.tolist()]))
    digest.update(rollouts.rollout_index.astype("<i8").tobytes())
    digest.update(rollouts.reward.astype("<f8").tobytes())
    return digest.hexdigest()


def without_indices(row: RawRow) -> bytes:
    """A row as it was written, without its two indices."""
    fields = (encode(name) + b":" + bytes(raw) for name, raw in row.items() if name not in INDICES)
    return b"{" + b",".join(fields) + b"}"


def _rows(frame: RunFrame, selection: Selection) -> Iterator[bytes]:
    requests = frame.requests
    starts = requests.starts
    with sample_reader(frame.inputs_path) as samples:
        seeded = _adds_seeds(frame, samples)
        for position in selection.kept:
            offset = int(requests.offset[starts[position]])
            row = samples.read_raw(offset, requests.tasks[position])
            yield without_indices(_without_seed(row) if seeded else row)


def _entries(selection: Selection) -> Iterator[dict[str, Any]]:
    for line, position in enumerate(selection.kept, start=1):
        judged: dict[str, Any] = orjson.loads(orjson.dumps(selection.tasks[position]))
        del judged["verdict"]
        yield {"line": line, **judged}


def _adds_seeds(frame: RunFrame, samples: SampleReader) -> bool:
    """Whether the run gave each rollout its index as seed: its first two rollouts of a task did."""
    requests = frame.requests
    for start, end in zip(requests.starts[:-1].tolist(), requests.starts[1:].tolist(), strict=True):
        if end - start > 1:
            task = requests.tasks[requests.keys.task[start]]
            rows = [samples.read_raw(int(requests.offset[at]), task) for at in (start, start + 1)]
            return all(_seed(row) == decode_value(row[ROLLOUT_INDEX]) for row in rows)
    return False


def _seed(row: RawRow) -> object:
    extra = _extra_body(decode_value(row[CREATE_PARAMS]) if CREATE_PARAMS in row else None)
    return extra.get("seed")


def _without_seed(row: RawRow) -> RawRow:
    params = decode_value(row[CREATE_PARAMS])
    extra = {name: value for name, value in _extra_body(params).items() if name != "seed"}
    metadata = {name: value for name, value in params["metadata"].items() if name != "extra_body"}
    if extra:
        metadata["extra_body"] = encode(extra).decode()
    kept = {name: value for name, value in params.items() if name != "metadata"}
    if metadata:
        kept["metadata"] = metadata
    return {**row, CREATE_PARAMS: msgspec.Raw(encode(kept))}


def _extra_body(params: object) -> Mapping[str, Any]:
    metadata = params.get("metadata") if isinstance(params, Mapping) else None
    raw = metadata.get("extra_body") if isinstance(metadata, Mapping) else None
    try:
        extra = orjson.loads(raw) if isinstance(raw, str) else raw
    except orjson.JSONDecodeError:
        extra = None
    return extra if isinstance(extra, Mapping) else {}


def _manifest(path: Path) -> Mapping[str, Any] | None:
    """The digests of the run's manifest, if it has one that can be read."""
    try:
        held = orjson.loads(path.read_bytes())
        names: Sequence[str] = ("digest", "input_digest", "palestra_version")
        return {name: held[name] for name in names}
    except (OSError, ValueError, KeyError, TypeError):
        return None
