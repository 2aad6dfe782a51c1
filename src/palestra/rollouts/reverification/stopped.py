"""Rows whose verification never returned, so that the whole command had to be ended.

The guard of the command writes each into the manifest, as nothing inside could any more. Whoever
goes on counts it as failed, and does not verify it again.
"""

from collections.abc import Mapping
from pathlib import Path

from palestra.errors import CallError, Outcome, RowIdentity
from palestra.rollouts.journal import write_json
from palestra.rollouts.results import described
from palestra.rollouts.reverification.files import ReverifyPaths, read_manifest
from palestra.schema import JsonObject

STOPPED = "stopped"


def record_stopped(output: Path, error: CallError) -> Outcome | None:
    """Write the row that `error` ended into the manifest of the re-verification to `output`.

    None when the error names no row.
    """
    row = error.evidence.row
    if row is None:
        return None
    path = ReverifyPaths(output).manifest
    manifest = read_manifest(path)
    stopped = {**manifest.get(STOPPED, {}), key_of_row(row): described(error)}
    write_json(path, {**manifest, STOPPED: stopped})
    return error.outcome


def stopped_rows(output: Path) -> Mapping[str, JsonObject]:
    """The failures that `record_stopped` has written, by `key_of_row`."""
    path = ReverifyPaths(output).manifest
    return read_manifest(path).get(STOPPED, {}) if path.exists() else {}


def key_of_row(row: RowIdentity) -> str:
    """`3:0`: rows of one task and rollout are one row."""
    return f"{row.task}:{row.rollout}"
